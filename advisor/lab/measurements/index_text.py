"""The index of measured runs as text: what `advisor.knowledge.evidence` reads."""

from __future__ import annotations

import json
from typing import Any

from advisor.knowledge.evidence import FOREIGN, SHARED, Pair


def to_text(entries: list[Pair], note: str) -> str:
    """The text of an index: a first line that says what it is and what each further line's pairs
    share; then its sources with their runs, each with its speed-ups by metric. What a source's runs
    share (its name, its date) is written once, and that a pair is clean not at all.
    """
    fields = ["run_id", *_by_use(entries)]
    dates = {e["source"]: e["date"] for e in entries if "date" in e}
    groups: dict[tuple[Any, ...], dict[str, dict[str, tuple[list[Any], dict[str, float]]]]] = {}
    for entry in entries:
        source, name = entry["source"], entry["run_id"]
        start, _, number = name.rpartition("-")
        row = [number if start == source else FOREIGN + name]
        row += [
            None if (n, entry.get(n)) == ("clean", True) else _short(entry.get(n))
            for n in fields[1:]
        ]
        sources = groups.setdefault(tuple(entry.get(name) for name in SHARED), {})
        run = sources.setdefault(source, {}).setdefault(name, (row, {}))
        run[1][entry["metric"]] = entry["speedup"]
    head = {"generated": note, "fields": fields, "shared": SHARED, "dates": dates}
    lines = (
        head | {"groups": list(groups)},
        *(
            [(name, *_factor_out(fields, list(runs.values()))) for name, runs in s.items()]
            for s in groups.values()
        ),
    )
    return "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )


def _factor_out(
    fields: list[str], runs: list[tuple[list[Any], dict[str, float]]]
) -> tuple[Pair, list[tuple[list[Any], dict[str, float]]]]:
    """What all runs of a source have in common, by column, and the runs without it and without
    trailing columns that have no value.
    """
    first = runs[0][0]
    same = [i for i in range(1, len(first)) if all(row[i] == first[i] for row, _ in runs)]
    common = {fields[i]: first[i] for i in same if first[i] is not None} if len(runs) > 1 else {}
    for row, _ in runs:
        for i, name in enumerate(fields):
            row[i] = None if name in common else row[i]
        while row[-1] is None:
            row.pop()
    return common, runs


def _short(value: Any) -> Any:
    """A whole number without its ".0"."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _by_use(entries: list[Pair]) -> list[str]:
    """The columns of a run, those that most runs fill first."""
    named = {n for entry in entries for n in entry} - {
        *SHARED, "metric", "speedup", "date", "run_id", "source",
    }  # fmt: skip
    given = {n: sum(n in e and (n, e[n]) != ("clean", True) for e in entries) for n in named}
    return sorted(given, key=lambda n: (-given[n], n))
