"""How well `validate` does on a folder of real configurations: `python -m
advisor.lint.corpus_report tests/corpus`.

The folder holds the files, `index.csv` (case, file, engine, model, method, k, problem, class,
visible) and `classes.csv` (class, codes: the rules that find it). Printed by problem class: found
of visible, errors on known-good files, warnings on them, and what was read otherwise than the index
says.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from advisor import engines
from advisor.domain.nouns import AdvisorError
from advisor.knowledge import store as knowledge
from advisor.lint.report import CheckedLaunch, Report
from advisor.lint.validate import validate


@dataclass
class Score:
    """The figures of one corpus."""

    files: int = 0
    visible: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    misread: list[str] = field(default_factory=list)
    false_errors: list[str] = field(default_factory=list)
    good_warnings: list[int] = field(default_factory=list)
    all_warnings: list[int] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Share of the faults that a file shows and the rules report; 1 where it shows none."""
        total = sum(self.visible.values())
        return sum(self.found.values()) / total if total else 1.0


def score(folder: Path) -> Score:
    """Judge every file that the index names."""
    expected = {row["class"]: row["codes"].split() for row in _rows(folder / "classes.csv")}
    result = Score()
    for row in _rows(folder / "index.csv"):
        result.files += 1
        try:
            report = validate(str(folder / row["file"]))
        except AdvisorError as error:
            result.misread.append(f"{row['case']}: {error}")
            continue
        result.misread += [f"{row['case']}: {text}" for text in differences(report, row)]
        _count(result, report, row, expected)
    return result


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _count(
    result: Score, report: Report, row: dict[str, str], expected: dict[str, list[str]]
) -> None:
    codes = {finding.code for finding in report.findings}
    warnings = sum(finding.severity == "warning" for finding in report.findings)
    result.all_warnings.append(warnings)
    if row.get("visible", row["problem"]) == "yes":
        result.visible[row["class"]] += 1
        if codes & set(expected.get(row["class"], ())):
            result.found[row["class"]] += 1
        else:
            result.missed.append(
                f"{row['case']} {row['class']}: found only {', '.join(sorted(codes)) or 'nothing'}"
            )
    if row["class"] == "known-good":
        result.good_warnings.append(warnings)
        result.false_errors += [
            f"{row['case']} {finding.code} {finding.message}"
            for finding in report.findings
            if finding.severity == "error"
        ]


# ---------------------------------------------------------------- what was read


def differences(report: Report, row: dict[str, str]) -> list[str]:
    """How the reading differs from the index, of the launch of the file that agrees best."""
    if not report.launches:
        return ["no launch was found"]
    return min((_differences(one, row) for one in report.launches), key=len)


def _differences(one: CheckedLaunch, row: dict[str, str]) -> list[str]:
    wrong: list[str] = []
    engine = engines.canonical(row["engine"])
    if engine and one.launch.engine != engine:
        wrong.append(f"engine {one.launch.engine}, not {engine}")
    if row["method"] and one.plan.method != row["method"]:
        wrong.append(f"method {one.plan.method}, not {row['method']}")
    if row["k"] and str(one.plan.k) != row["k"]:
        wrong.append(f"k {one.plan.k}, not {row['k']}")
    if not same_model(one, row["model"]):
        wrong.append(f"model {one.launch.model}, not {row['model']}")
    return wrong


def same_model(one: CheckedLaunch, wanted: str) -> bool:
    """Whether the launch is of the index's model: by identity where known, else by its words."""
    known = knowledge.llm_from_text(wanted)
    if known is not None and one.facts.model is not None:
        return known.id == one.facts.model.id
    names = [
        one.launch.model or "",
        *(flag.value or "" for flag in one.launch.flags if flag.name in ("--hf-file", "--model")),
    ]
    text = re.sub(r"[^a-z0-9]", "", " ".join(names).lower())
    return all(
        word in text
        for word in re.findall(r"[a-z]+[\d.]*|\d+b", wanted.lower().replace(".", ""))[:2]
    )


# ---------------------------------------------------------------- the report


def report_text(result: Score) -> str:
    """The figures as text."""
    lines = [f"{'problem class':<44} found  visible"]
    lines += [
        f"{name:<44} {result.found[name]:>5}  {count:>7}"
        for name, count in sorted(result.visible.items())
    ]
    total, found = sum(result.visible.values()), sum(result.found.values())
    lines += [
        f"{'all visible problems':<44} {found:>5}  {total:>7}  ({result.recall:.0%})",
        "files read as the index says: "
        f"{result.files - len({text.split(':')[0] for text in result.misread})} of {result.files}",
        f"errors on known-good files: {len(result.false_errors)}",
        f"warnings on known-good files: median {median(result.good_warnings or [0]):g}, most "
        f"{max(result.good_warnings or [0])}",
        f"warnings on all files: median {median(result.all_warnings or [0]):g}",
    ]
    for title, items in (
        ("missed", result.missed),
        ("read otherwise", result.misread),
        ("false errors", result.false_errors),
    ):
        lines += [f"{title}: {text}" for text in items]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the figures of a corpus folder."""
    if len(arguments) != 1 or not (Path(arguments[0]) / "index.csv").is_file():
        print(
            "usage: python -m advisor.lint.corpus_report FOLDER (with index.csv and classes.csv)",
            file=sys.stderr,
        )
        return 2
    print(report_text(score(Path(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
