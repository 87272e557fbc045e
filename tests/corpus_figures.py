"""What `validate` reads and reports on a folder of real configurations with `index.csv` (case,
file, engine, model, method, k, problem, class, visible) and `classes.csv` (class, codes).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from advisor import engines
from advisor.domain.nouns import Finding
from advisor.knowledge import store as knowledge
from advisor.lint.report import CheckedLaunch, Report
from advisor.lint.validate import validate


class JudgedFile(NamedTuple):
    """A row of the index and the findings on its file."""

    row: dict[str, str]
    findings: tuple[Finding, ...]
    expected: frozenset[str]  # codes, any of which reports the file's problem

    @property
    def is_visible(self) -> bool:
        return self.row.get("visible", self.row["problem"]) == "yes"

    @property
    def is_missed(self) -> bool:
        return self.is_visible and self.expected.isdisjoint(one.code for one in self.findings)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@cache
def judge_folder(folder: Path) -> tuple[JudgedFile, ...]:
    """Every file that the index names, judged."""
    codes = {row["class"]: row["codes"].split() for row in read_rows(folder / "classes.csv")}
    return tuple(
        JudgedFile(
            row,
            validate(str(folder / row["file"])).findings,
            frozenset(codes.get(row["class"], ())),
        )
        for row in read_rows(folder / "index.csv")
    )


def missed(folder: Path) -> list[str]:
    """The visible problems that no rule reports."""
    return [one.row["case"] for one in judge_folder(folder) if one.is_missed]


def on_good_files(folder: Path, severity: str) -> list[list[str]]:
    """What each known-good file gets of a severity."""
    return [
        [f"{f.code} {f.message}" for f in one.findings if f.severity == severity]
        for one in judge_folder(folder)
        if one.row["class"] == "known-good"
    ]


def differences(report: Report, row: dict[str, str]) -> list[str]:
    """How the reading differs from the index, of the launch of the file that agrees best."""
    if not report.launches:
        return ["no launch was found"]
    return min((list(_differences(one, row)) for one in report.launches), key=len)


def _differences(one: CheckedLaunch, row: dict[str, str]) -> Iterator[str]:
    pairs: dict[str, Any] = {
        engines.canonical(row["engine"]): one.launch.engine,
        row["method"]: one.plan.method,
        row["k"]: str(one.plan.k),
    }
    yield from (
        f"{value}, not {wanted}" for wanted, value in pairs.items() if wanted != value if wanted
    )
    if not is_model(one, row["model"]):
        yield f"model {one.launch.model}, not {row['model']}"


def is_model(one: CheckedLaunch, wanted: str) -> bool:
    """Whether the launch is of the index's model: by identity where known, else by its words."""
    known = knowledge.llm_from_text(wanted)
    if known is not None and one.facts.model is not None:
        return known.id == one.facts.model.id
    values = [
        one.launch.model,
        *(f.value for f in one.launch.flags if f.name in ("--hf-file", "--model")),
    ]
    text = re.sub(r"[^a-z0-9]", "", " ".join(value or "" for value in values).lower())
    words = re.findall(r"[a-z]+[\d.]*|\d+b", wanted.lower().replace(".", ""))
    return all(word in text for word in words[:2])
