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
from advisor.advice.explore.mix import WorkMix
from advisor.domain import normal
from advisor.domain.normal import Z10
from advisor.domain.nouns import Basis, Estimate, Interval, MetricEstimate
from advisor.prediction import intervals
from advisor.prediction.predict import BASES

METRICS = ("output_tok_s", "tpot_ms", "ttft_ms")
GRID = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # requests at once
STEPS = 96  # of the search between one request and the most
Curve = npt.NDArray[np.float64]  # (len(GRID), 3): the Times at each load


class Times(NamedTuple):
    """What one class sees in one arm: output tok/s of the class, TPOT and TTFT in ms."""

    output_tok_s: float
    tpot_ms: float
    ttft_ms: float

    def stay_ms(self, output_tokens: int, least: float = 0.5) -> float:
        """Milliseconds that a request stays: its first token and `least` TPOTs or more."""
        return self.ttft_ms + max(output_tokens - 1, least) * self.tpot_ms


class Loads(NamedTuple):
    """Requests at once of each class of a group, and whether more arrive than are served."""

    each: tuple[float, ...]
    saturated: bool = False


def times(estimate: Estimate, run: str) -> Times:
    """The absolute speeds of a run: "baseline" or "value"."""
    speeds = [getattr(getattr(estimate, name), run) for name in METRICS]
    return Times(*(float("nan") if speed is None else float(speed) for speed in speeds))


def together(
    alone: Sequence[Times], single: Sequence[Times], shares: Sequence[float], outputs: Sequence[int]
) -> list[Times]:
    """What each class sees in the mix. `alone`: each with as many requests at once as the whole mix
    has; `single`: with one at a time; `shares` of the requests at once add up to 1; `outputs` are
    answer tokens per request.
    """
    if len(alone) == 1:
        return list(alone)
    tpot = sum(share * own.tpot_ms for share, own in zip(shares, alone, strict=True))
    waits = (
        max(own.ttft_ms - first.ttft_ms, 0.0) for own, first in zip(alone, single, strict=True)
    )
    wait = sum(share * ms for share, ms in zip(shares, waits, strict=True))
    mixed = []
    for own, first, share, output in zip(alone, single, shares, outputs, strict=True):
        seen = Times(0.0, tpot, min(first.ttft_ms, own.ttft_ms) + wait)
        ratio = own.stay_ms(output) / seen.stay_ms(output)
        mixed.append(seen._replace(output_tok_s=share * own.output_tok_s * ratio))
    return mixed


def mix_estimates(
    alone: Sequence[Estimate],
    single: Sequence[Estimate],
    shares: Sequence[float],
    outputs: Sequence[int],
) -> list[Estimate]:
    """The estimate of each class in the mix, of one plan; arguments as for `together`. The widths
    of the intervals are the classes' own, averaged: their errors are those of one model on one
    machine. One class stays as it is.
    """
    if len(alone) == 1:
        return list(alone)
    plain, spec = (
        together([times(e, run) for e in alone], [times(e, run) for e in single], shares, outputs)
        for run in ("baseline", "value")
    )
    basis: Basis = BASES[max(BASES.index(estimate.basis) for estimate in alone)]
    mixed = []
    for own, before, after in zip(alone, plain, spec, strict=True):
        changed: dict[str, object] = {"basis": basis}
        for name, base, value in zip(METRICS, before, after, strict=True):
            metrics: list[MetricEstimate] = [getattr(estimate, name) for estimate in alone]
            ratio = value / base if name == "output_tok_s" else base / value
            changed[name] = MetricEstimate(
                speedup=move_middle(average([metric.speedup for metric in metrics], shares), ratio),
                predictable=all(metric.predictable for metric in metrics),
                baseline=base,
                value=value,
            )
        mixed.append(own.model_copy(update=changed))
    return mixed


def move_middle(gain: Interval, middle: float) -> Interval:
    """An interval around another middle, as wide in the logarithm."""
    ratio = middle / gain.p50
    return Interval(p10=gain.p10 * ratio, p50=middle, p90=gain.p90 * ratio)


def average(gains: Sequence[Interval], weights: Sequence[float]) -> Interval:
    """The weighted geometric mean of gains whose errors go together."""
    logs = np.log(np.maximum([(gain.p10, gain.p50, gain.p90) for gain in gains], 1e-6))
    low, middle, high = map(float, np.exp(np.asarray(weights) @ logs))
    return Interval(p10=low, p50=middle, p90=high)


def chance(gain: Interval) -> float:
    """P(gain) as the 80 % interval tells it."""
    plain = normal.cdf(log(gain.p50) / max(log(gain.p90 / gain.p10) / (2 * Z10), 1e-6))
    return float(intervals.chance(np.array([plain]), np.zeros(1), np.zeros(1, dtype=bool))[0])


def chance_of_all(chances: Sequence[float], weights: Sequence[float]) -> float:
    """P(gain) of a mix from those of its classes: the mean of the normal quantiles."""
    inner = [min(max(p, 1e-6), 1 - 1e-6) for p in chances]
    return normal.cdf(sum(w * normal.quantile(p) for w, p in zip(weights, inner, strict=True)))


def widen(gain: Interval, sd: float) -> Interval:
    """The interval with another independent error of the log gain."""
    if sd <= 0:
        return gain
    low, high = (
        (log(side / gain.p50) ** 2 + (Z10 * sd) ** 2) ** 0.5 for side in (gain.p10, gain.p90)
    )
    return Interval(p10=gain.p50 * exp(-low), p50=gain.p50, p90=gain.p50 * exp(high))


# ---------------------------------------------------------------- requests at once


def curves(mix: WorkMix) -> dict[int, Curve]:
    """The plain run over GRID of each class that gives a rate, alone. Raises AdvisorError."""
    questions: list[judge.Planned] = []
    open_classes = [i for i, work in enumerate(mix.classes) if work.rate is not None]
    for i in open_classes:
        facts = resolve.bare_facts(mix.request(mix.classes[i], 1))
        base = judge.candidate_plans(facts, judge.weigh).base.plan
        for load in GRID:
            plan = base.model_copy(update={"max_num_seqs": max(load, base.max_num_seqs or 1)})
            questions.append((facts.model_copy(update={"concurrency": load}), (plan,), ()))
    written = iter(judge.estimate_questions(questions))
    return {
        i: np.array([times(next(written)()[0], "baseline") for _ in GRID]) for i in open_classes
    }


def loads(
    mix: WorkMix, group: Sequence[int], known: dict[int, Curve], slowdown: float = 1.0
) -> Loads:
    """The requests at once of the classes of one server."""
    fixed = {i: load for i in group if (load := mix.closed_load(i)) is not None}
    open_ = [i for i in group if i not in fixed]
    if not open_:
        return Loads(tuple(fixed[i] for i in group))
    outputs = [mix.classes[i].output_tokens for i in open_]
    rates = [mix.classes[i].rate or 0.0 for i in open_]
    tried = np.geomspace(1.0, GRID[-1], STEPS)
    tables = []
    for i in open_:  # interpolated in the logarithm of the load
        columns = [np.interp(np.log(tried), np.log(GRID), column) for column in known[i].T]
        tables.append([Times(*map(float, row)) for row in zip(*columns, strict=True)])
    first = [table[0] for table in tables]
    for step, most in enumerate(tried):
        alone = [table[step] for table in tables]
        needs = [r * one.stay_ms(n, 0.0) for r, one, n in zip(rates, alone, outputs, strict=True)]
        seen = together(alone, first, [need / sum(needs) for need in needs], outputs)
        there = {
            i: rate * slowdown * one.stay_ms(output, 0.0) / 1e3
            for i, rate, one, output in zip(open_, rates, seen, outputs, strict=True)
        }
        if sum(there.values()) + sum(fixed.values()) <= most * 1.0001:
            return Loads(tuple({**fixed, **there}[i] for i in group))
    total, room = sum(there.values()), max(GRID[-1] - sum(fixed.values()), 1.0)
    cut = {i: load * room / total for i, load in there.items()}
    return Loads(tuple({**fixed, **cut}[i] for i in group), saturated=True)
