"""The measured pairs nearest to a question, from the compiled knowledge/measurements/index.json.

A pair covers the question if hardware, number of GPUs, model, quantisation, engine and method agree, concurrency and prompt
length lie within a factor of 2, and the pair is clean. What it does not know: whether another version would still do so.
"""

from __future__ import annotations

import json
from functools import cache
from math import log2
from typing import Any

from advisor.paths import knowledge_dir
from advisor.types import Evidence, Facts

Pair = dict[str, Any]
_FIELDS = frozenset(Evidence.model_fields) - {"covers"}
FACTOR = 2.0  # concurrency and prompt tokens may differ by this much
FAR = 5.5  # pairs beyond this distance say nothing about the question
PER_SOURCE = 3  # of the pairs that do not cover: so that one table does not fill the list


@cache
def _table() -> tuple[list[str], list[list[Any]]]:
    """Field names and rows of the index, parsed once; empty where it is absent."""
    path = knowledge_dir() / "measurements" / "index.json"
    try:
        with path.open(encoding="utf-8") as handle:
            data = json.load(handle)
    except (OSError, ValueError):
        return [], []
    return (data.get("fields", []), data.get("pairs", [])) if isinstance(data, dict) else ([], [])


@cache
def pairs(method: str = "") -> tuple[Pair, ...]:
    """The measured pairs of one method, of all where none is named."""
    fields, rows = _table()
    if method and "method" in fields:
        column = fields.index("method")
        rows = [row for row in rows if row[column] == method]
    return tuple({n: v for n, v in zip(fields, row, strict=True) if v is not None} for row in rows)


def nearest_pairs(facts: Facts, method: str, limit: int) -> tuple[Evidence, ...]:
    """All covering pairs with all their metrics, nearest first, then the nearest other runs up to `limit` in all."""
    if facts.hardware is None or facts.model is None:
        return ()
    scored = []
    gaps: dict[tuple[str, str], float] = {}  # each hardware and model is compared once
    for pair in pairs(method):
        distance = _distance(pair, facts, gaps)
        if distance < FAR:
            scored.append((not _covers(pair, facts), distance, pair["run_id"], pair["metric"], pair))
    scored.sort(key=lambda item: item[:4])
    chosen: list[Evidence] = []
    taken: dict[str, int] = {}
    seen: set[str] = set()
    for far, _, run_id, _, pair in scored:
        if far and (len(chosen) >= limit or run_id in seen or taken.get(pair["source"], 0) >= PER_SOURCE):
            continue
        seen.add(run_id)
        if far:
            taken[pair["source"]] = taken.get(pair["source"], 0) + 1
        chosen.append(_evidence(pair, covers=not far))
    return tuple(chosen)


def _evidence(pair: Pair, covers: bool) -> Evidence:
    fields = {name: pair.get(name) for name in _FIELDS if name in pair}
    for name in ("k", "concurrency", "input_tokens", "output_tokens"):
        fields.setdefault(name, None)
    fields.setdefault("quant", "")
    return Evidence.from_plain({**fields, "covers": covers})


def _octaves(measured: float | None, asked: float | None) -> float | None:
    """Distance in factors of two, None where one is unknown."""
    if not measured or not asked:
        return None
    return abs(log2(measured / asked))


def _prompt(pair: Pair) -> float | None:
    found = pair.get("input_tokens") or pair.get("depth_tokens")
    return float(found) if found else None


def _covers(pair: Pair, facts: Facts) -> bool:
    same = (
        pair.get("clean", False)
        and facts.quant is not None
        and facts.model is not None
        and facts.hardware is not None
        and pair["hardware"] == facts.hardware.id
        and pair.get("gpu_count") == facts.gpus
        and pair["model"] == facts.model.id
        and pair.get("quant") == facts.quant.id
        and pair["engine"] == facts.engine
    )
    if not same:
        return False
    limit = log2(FACTOR) + 1e-9
    steps = (_octaves(pair.get("concurrency"), facts.concurrency), _octaves(_prompt(pair), facts.ctx_tokens))
    return all(step is not None and step <= limit for step in steps)


def _distance(pair: Pair, facts: Facts, gaps: dict[tuple[str, str], float]) -> float:
    """Hand-made distance: 0 the same cell; hardware and model count most. `gaps` keeps what was compared before."""
    assert facts.hardware is not None and facts.model is not None
    key = (pair["hardware"], pair["model"])
    if key not in gaps:
        gap = 0.0 if key[0] == facts.hardware.id else 1.5 + _hardware_gap(key[0], facts)
        gaps[key] = gap + (0.0 if key[1] == facts.model.id else 1.0 + _model_gap(key[1], facts))
    total = gaps[key]
    total += 0.0 if pair["engine"] == facts.engine else 1.2
    total += 0.0 if facts.quant is not None and pair.get("quant") == facts.quant.id else 0.5
    total += 0.0 if pair.get("gpu_count") == facts.gpus else 0.6
    streams = _octaves(pair.get("concurrency"), facts.concurrency)
    prompt = _octaves(_prompt(pair), facts.ctx_tokens)
    total += 0.4 * (1.5 if streams is None else streams) + 0.15 * (2.0 if prompt is None else prompt)
    return total + (0.0 if pair.get("clean") else 0.5)


def _hardware_gap(ident: str, facts: Facts) -> float:
    from advisor import knowledge

    assert facts.hardware is not None
    entry = knowledge.index()["hardware"].get(ident, {})
    if entry.get("arch") and entry.get("arch") == facts.hardware.arch:
        return 0.0
    same_class = entry.get("hardware_class") == facts.hardware.hardware_class
    return (0.5 if entry.get("vendor") == facts.hardware.vendor else 1.5) + (0.0 if same_class else 0.5)


def _model_gap(ident: str, facts: Facts) -> float:
    from advisor import knowledge

    assert facts.model is not None
    entry = knowledge.index()["llms"].get(ident, {})
    if entry.get("family") == facts.model.family and entry.get("arch") == facts.model.arch:
        return 0.0
    sparse = "moe" in entry.get("arch", "")
    return (0.5 if entry.get("family") == facts.model.family else 1.5) + (0.0 if sparse == facts.model.is_moe else 0.7)
