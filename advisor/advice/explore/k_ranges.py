"""The best k per load as ranges, and whether changing k pays, its costs to the engine priced."""

from collections.abc import Sequence
from itertools import groupby
from math import exp, log
from operator import itemgetter

import numpy as np

from advisor.advice import decide, judge
from advisor.advice.explore.values import KRanges, LoadPoint, RangeLoad, Setting
from advisor.domain.nouns import AdvisorError, Facts, Method, Plan
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.engines import k_ranges as engine_ranges

AXIS = "concurrency"
KRange = tuple[int, int, int]  # batch size from, to, k
NOTHING = log(1e-6)
LEAST_GAIN = sourced(
    0.05, "log gain", "what a change of k must promise at a batch; else one k is simpler", "chosen"
)
MOST_LOSS = sourced(0.01, "log gain", "at no load may the ranges lose more against one k", "chosen")
LEAST_LOSS = sourced(0.005, "log ratio", "own choice: a loss that is said", "chosen")


class LoadFacts(NamedTuple):
    """A load and the facts it was answered by."""

    load: LoadPoint
    facts: Facts


def k_ranges(answered: Sequence[LoadFacts]) -> tuple[KRanges, ...]:
    """One answer for each method and setting; none where concurrency is not varied."""
    groups: dict[Setting, list[LoadFacts]] = {}
    for row in answered:
        if AXIS in dict(row.load.setting):
            others = tuple((name, value) for name, value in row.load.setting if name != AXIS)
            groups.setdefault(others, []).append(row)
    ranges = []
    for setting, group in groups.items():
        method = next((row.load.best_method for row in group if row.load.best_method), None)
        if len(group) > 1 and method is not None:
            ranges.append(_ranges(setting, method, group))
    return tuple(ranges)


def _ranges(setting: Setting, method: Method, group: Sequence[LoadFacts]) -> KRanges:
    sizes = [int(dict(row.load.setting)[AXIS]) for row in group]
    worth = [  # of each allowed k; no speculation is the zero
        {0: 0.0}
        | {
            p.k: p.utility
            for p in row.load.points
            if p.method == method and not p.forbidden_by and not p.adaptive
        }
        for row in group
    ]
    best_ks = [  # where it verifies adaptively, the best of the others
        max(own, key=own.__getitem__) if row.load.best_adaptive else row.load.best_k or 0
        for row, own in zip(group, worth, strict=True)
    ]
    answers = [  # none where it is off or worth less than no speculation
        k if row.load.decision != "off" and own.get(k, NOTHING) > 0 else 0
        for row, own, k in zip(group, worth, best_ks, strict=True)
    ]
    # each load counts for its part of the range, by doublings, however many are asked
    ends = np.log(sizes)
    part = np.diff([ends[0], *(ends[1:] + ends[:-1]) / 2, ends[-1]])
    able = sorted({0, *answers})  # a rule may keep others from being the answer at any load
    utility = np.array([[row.get(k, NOTHING) for k in able] for row in worth])
    missed = utility.max(axis=1, keepdims=True) - utility
    lost = np.average(missed, axis=0, weights=part).tolist()
    regrets, least = dict(zip(able, lost, strict=True)), min(lost)
    # of those that lose hardly more than the best one, that which is on at the most loads
    near = [k for k in able if k and regrets[k] < least + LEAST_GAIN] if lost[0] > least else [0]
    sure = {k: [getattr(row.load.point(k, method), "decision", "") for row in group] for k in near}
    static = min(near, key=lambda k: (-sure[k].count("on"), regrets[k]))
    wanted = [
        k if row[k] >= row.get(static, NOTHING) + log(1 + LEAST_GAIN) else static
        for k, row in zip(answers, worth, strict=True)
    ]
    rows, by_load = (merge_ranges(sizes, ks, sizes[-1]) for ks in (wanted, answers))
    why = f"{_k_text(static)} is best at every load"
    if any(k != static for _, _, k in by_load):
        spans = (f"{_k_text(k)} at {a}{f' to {b}' * (a < b)}" for a, b, k in by_load)
        why = (
            f"{_k_text(static)} throughout is as good; best by load is {', '.join(spans)} requests"
            f", worth less than {100 * LEAST_GAIN:.0f} % more"
        )
    alone = np.array([_gain(row.load, static, method) for row in group])
    switched = [_gain(row.load, k, method) for row, k in zip(group, wanted, strict=True)]
    simple = np.array(switched) - alone
    tops = [  # what each load is answered, adaptive verification too
        row.load.best if k and row.load.best_adaptive else row.load.point(k, method)
        for row, k in zip(group, answers, strict=True)
    ]

    def loads(ks: Sequence[int], gains: Sequence[float]) -> tuple[RangeLoad, ...]:
        return tuple(
            RangeLoad(
                requests=size,
                k=k,
                gain=exp(gain),
                best_k=top.k if top is not None else 0,
                best_gain=top.gain.p50 if top is not None else 1.0,
                best_adaptive=top is not None and top.adaptive,
            )
            for size, k, gain, top in zip(sizes, ks, gains, tops, strict=True)
        )

    fixed = KRanges(
        setting=setting,
        method=method,
        rows=by_load,
        static_k=static,
        gain=exp(np.average(simple, weights=part)),
        pays=False,
        why=why,
        loads=loads([static] * len(sizes), alone.tolist()),
        regrets=tuple(
            sorted(
                (each for each in regrets.items() if all(each[0] in row for row in worth)),
                key=lambda row: (row[1], row[0]),
            )
        ),
    )
    if len(rows) == 1:
        return fixed
    most = max(k for _, _, k in rows)  # the plan is that of the first load that can run it
    first = next(p.plan for row in group if (p := row.load.point(most, method)) is not None)
    try:
        words = engine_ranges.schedule_arguments(first, rows)
    except AdvisorError as refusal:
        return fixed.replace(why=str(refusal))
    ranged = _with_ranges(group, first, rows)
    gains = np.array(ranged) - alone
    enough = log(1 - MOST_LOSS) <= gains.min() and gains.max() >= log(1 + LEAST_GAIN) - 1e-9
    mean = float(np.average(gains, weights=part))
    pays = bool(mean > 0 and enough)
    if pays:
        more = f"up to {100 * (exp(gains.max()) - 1):.0f} % more than {_k_text(static)} throughout"
        why = f"{more}, at {sizes[int(gains.argmax())]} requests"
    elif (cost := mean - log(fixed.gain)) < -LEAST_LOSS:
        why = (
            f"{_k_text(static)} throughout is better: changing k costs the engine "
            f"{100 * (1 - exp(cost)):.0f} % in CUDA graphs"
        )
    fixed = fixed.replace(gain=exp(mean), why=why)
    if not pays:
        return fixed
    # what to start is told for the ranges that pay alone
    return fixed.replace(rows=rows, pays=True, loads=loads(wanted, ranged), **words._asdict())


def merge_ranges(sizes: Sequence[int], ks: Sequence[int], top: int) -> tuple[KRange, ...]:
    """Equal neighbours as ranges: each size speaks up to the next one, the first from 1 on."""
    ends = (*(size - 1 for size in sizes[1:]), max(top, sizes[-1]))
    out: list[KRange] = []
    for k, group in groupby(zip(ends, ks, strict=True), key=itemgetter(1)):
        last = max(end for end, _ in group)
        out.append((out[-1][1] + 1 if out else 1, last, k))
    return tuple(out)


def _gain(load: LoadPoint, k: int, method: Method) -> float:
    """The log of the median gain of one k; a k that cannot run there gains nothing."""
    point = load.point(k, method)
    return log(max(point.gain.p50, 1e-6)) if point is not None else 0.0


def _with_ranges(group: Sequence[LoadFacts], plan: Plan, rows: tuple[KRange, ...]) -> list[float]:
    """Log median gain of the engine's own ranges at each load, all in one call."""
    most, questions = max(k for _, _, k in rows), []
    for row in group:
        own = next((p.plan for p in row.load.points if p.method == plan.method), plan)
        questions.append((row.facts, [own.replace(k=most, k_schedule=rows)], ()))
    pairs = zip(group, judge.estimate_questions(questions)[0], strict=True)
    gains = [decide.goal_interval(later()[0], row.facts.aim) for row, later in pairs]
    return [log(max(gain.p50, 1e-6)) for gain in gains]


def _k_text(k: int) -> str:
    return f"k={k}" if k else "no speculation"
