"""What rules document of a regime, as observations of the posterior.

A documented loss is one observation of the log speed-up, with the scatter that owners of one and
the same setting show: it moves the median and narrows the interval, and does not switch the
decision. Measured runs with a row of their own are part of the estimate already. What it does not
know: by how much a documented case lost where its source gives no number; then the median of the
published losses stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import NamedTuple

from advisor.domain import normal
from advisor.domain.normal import Z10
from advisor.domain.nouns import Effect, Estimate, Finding, Interval
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.prediction.predict import with_levels

LEAST_STRENGTH = sourced(
    0.02,
    "share",
    "below it an observation would not move the second digit of the gain",
    "chosen",
)
_KNOWN: dict[Effect | None, tuple[str, str]] = {
    "loss": ("documented_loss", "owner_sd_same_regime"),
    "caution": ("documented_caution", "owner_sd_any"),
}


class Observation(NamedTuple):
    """One documented log speed-up and the standard deviation with which it holds here."""

    log_speedup: float
    sd: float


def documented_observations(findings: Sequence[Finding]) -> tuple[Observation, ...]:
    """The observations behind findings: at most one, since several rules often rest on the same
    reports. Documented gains are rows of measurements, and so part of the estimate already.
    """
    made = [
        _observation(finding.strength, *_KNOWN[finding.effect])
        for finding in findings
        if finding.effect in _KNOWN and finding.strength >= LEAST_STRENGTH
    ]
    return (min(made, key=lambda one: one.sd),) if made else ()


def _observation(strength: float, value: str, sd: str) -> Observation:
    """A case that lies towards the border of what was documented says less: a wider scatter."""
    held = knowledge.threshold(sd).value / sqrt(strength)
    return Observation(log(knowledge.threshold(value).value), held)


def update(
    estimate: Estimate, observations: Sequence[Observation], output_tokens: int | None = None
) -> Estimate:
    """The estimate with the observations taken into its output tok/s, TPOT and P(gain).

    The prior of each metric is normal in the log speed-up with the two half-widths of its 80 %
    interval; the posterior's median is the precision-weighted mean. Where speculation lets fewer
    requests run, see `_in_a_queue`, which needs the tokens of an answer.
    """
    if not observations:
        return estimate
    if estimate.terms.get("requests_verify", 1) < estimate.terms.get("requests_base", 1):
        return _in_a_queue(estimate, observations, output_tokens or 1)
    changed = {}
    for name in ("output_tok_s", "tpot_ms"):
        metric = getattr(estimate, name)
        speedup = posterior(metric.speedup, observations)
        changed[name] = (
            metric.model_copy(update={"speedup": speedup})
            if metric.baseline is None
            else with_levels(name, speedup, metric.baseline)
        )
    before, after = estimate.output_tok_s.speedup, changed["output_tok_s"].speedup
    return estimate.model_copy(update=changed | {"p_gain": _p_gain(estimate.p_gain, before, after)})


def _in_a_queue(
    estimate: Estimate, observations: Sequence[Observation], output_tokens: int
) -> Estimate:
    """The same where requests wait for those that run: a documented loss is one of the whole.

    The memory says how many run, so a loss that is documented elsewhere does not raise what so few
    of them give, and leaves the step of those that run as it is; the others wait longer: TTFT is
    what the answers of all leave beside their own.
    """
    whole, step, first = estimate.output_tok_s, estimate.tpot_ms, estimate.ttft_ms
    speedup = posterior(whole.speedup, observations)
    if speedup.p50 >= whole.speedup.p50:
        return estimate
    chance = {"p_gain": _p_gain(estimate.p_gain, whole.speedup, speedup)}
    if None in (whole.baseline, step.value, first.baseline, first.value):
        changed = {"output_tok_s": whole.model_copy(update={"speedup": speedup})}
        return estimate.model_copy(update=changed | chance)
    own = (output_tokens - 1) * (step.value or 0.0)
    waited = ((first.value or 0.0) + own) * whole.speedup.p50 / speedup.p50 - own
    longer = (first.value or 0.0) / waited
    ttft = Interval(**{name: value * longer for name, value in first.speedup.model_dump().items()})
    changed = {
        "output_tok_s": with_levels("output_tok_s", speedup, whole.baseline or 0.0),
        "ttft_ms": with_levels("ttft", ttft, first.baseline or 0.0),
    }
    return estimate.model_copy(update=changed | chance)


def posterior(prior: Interval, observations: Sequence[Observation]) -> Interval:
    """The 80 % interval after the observations."""
    low, middle, high = log(prior.p10), log(prior.p50), log(prior.p90)
    sd = max((high - low) / (2 * Z10), 1e-3)
    precision = 1 / sd**2 + sum(1 / one.sd**2 for one in observations)
    mean = (middle / sd**2 + sum(one.log_speedup / one.sd**2 for one in observations)) / precision
    narrower = sqrt(1 / precision) / sd
    return Interval(
        p10=exp(mean - (middle - low) * narrower),
        p50=exp(mean),
        p90=exp(mean + (high - middle) * narrower),
    )


def _p_gain(prior: float, before: Interval, after: Interval) -> float:
    """P(gain) moved by as many standard deviations as the median was, in step with the interval."""
    share = min(max(prior, 1e-3), 1 - 1e-3)
    spread = [max(log(i.p90 / i.p10) / (2 * Z10), 1e-3) for i in (before, after)]
    moved = log(after.p50) / spread[1] - log(before.p50) / spread[0]
    chance = normal.cdf(normal.quantile(share) + moved)
    chance = max(chance, 0.9) if after.p10 > 1 else min(chance, 0.9)  # as the interval leaves it
    return min(chance, 0.1) if after.p90 < 1 else max(chance, 0.1)
