"""An estimate as a speed-up over another server without speculation than its own plan's."""

from __future__ import annotations

from math import log

from advisor.advice.decide import goal_interval
from advisor.domain.normal import Z10, cdf
from advisor.domain.nouns import Estimate, Goal, Interval


def over(cached: Estimate, estimate: Estimate, goal: Goal) -> Estimate:
    """An estimate with the levels of another run as those without speculation."""
    metrics = {}
    for name in ("output_tok_s", "tpot_ms", "ttft_ms"):
        own, other = getattr(estimate, name), getattr(cached, name)
        if not own.baseline or not other.baseline:
            return estimate  # ratios alone are known
        ratio = other.baseline / own.baseline
        ratio = 1 / ratio if name == "output_tok_s" else ratio
        bounds = own.speedup
        speedup = Interval(p10=bounds.p10 * ratio, p50=bounds.p50 * ratio, p90=bounds.p90 * ratio)
        level = {"baseline": other.baseline, "baseline_range": other.baseline_range}
        metrics[name] = own.model_copy(update={"speedup": speedup, **level})
    made = estimate.model_copy(update=metrics)
    gain = goal_interval(made, goal)
    spread = max(log(gain.p90 / gain.p10) / (2 * Z10), 1e-9)
    return made.model_copy(update={"p_gain": min(estimate.p_gain, cdf(log(gain.p50) / spread))})
