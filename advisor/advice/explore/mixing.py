"""Several classes of requests in one server: how many of each are in it at once, and what each
sees, from what each would see alone at the same number of requests.

Classes that give a share or a concurrency keep it: closed loops. Classes that give a rate arrive on
their own, and by Little's law as many are there as arrive while one stays; the fixed point is found
on curves of the plain run.

All requests share the steps, so TPOT is the mean over the requests at once. A prompt waits for the
prompts of all classes, so what a class waits beyond its own prompt is the mean, too. Throughput
follows by Little's law from what a request then takes. With one class everything stays as it was;
a test holds the rest against a simulation event by event. Not known: bursts, and that a faster run
holds fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.advice import judge, resolve
from advisor.advice.explore.mix import Mix
from advisor.domain import normal
from advisor.domain.normal import Z10
from advisor.domain.nouns import Basis, Estimate, Facts, Interval, MetricEstimate, Plan
from advisor.prediction import intervals
from advisor.prediction.predict import BASES

METRICS = ("output_tok_s", "tpot_ms", "ttft_ms")


class Times(NamedTuple):
    """What one class sees in one arm: output tok/s of the class, TPOT and TTFT in ms."""

    output_tok_s: float
    tpot_ms: float
    ttft_ms: float


def times(estimate: Estimate, run: str) -> Times:
    """The absolute speeds of a run: "baseline" or "value"."""
    found = [getattr(getattr(estimate, name), run) for name in METRICS]
    return Times(*(float("nan") if value is None else float(value) for value in found))


def together(
    alone: Sequence[Times], single: Sequence[Times], shares: Sequence[float], outputs: Sequence[int]
) -> list[Times]:
    """What each class sees in the mix.

    Parameters
    ----------
    alone : sequence of Times
        Each class alone, with as many requests at once as the whole mix has.
    single : sequence of Times
        Each class alone, one request at a time.
    shares : sequence of float
        Each class's part of the requests at once; they add up to 1.
    outputs : sequence of int
        Answer tokens per request of each class.
    """
    if len(alone) == 1:
        return list(alone)
    tpot = sum(share * one.tpot_ms for share, one in zip(shares, alone, strict=True))
    wait = sum(
        share * max(one.ttft_ms - first.ttft_ms, 0.0)
        for share, one, first in zip(shares, alone, single, strict=True)
    )
    made = []
    for one, first, share, output in zip(alone, single, shares, outputs, strict=True):
        ttft = min(first.ttft_ms, one.ttft_ms) + wait
        ratio = stay_ms(one.tpot_ms, one.ttft_ms, output) / stay_ms(tpot, ttft, output)
        made.append(Times(share * one.output_tok_s * ratio, tpot, ttft))
    return made


def stay_ms(tpot_ms: float, ttft_ms: float, output: int) -> float:
    """Milliseconds that a request stays: its first token and those after it."""
    return ttft_ms + max(output - 1, 0.5) * tpot_ms


def mix_estimates(
    alone: Sequence[Estimate],
    single: Sequence[Estimate],
    shares: Sequence[float],
    outputs: Sequence[int],
) -> list[Estimate]:
    """The estimate of each class in the mix, of one plan; arguments as for `together`. The widths
    of the intervals are the classes' own, averaged; one class stays as it is.
    """
    if len(alone) == 1:
        return list(alone)
    plain, spec = (
        together([times(e, run) for e in alone], [times(e, run) for e in single], shares, outputs)
        for run in ("baseline", "value")
    )
    basis: Basis = BASES[max(BASES.index(one.basis) for one in alone)]
    return [
        _mix_one(own, alone, shares, before, after, basis)
        for own, before, after in zip(alone, plain, spec, strict=True)
    ]


def _mix_one(
    own: Estimate,
    alone: Sequence[Estimate],
    shares: Sequence[float],
    before: Times,
    after: Times,
    basis: Basis,
) -> Estimate:
    changed: dict[str, MetricEstimate] = {}
    for name in METRICS:
        base, value = getattr(before, name), getattr(after, name)
        ratio = value / base if name == "output_tok_s" else base / value
        low, high = _widths([getattr(one, name).speedup for one in alone], shares)
        speedup = Interval(p10=ratio * exp(low), p50=ratio, p90=ratio * exp(high))
        known = all(getattr(one, name).predictable for one in alone)
        changed[name] = MetricEstimate(
            speedup=speedup, predictable=known, baseline=base, value=value
        )
    return own.model_copy(update={**changed, "basis": basis})


def _widths(intervals: Sequence[Interval], shares: Sequence[float]) -> tuple[float, float]:
    """Logs of p10 / p50 and p90 / p50, averaged over classes: their errors are those of one model
    on one machine.
    """
    low = sum(s * log(i.p10 / i.p50) for s, i in zip(shares, intervals, strict=True))
    high = sum(s * log(i.p90 / i.p50) for s, i in zip(shares, intervals, strict=True))
    return low, high


def average(intervals: Sequence[Interval], weights: Sequence[float]) -> Interval:
    """The weighted geometric mean of gains whose errors go together."""

    def mix(values: Sequence[float]) -> float:
        return exp(sum(w * log(max(v, 1e-6)) for w, v in zip(weights, values, strict=True)))

    return Interval(
        p10=mix([i.p10 for i in intervals]),
        p50=mix([i.p50 for i in intervals]),
        p90=mix([i.p90 for i in intervals]),
    )


def chance(gain: Interval) -> float:
    """P(gain) as the 80 % interval tells it."""
    sd = max(log(gain.p90 / gain.p10) / (2 * Z10), 1e-6)
    plain = normal.cdf(log(gain.p50) / sd)
    found = intervals.chance(np.array([plain]), np.zeros(1), np.zeros(1, dtype=bool))
    return float(found[0])


def chance_of_all(chances: Sequence[float], weights: Sequence[float]) -> float:
    """P(gain) of a mix from those of its classes, whose errors go together: the mean of the normal
    quantiles.
    """
    kept = [min(max(one, 1e-6), 1 - 1e-6) for one in chances]
    return normal.cdf(sum(w * normal.quantile(p) for w, p in zip(weights, kept, strict=True)))


def widen(gain: Interval, sd: float) -> Interval:
    """The interval with another independent error of the log gain."""
    if sd <= 0:
        return gain
    low, high = (log(side / gain.p50) for side in (gain.p10, gain.p90))
    extra = Z10 * sd
    return Interval(
        p10=gain.p50 * exp(-((low**2 + extra**2) ** 0.5)),
        p50=gain.p50,
        p90=gain.p50 * exp((high**2 + extra**2) ** 0.5),
    )


GRID = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STEPS = 96  # of the search between one request and the most
Floats = npt.NDArray[np.float64]
Curve = npt.NDArray[np.float64]  # (len(GRID), 3): the Times at each load


class Loads(NamedTuple):
    """Requests at once of each class of a group, and whether more arrive than are served."""

    each: tuple[float, ...]
    saturated: bool = False


def curves(mix: Mix) -> dict[int, Curve]:
    """The plain run of each class that gives a rate, alone on the machine, over GRID; in one call.
    Raises AdvisorError where such a class cannot run.
    """
    wanted = [i for i, work in enumerate(mix.classes) if work.rate is not None]
    if not wanted:
        return {}
    questions: list[tuple[Facts, tuple[Plan, ...], tuple[()]]] = []
    for i in wanted:
        facts = resolve.bare_facts(mix.request(mix.classes[i], 1))
        base = judge.candidate_plans(facts, judge.weigh).base.plan
        for load in GRID:
            plan = base.model_copy(update={"max_num_seqs": max(load, base.max_num_seqs or 1)})
            questions.append((facts.model_copy(update={"concurrency": load}), (plan,), ()))
    made = [written()[0] for written in judge.estimate_questions(questions)]
    return {
        i: np.array([times(e, "baseline") for e in made[n * len(GRID) : (n + 1) * len(GRID)]])
        for n, i in enumerate(wanted)
    }


def loads(mix: Mix, group: Sequence[int], known: dict[int, Curve], slowdown: float = 1.0) -> Loads:
    """The requests at once of the classes of one server."""
    fixed = {i: told for i in group if (told := closed_concurrency(mix, i)) is not None}
    open_ = [i for i in group if i not in fixed]
    if not open_:
        return Loads(tuple(fixed[i] for i in group))
    outputs = [mix.classes[i].output_tokens for i in open_]
    tried = np.geomspace(1.0, GRID[-1], STEPS)
    tables = [_over(known[i], tried) for i in open_]
    first = [table[0] for table in tables]
    for step, at in enumerate(tried):
        here = [table[step] for table in tables]
        shares = _shares(mix, open_, here, outputs)
        seen = together(here, first, shares, outputs)
        there = {
            i: _rate(mix, i) * slowdown * (one.ttft_ms + max(output - 1, 0) * one.tpot_ms) / 1e3
            for i, one, output in zip(open_, seen, outputs, strict=True)
        }
        if sum(there.values()) + sum(fixed.values()) <= at * 1.0001:
            return Loads(tuple({**fixed, **there}[i] for i in group))
    total = sum(there.values())
    room = max(GRID[-1] - sum(fixed.values()), 1.0)
    cut = {i: load * room / total for i, load in there.items()}
    return Loads(tuple({**fixed, **cut}[i] for i in group), saturated=True)


def closed_concurrency(mix: Mix, index: int) -> float | None:
    """Requests at once of a class that gives a share or a concurrency; None for a rate."""
    work = mix.classes[index]
    if work.concurrency is not None:
        return float(work.concurrency)
    return work.share * (mix.concurrency or 1) if work.share is not None else None


def _rate(mix: Mix, index: int) -> float:
    return mix.classes[index].rate or 0.0


def _over(curve: Curve, loads: Floats) -> list[Times]:
    """The Times at each load, interpolated in the logarithm of the load."""
    where, wanted = np.log(np.array(GRID)), np.log(loads)
    columns = [np.interp(wanted, where, column) for column in curve.T]
    return [Times(*map(float, row)) for row in zip(*columns, strict=True)]


def _shares(
    mix: Mix, group: Sequence[int], here: Sequence[Times], outputs: Sequence[int]
) -> list[float]:
    """Parts of the requests at once, by what each class would need alone."""
    need = [
        _rate(mix, i) * (one.ttft_ms + max(output - 1, 0) * one.tpot_ms)
        for i, one, output in zip(group, here, outputs, strict=True)
    ]
    return [one / sum(need) for one in need]
