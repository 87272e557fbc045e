"""The index of measured runs as text, and what a run tells beside its own columns."""

import json
import re
from collections import Counter
from functools import cache
from typing import Any

from advisor.domain.nouns import UnknownFact
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.knowledge.evidence import FOREIGN, SHARED, Pair
from advisor.lab.measurements.columns import Run

EARLY_END = re.compile(r"p[-_ ]?min\b", re.IGNORECASE)
CLIENT_TEXTS = sourced(
    {"llama-benchy": "creative"},
    "kind of text",
    "eugr/llama-benchy README: pieces of a book",
    "read",
)


def to_text(entries: list[Pair], note: str) -> str:
    """The text of an index: a first line that names its columns and metrics, then its sources with
    their runs; what a source's runs share is written once.
    """
    fields = ["run_id", *_by_use(entries)]
    uses = Counter(entry["metric"] for entry in entries)
    metrics = sorted(uses, key=lambda name: (-uses[name], name))
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
    names = {"fields": fields, "metrics": metrics, "shared": SHARED}
    lines = (
        {"generated": note, **names, "dates": dates} | {"groups": list(groups)},
        *(
            [(name, *_factor_out(fields, metrics, list(runs.values()))) for name, runs in s.items()]
            for s in groups.values()
        ),
    )
    return "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )


def _factor_out(
    fields: list[str], metrics: list[str], runs: list[tuple[list[Any], dict[str, float]]]
) -> tuple[Pair, list[tuple[list[Any], list[float | None]]]]:
    """What all runs of a source share, by column, and the runs without it and empty ends."""
    first = runs[0][0]
    same = [i for i in range(1, len(first)) if all(row[i] == first[i] for row, _ in runs)]
    common = {fields[i]: first[i] for i in same if first[i] is not None} if len(runs) > 1 else {}
    short = []
    for row, speedups in runs:
        for i, name in enumerate(fields):
            row[i] = None if name in common else row[i]
        short.append((_trim(row), _trim([speedups.get(metric) for metric in metrics])))
    return common, short


def _trim(row: list[Any]) -> list[Any]:
    """A row without its trailing columns that have no value."""
    while row[-1] is None:
        row.pop()
    return row


def _short(value: Any) -> Any:
    """A whole number without its ".0"."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _by_use(entries: list[Pair]) -> list[str]:
    """The columns of a run, those that most runs fill first."""
    shown = {*SHARED, "metric", "speedup", "date", "run_id", "source"}
    named = {n for entry in entries for n in entry} - shown
    given = {n: sum(n in e and (n, e[n]) != ("clean", True) for e in entries) for n in named}
    return sorted(given, key=lambda n: (-given[n], n))


@cache
def native_quant(name: str | None) -> str | None:
    """The quantisation of a model published in fewer than 16 bits alone (gpt-oss: MXFP4)."""
    try:
        model = knowledge.llm(name or "")
        (only,) = {knowledge.quant(one.quant).id for one in knowledge.checkpoints(model)}
        return only if (knowledge.quant(only).bits or 16) < 16 else None
    except (UnknownFact, ValueError):
        return None


def tokens_a_step(run: Run) -> float | None:
    """Tokens a step as a run states them, by length or by rate; a lookup's rate is of those steps
    alone that draft, and one of drafts that end early says no length.
    """
    if run.acceptance_length is not None or run.spec_method == "ngram":
        return run.acceptance_length
    early = EARLY_END.search(f"{run.spec_extra} {run.notes}")
    if early or run.acceptance_rate is None or not run.k:
        return None
    return round(1 + run.k * run.acceptance_rate, 2)


def client_text(notes: str | None) -> str | None:
    """The kind of text that a named benchmark client sends, where the row leaves it open."""
    return next((kind for name, kind in CLIENT_TEXTS.items() if name in (notes or "")), None)
