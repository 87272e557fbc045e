"""Several classes of requests in one server, from what each would see alone at the same number of
requests: TPOT and the wait behind prompts are the mean over the requests at once, throughput
follows by Little's law. A simulation event by event holds it in a test; bursts are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import numpy as np

from advisor.advice.decide import METRICS, average
from advisor.domain import normal
from advisor.domain.normal import Z10
from advisor.domain.nouns import Basis, Estimate, Interval, MetricEstimate
from advisor.domain.records import NamedTuple
from advisor.prediction import intervals
from advisor.prediction.predict import BASES


class Times(NamedTuple):
    """What one class sees in one arm: output tok/s of the class, TPOT and TTFT in ms."""

    output_tok_s: float
    tpot_ms: float
    ttft_ms: float

    def stay_ms(self, output_tokens: int) -> float:
        """Milliseconds that a request stays: its first token and half a TPOT or more."""
        return self.ttft_ms + max(output_tokens - 1, 0.5) * self.tpot_ms


def times(estimate: Estimate, run: str) -> Times:
    """The absolute speeds of a run: "baseline" or "value"."""
    speeds = [getattr(getattr(estimate, name), run) for name in METRICS]
    return Times(*(float("nan") if speed is None else float(speed) for speed in speeds))


def together(
    alone: Sequence[Times], single: Sequence[Times], shares: Sequence[float], outputs: Sequence[int]
) -> list[Times]:
    """What each class sees in the mix. `alone`: each with as many requests at once as the whole
    mix; `single`: one at a time; `shares` add up to 1; `outputs`: answer tokens per request.
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
    """The estimate of each class in the mix, of one plan, as `together`; the widths of the
    intervals are averaged, as errors are those of one model on one machine.
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
