"""The measured pairs nearest to a question. One covers it if hardware, GPUs, model, quantisation,
engine and method agree, concurrency and prompt lie within a factor of 2, and it is clean. The index
is in groups that share all but the load, whose distance is the least of their pairs.
"""

import json
from functools import cache
from math import log2
from typing import Any

from advisor.domain.nouns import Evidence, Facts
from advisor.domain.paths import read_data
from advisor.domain.records import NamedTuple
from advisor.knowledge import store as knowledge

Pair = dict[str, Any]
Scored = tuple[bool, float, str, str, Pair]  # whether it does not cover, distance, run, metric
INDEX_NAME = "index.jsonl"
SHARED = ("hardware", "gpu_count", "model", "quant", "engine", "method")  # by the pairs of a line
_FIELDS = frozenset(Evidence.model_fields) - {"covers"}
FOREIGN = "="  # before the name of a run that does not begin with its source's
FACTOR = 2.0  # concurrency and prompt tokens may differ by this much
ANSWER_FACTOR = 4  # answers of other lengths mix prompts and decoding otherwise
FAR = 5.5  # pairs beyond this distance say nothing about the question
PER_SOURCE = 3  # of the pairs that do not cover: so that one table does not fill the list


class Index(NamedTuple):
    """The index as read: names of columns and metrics, groups, their unparsed lines, dates."""

    fields: tuple[str, ...]
    metrics: tuple[str, ...]
    groups: tuple[Pair, ...]
    lines: tuple[str, ...]
    dates: dict[str, str]

    def pairs(self, group: int) -> list[Pair]:
        """The pairs of one line; none where it is damaged."""
        shared = {name: value for name, value in self.groups[group].items() if value is not None}
        try:
            return [
                shared | self._run(source, common, row) | {"metric": metric, "speedup": speedup}
                for source, common, runs in json.loads(self.lines[group])
                for row, speedups in runs
                for metric, speedup in zip(self.metrics, speedups, strict=False)
                if speedup is not None
            ]
        except (ValueError, TypeError, AttributeError, KeyError):
            return []

    def _run(self, source: str, common: Pair, row: list[Any]) -> Pair:
        """What the pairs of one run share; `common`: what its source's runs here have."""
        run = common | {n: v for n, v in zip(self.fields, row, strict=False) if v is not None}
        name = run["run_id"]
        own = {"run_id": name[1:] if name.startswith(FOREIGN) else f"{source}-{name}"}
        dated = {"date": self.dates[source]} if source in self.dates else {}
        if "concurrency" in run:
            run["concurrency"] = float(run["concurrency"])
        return {"clean": True, "source": source} | run | own | dated


@cache
def index() -> Index:
    """The shipped index, its first line parsed; empty where it is absent or broken."""
    try:
        return from_text(read_data(f"knowledge/measurements/{INDEX_NAME}").decode("utf-8"))
    except (OSError, ValueError, LookupError, TypeError):
        return Index((), (), (), (), {})


def from_text(text: str) -> Index:
    """Raises ValueError, LookupError or TypeError where the first line is not that of an index."""
    first, *lines = text.split("\n")
    head = json.loads(first)
    groups = tuple(dict(zip(head["shared"], values, strict=True)) for values in head["groups"])
    if len(lines) < len(groups):
        raise ValueError("lines are missing")
    names = (tuple(head["fields"]), tuple(head["metrics"]))
    return Index(*names, groups, tuple(lines[: len(groups)]), dict(head["dates"]))


# Many files ask the same. Kept with the index that they are of: another one is not answered.
_ANSWERED: dict[tuple[Any, ...], tuple[Index, tuple[Evidence, ...]]] = {}
_PARSED: dict[int, tuple[Index, list[Pair]]] = {}
MOST_KEPT = 4096


def _pairs_of(found: Index, group: int) -> list[Pair]:
    """The pairs of a line, parsed once a process; not to be changed."""
    kept = _PARSED.get(group)
    if kept is None or kept[0] is not found:
        kept = _PARSED[group] = (found, found.pairs(group))
    return kept[1]


def pairs(method: str = "") -> tuple[Pair, ...]:
    """The measured pairs of one method, of all where none is named."""
    found = index()
    wanted = (i for i, group in enumerate(found.groups) if method in ("", group["method"]))
    return tuple(pair for i in wanted for pair in found.pairs(i))


def nearest_pairs(facts: Facts, method: str = "mtp", limit: int = 6) -> tuple[Evidence, ...]:
    """All covering pairs with all their metrics, nearest first, then other runs up to `limit`."""
    if facts.hardware is None or facts.model is None:
        return ()
    quant = facts.quant.id if facts.quant is not None else None
    where = (facts.hardware.id, facts.gpus, facts.model.id, quant, facts.engine, method)
    key = (*where, facts.concurrency, facts.ctx_tokens, facts.output_tokens, limit)
    found = index()
    kept = _ANSWERED.get(key)
    if kept is None or kept[0] is not found:
        if len(_ANSWERED) >= MOST_KEPT:
            _ANSWERED.clear()
        kept = _ANSWERED[key] = (found, _nearest(found, facts, method, limit))
    return kept[1]


def _nearest(found: Index, facts: Facts, method: str, limit: int) -> tuple[Evidence, ...]:
    gaps: dict[tuple[str, str], float] = {}  # each hardware and model is compared once
    bounds = [
        (_group_distance(g, facts, gaps), i)
        for i, g in enumerate(found.groups)
        if g["method"] == method
    ]
    near = sorted(bound for bound in bounds if bound[0] < FAR)
    scored: list[Scored] = []
    chosen: list[Pair] = []
    for count, (least, group) in enumerate(near, 1):
        for pair in _pairs_of(found, group):
            distance = least + _load_distance(pair, facts)
            if distance < FAR:
                far = least > 0 or not _covers(pair, facts)  # one that covers shares all of SHARED
                scored.append((far, distance, pair["run_id"], pair["metric"], pair))
        # choosing costs more than reading: at 1, 2, 4, 8 ... groups read
        if count & (count - 1) == 0 or count == len(near):
            chosen = _choose(scored, limit, near[count][0] if count < len(near) else FAR)
            if len(chosen) >= limit:
                break
    return tuple(_evidence(pair, covers=_covers(pair, facts)) for pair in chosen)


def covering_pairs(facts: Facts, method: str) -> tuple[Evidence, ...]:
    """The covering pairs alone, nearest first: all of one group, so that no other is read."""
    if facts.hardware is None or facts.model is None or facts.quant is None:
        return ()
    found = index()
    values = (facts.gpus, facts.model.id, facts.quant.id, facts.engine, method)
    here = dict(zip(SHARED, (facts.hardware.id, *values), strict=True))
    same = [i for i, group in enumerate(found.groups) if group == here]
    near = [pair for group in same for pair in _pairs_of(found, group) if _covers(pair, facts)]
    near.sort(key=lambda pair: (_load_distance(pair, facts), pair["run_id"], pair["metric"]))
    return tuple(_evidence(pair, covers=True) for pair in near)


def _choose(scored: list[Scored], limit: int, unread: float) -> list[Pair]:
    """The answer among the pairs before every unread one; those lie at `unread` or further."""
    scored.sort(key=lambda item: item[:4])
    chosen: list[Pair] = []
    taken: dict[str, int] = {}
    seen: set[str] = set()
    for far, distance, run_id, _, pair in scored:
        if far and (distance >= unread or len(chosen) >= limit):
            break
        if far and (run_id in seen or taken.get(pair["source"], 0) >= PER_SOURCE):
            continue
        seen.add(run_id)
        if far:
            taken[pair["source"]] = taken.get(pair["source"], 0) + 1
        chosen.append(pair)
    return chosen


def _evidence(pair: Pair, covers: bool) -> Evidence:
    fields = {name: pair.get(name) for name in _FIELDS if name in pair}
    for name in ("k", "concurrency", "input_tokens", "output_tokens"):
        fields.setdefault(name, None)
    fields.setdefault("quant", "")
    return Evidence.from_plain({**fields, "covers": covers})


def _octaves(measured: float | None, asked: float | None) -> float | None:
    """Distance in factors of two, None where one is unknown."""
    return abs(log2(measured / asked)) if measured and asked else None


def _prompt(pair: Pair) -> float | None:
    found = pair.get("input_tokens") or pair.get("depth_tokens")
    return float(found) if found else None


def _covers(pair: Pair, facts: Facts) -> bool:
    if not pair.get("clean") or None in (facts.quant, facts.model, facts.hardware):
        return False
    assert facts.quant is not None and facts.model is not None and facts.hardware is not None
    here = (facts.hardware.id, facts.gpus, facts.model.id, facts.quant.id, facts.engine)
    if tuple(pair.get(name) for name in SHARED[:5]) != here:
        return False
    # many sources do not state the answer
    answer = _octaves(pair.get("output_tokens"), facts.output_tokens) or 0.0
    streams = _octaves(pair.get("concurrency"), facts.concurrency)
    prompt = _octaves(_prompt(pair), facts.ctx_tokens)
    limit = log2(FACTOR) + 1e-9
    near = all(step is not None and step <= limit for step in (streams, prompt))
    return near and answer <= log2(ANSWER_FACTOR) + 1e-9


def _group_distance(group: Pair, facts: Facts, gaps: dict[tuple[str, str], float]) -> float:
    """Distance of what a group shares, hardware and model most; `gaps` keeps those compared."""
    assert facts.hardware is not None and facts.model is not None
    key = (group["hardware"], group["model"])
    if key not in gaps:
        gap = 0.0 if key[0] == facts.hardware.id else 1.5 + _hardware_gap(key[0], facts)
        gaps[key] = gap + (0.0 if key[1] == facts.model.id else 1.0 + _model_gap(key[1], facts))
    total = gaps[key]
    total += 0.0 if group["engine"] == facts.engine else 1.2
    total += 0.0 if facts.quant is not None and group["quant"] == facts.quant.id else 0.5
    return total + (0.0 if group["gpu_count"] == facts.gpus else 0.6)


def _load_distance(pair: Pair, facts: Facts) -> float:
    """What the load adds: 0 the same concurrency and prompt, clean."""
    streams = _octaves(pair.get("concurrency"), facts.concurrency)
    prompt = _octaves(_prompt(pair), facts.ctx_tokens)
    load = 0.4 * (1.5 if streams is None else streams) + 0.15 * (2.0 if prompt is None else prompt)
    return load + (0.0 if pair.get("clean") else 0.5)


def _hardware_gap(ident: str, facts: Facts) -> float:
    assert facts.hardware is not None
    entry = knowledge.index()["hardware"].get(ident, {})
    if entry.get("arch") and entry.get("arch") == facts.hardware.arch:
        return 0.0
    gap = 0.5 if entry.get("vendor") == facts.hardware.vendor else 1.5
    return gap if entry.get("hardware_class") == facts.hardware.hardware_class else gap + 0.5


def _model_gap(ident: str, facts: Facts) -> float:
    assert facts.model is not None
    entry = knowledge.index()["llms"].get(ident, {})
    if entry.get("family") == facts.model.family and entry.get("arch") == facts.model.arch:
        return 0.0
    gap = 0.5 if entry.get("family") == facts.model.family else 1.5
    return gap if ("moe" in entry.get("arch", "")) == facts.model.is_moe else gap + 0.7
