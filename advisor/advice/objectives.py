"""Latency limits of a question: how likely each run keeps their means."""

from collections.abc import Mapping

import numpy as np

from advisor.domain.normal import Z10
from advisor.domain.nouns import Decision, Estimate, Objective, Request
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.prediction.decision import p_meets, plain_sd

EVEN = sourced(0.5, "probability", "an objective met with less is probably missed", "chosen")


def objective(
    request: Request, estimate: Estimate | None, decision: Decision, *, drafts: bool
) -> Objective | None:
    """What becomes of the latency limits of the question; None where it has none."""
    if request.max_tpot_ms is None and request.max_ttft_ms is None:
        return None
    on, off = (p_objective(request, estimate, run) for run in ("value", "baseline"))
    return Objective(
        max_tpot_ms=request.max_tpot_ms,
        max_ttft_ms=request.max_ttft_ms,
        met=None if (runs := on if decision == "on" else off) is None else runs >= EVEN,
        chance=on if drafts else None,
        chance_without=off,
    )


def meets(request: Request | None, estimate: Estimate | None, run: str = "value") -> bool:
    """Whether a run is more likely than not to keep to the latency objectives; none: yes."""
    probability = p_objective(request, estimate, run)
    return probability is None or probability >= EVEN


def p_objective(
    request: Request | None,
    estimate: Estimate | None,
    run: str,
    seen: Mapping[str, float] | None = None,
) -> float | None:
    """Probability that a run keeps to all latency objectives (the smallest one: errors are shared);
    None without any. `seen`: "tpot" and "ttft" in ms where they are not those of the estimate.
    """
    if request is None or (estimate is None and seen is None):
        return None
    chances = []
    for name, limit in (("tpot", request.max_tpot_ms), ("ttft", request.max_ttft_ms)):
        metric = getattr(estimate, f"{name}_ms", None)
        value = seen[name] if seen is not None else getattr(metric, run)
        span = getattr(metric, f"{run}_range", None)
        if seen is None and value is not None and metric is not None and not metric.predictable:
            value = max(value, metric.baseline)  # a gain that is not shown is not counted on
        if limit is None or value is None:
            continue
        sd = plain_sd(name) if span is None else float(np.log(span.p90 / span.p10)) / (2 * Z10)
        chances.append(p_meets(limit, value, sd))
    return min(chances, default=None)


def preferred_run(request: Request | None, estimate: Estimate | None) -> Decision | None:
    """on or off where one run is clearly likelier to meet the latency objectives; else None."""
    on, off = (p_objective(request, estimate, run) for run in ("value", "baseline"))
    least = knowledge.threshold("objective_difference").value
    if on is None or off is None or abs(on - off) < least:
        return None
    return "on" if on > off else "off"
