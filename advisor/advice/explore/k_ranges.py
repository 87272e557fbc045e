"""The best k per load as ranges, and whether changing k pays.

What it does: finds the one k that serves all loads of a curve best by the utility that `recommend`
chooses by, the loads where the k of its answer is worth `LEAST_GAIN` more, and what the engine
gains by the ranges, its costs (lost CUDA graphs) priced like any other plan. What it does not know:
loads between those tried; each range reaches from one load tried to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple, cast

from advisor.advice import decide, judge
from advisor.advice.explore.values import KRanges, Load, Setting
from advisor.advice.plans.methods import LEAST_GAIN
from advisor.domain.nouns import AdvisorError, Facts, Goal, Method, Plan
from advisor.domain.sourced import sourced
from advisor.engines import k_ranges as engine_ranges

AXIS = "concurrency"
NOTHING = log(1e-6)
MOST_LOSS = sourced(
    0.01,
    "log gain",
    "at no load may the ranges lose more against one k",
    "chosen",
)
LEAST_LOSS = sourced(0.005, "log ratio", "own choice: a loss that is said", "chosen")


class LoadFacts(NamedTuple):
    """A load and the facts it was answered by."""

    load: Load
    facts: Facts


def k_ranges(answered: Sequence[LoadFacts]) -> tuple[KRanges, ...]:
    """One answer for each method and setting of the other fields; none where concurrency is not
    varied or no method is known.
    """
    groups: dict[Setting, list[LoadFacts]] = {}
    for one in answered:
        if AXIS in dict(one.load.setting):
            others = tuple((name, value) for name, value in one.load.setting if name != AXIS)
            groups.setdefault(others, []).append(one)
    found = []
    for setting, group in groups.items():
        methods = [one.load.best_method for one in group if one.load.best_method is not None]
        if len(group) > 1 and methods:
            found.append(_ranges(setting, methods[0], group))
    return tuple(found)


def _ranges(setting: Setting, method: Method, group: Sequence[LoadFacts]) -> KRanges:
    sizes = [cast(int, dict(one.load.setting)[AXIS]) for one in group]
    worth = [_utilities(one.load, method) for one in group]
    answers = [_answer(one.load, row) for one, row in zip(group, worth, strict=True)]
    static = max(
        sorted({0, *answers}), key=lambda k: (sum(row.get(k, NOTHING) for row in worth), -k)
    )
    wanted = [
        k if row[k] >= row.get(static, NOTHING) + log(1 + LEAST_GAIN) else static
        for k, row in zip(answers, worth, strict=True)
    ]
    rows = _merge_ranges(sizes, wanted)
    alone = [_gain(one.load, static, method) for one in group]
    simple = [
        _gain(one.load, k, method) - before
        for one, k, before in zip(group, wanted, alone, strict=True)
    ]
    by_load = _merge_ranges(sizes, answers)
    made = KRanges(
        setting=setting,
        method=method,
        rows=by_load,
        static_k=static,
        gain=exp(_mean(simple)),
        pays=False,
        why="",
    )
    if len(rows) == 1:
        return made.model_copy(update={"why": _one_k(static, by_load)})
    first = _plan(group, max(k for _, _, k in rows), method)
    try:
        words = engine_ranges.schedule_arguments(first, rows)
    except AdvisorError as refusal:
        return made.model_copy(update={"why": str(refusal)})
    with_rows = _with_ranges(group, first, rows)
    gains = [after - before for after, before in zip(with_rows, alone, strict=True)]
    pays = (
        _mean(gains) > 0
        and max(gains) >= log(1 + LEAST_GAIN) - 1e-9
        and min(gains) >= log(1 - MOST_LOSS)
    )
    return made.model_copy(
        update={
            "rows": rows if pays else by_load,
            "gain": exp(_mean(gains)),
            "pays": pays,
            "why": _why(static, gains, simple, sizes, by_load, pays),
            "arguments": words.arguments,
            "file_name": words.file_name,
            "file_text": words.file_text,
        }
    )


def _utilities(load: Load, method: Method) -> dict[int, float]:
    """The utility of each allowed k here; no speculation is the zero."""
    found = {p.k: p.utility for p in load.points if p.method == method and not p.forbidden_by}
    return {0: 0.0} | found


def _answer(load: Load, utilities: dict[int, float]) -> int:
    """The k of the answer, none where it is off or worth less than no speculation."""
    k = load.best_k or 0
    return k if load.decision != "off" and utilities.get(k, NOTHING) > 0 else 0


def _gain(load: Load, k: int, method: Method) -> float:
    """The log of the median gain of one k; a k that cannot run there gains nothing."""
    point = load.point(k, method)
    return log(max(point.gain.p50, 1e-6)) if point is not None else 0.0


def _merge_ranges(sizes: Sequence[int], wanted: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """Equal neighbours as ranges: each size speaks up to the next one, the first from 1 on."""
    out: list[tuple[int, int, int]] = []
    for index, (size, k) in enumerate(zip(sizes, wanted, strict=True)):
        first = 1 if index == 0 else size
        last = sizes[index + 1] - 1 if index + 1 < len(sizes) else size
        if out and out[-1][2] == k:
            out[-1] = (out[-1][0], last, k)
        else:
            out.append((first, last, k))
    return tuple(out)


def _with_ranges(
    group: Sequence[LoadFacts], plan: Plan, rows: tuple[tuple[int, int, int], ...]
) -> list[float]:
    """Log median gain of the engine's own ranges at each load, all in one call."""
    with_rows = {"k": max(k for _, _, k in rows), "k_schedule": rows}
    plans = []
    for one in group:
        point = next((p for p in one.load.points if p.method == plan.method), None)
        plans.append((point.plan if point is not None else plan).model_copy(update=with_rows))
    made = judge.estimate_questions(
        [(one.facts, [own], ()) for one, own in zip(group, plans, strict=True)]
    )
    out = []
    for one, own, estimated in zip(group, plans, made, strict=True):
        candidate = judge.weigh(one.facts, own, estimated()[0])
        goal: Goal = one.facts.goal or "balanced"
        out.append(log(max(decide.goal_interval(candidate.estimate, goal).p50, 1e-6)))
    return out


def _plan(group: Sequence[LoadFacts], k: int, method: Method) -> Plan:
    """The plan of one k at the first load that can run it."""
    points = (one.load.point(k, method) for one in group)
    return next(point.plan for point in points if point is not None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _k_text(k: int) -> str:
    return f"k={k}" if k else "no speculation"


def _why(
    static: int,
    gains: Sequence[float],
    simple: Sequence[float],
    sizes: Sequence[int],
    by_load: tuple[tuple[int, int, int], ...],
    pays: bool,
) -> str:
    most = max(range(len(gains)), key=lambda i: gains[i])
    if pays:
        return (
            f"up to {100 * (exp(gains[most]) - 1):.0f} % more than {_k_text(static)} throughout, "
            f"at {sizes[most]} requests"
        )
    if _mean(simple) - _mean(gains) > LEAST_LOSS:
        return (
            f"{_k_text(static)} throughout is better: changing k costs the engine "
            f"{100 * (1 - exp(_mean(gains) - _mean(simple))):.0f} % in CUDA graphs"
        )
    return _one_k(static, by_load)


def _one_k(static: int, by_load: tuple[tuple[int, int, int], ...]) -> str:
    """That one k is best at every load, or which is best where and that it is worth too little."""
    if all(k == static for _, _, k in by_load):
        return f"{_k_text(static)} is best at every load"
    told = ", ".join(
        f"{_k_text(k)} at {first}" if first == last else f"{_k_text(k)} at {first} to {last}"
        for first, last, k in by_load
    )
    return (
        f"{_k_text(static)} throughout is as good; best by load is {told} requests, worth less "
        f"than {100 * LEAST_GAIN:.0f} % more"
    )
