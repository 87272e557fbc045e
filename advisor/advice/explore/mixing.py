"""Several classes of requests in one server: what each sees, from what each would see alone at the
same number of requests.

All requests share the steps, so TPOT is the mean over the requests at once. A prompt waits for the
prompts of all classes, so what a class waits beyond its own prompt is the mean, too. Throughput
follows by Little's law from what a request then takes. With one class everything stays as it was;
a test holds the rest against a simulation event by event. Not known: bursts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

import numpy as np

from advisor.domain import normal
from advisor.domain.normal import Z10
from advisor.domain.nouns import Basis, Estimate, Interval, MetricEstimate
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
        changed[name] = MetricEstimate(speedup=speedup, baseline=base, value=value)
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
