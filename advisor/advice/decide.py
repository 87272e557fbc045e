"""Judged candidates -> on, off or measure first, and which k: the order of preference, written
once.

What it does: (1) plans that a rule forbids or that miss an objective are set aside; (2) k is the
one with the least expected regret over the joint uncertainty of the candidates; (3) a clean
measured pair for the cell decides on or off by the sign of its median, and means "measure first"
where the interval lies on the other side of 1; (4) otherwise the sign of the expected utility, in
which a loss weighs more than a gain of the same size (stakes.py); (5) where that is too small for
the spread of the estimate, "measure first", unless documented experience of this very regime points
one way only and the median does not contradict it; documented losses ask for an interval above 1.
Answers of one token end with the prompt: off. What it does not know: why (reasons.py says), and how
the estimate was made (predict.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import (
    Candidate,
    Decision,
    Estimate,
    Evidence,
    Facts,
    Finding,
    Goal,
    Interval,
    Request,
)
from advisor.prediction import utility as stakes
from advisor.prediction.predict import GOAL_WEIGHTS

Array = npt.NDArray[np.float64]

# The metrics of measured rows that speak for a goal, best first.
GOAL_METRICS: dict[Goal, tuple[str, ...]] = {
    "throughput": ("output_tok_s", "request_tok_s"),
    "tpot": ("tpot", "request_tok_s"),
    "ttft": ("ttft",),
    "balanced": ("output_tok_s", "request_tok_s", "tpot"),
}


@dataclass(frozen=True)
class Verdict:
    """What was decided: `best` indexes the candidates (the most promising speculative one), `rule`
    names the deciding step.
    """

    decision: Decision
    best: int | None
    rule: str
    candidates: tuple[Candidate, ...]


def decide(facts: Facts, candidates: Sequence[Candidate]) -> Verdict:
    """Choose among judged candidates; the first must be the plan without speculation.

    Returns the verdict with utilities and regrets filled in. Pure and deterministic.
    """
    goal: Goal = facts.goal or "balanced"
    scored = _score(candidates, goal)
    eligible = allowed(scored)
    if not eligible:
        speculative = [i for i, c in enumerate(scored) if c.estimate is not None]
        best = min(speculative, key=lambda i: scored[i].regret) if speculative else None
        return Verdict("off", best, "rule" if speculative else "no_method", scored)
    eligible = [i for i in eligible if meets(facts.request, scored[i].estimate)] or eligible
    best = _documented_k(scored, eligible) or min(
        eligible, key=lambda i: (scored[i].regret, scored[i].plan.k)
    )
    chosen = scored[best]
    if facts.output_tokens == 1:
        return Verdict("off", best, "one_token", scored)
    objective = _objectives(facts.request, chosen.estimate)
    if objective is not None:
        return Verdict(objective, best, "objective", scored)
    measured = covering_median(facts.evidence, goal, chosen.plan.k, chosen.plan.method)
    interval = goal_interval(chosen.estimate, goal)
    if measured is not None:
        # the estimate knows these pairs: where it still excludes their sign, their load is not this
        # one (other answer lengths)
        if interval.p90 < 1.0 < measured or measured <= 1.0 < interval.p10:
            return Verdict("measure", best, "conflict", scored)
        return Verdict("on" if measured > 1.0 else "off", best, "measured", scored)
    support, caution = effects(chosen.findings, "support"), effects(chosen.findings, "caution")
    warned = bool(caution) and not support
    if unsure(chosen, interval) or (warned and interval.p10 <= 1.0 < interval.p50):
        if support and not caution and interval.p50 > 1:
            return Verdict("on", best, "support", scored)
        if warned and interval.p50 <= 1:
            return Verdict("off", best, "caution", scored)
        return Verdict("measure", best, "interval", scored)
    return Verdict("on" if chosen.utility > 0 else "off", best, "expected", scored)


def allowed(candidates: Sequence[Candidate]) -> list[int]:
    """The speculative candidates that no finding forbids, within the largest k that the documented
    sweeps allow.
    """
    free = [
        i for i, c in enumerate(candidates) if c.estimate is not None and not vetoes(c.findings)
    ]
    return _within_k_limits(candidates, free)


def vetoes(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings that forbid the plan: an error, or a documented veto."""
    return tuple(f for f in findings if f.severity == "error" or f.effect == "veto")


def effects(findings: Sequence[Finding], effect: str) -> tuple[Finding, ...]:
    """Findings with this effect on the decision."""
    return tuple(f for f in findings if f.effect == effect)


def covering_median(
    evidence: Sequence[Evidence], goal: Goal, k: int, method: str = "mtp"
) -> float | None:
    """Median speed-up of the clean measured pairs of the method that cover the cell for this goal;
    those at the same k first.

    Where they disagree on the sign, the nearest run speaks (`evidence` comes nearest first).
    """
    for metric in GOAL_METRICS[goal]:
        rows = [e for e in evidence if e.covers and e.metric == metric and e.method == method]
        same_k = [e for e in rows if e.k == k] or rows
        if same_k:
            if min(e.speedup for e in same_k) < 1 < max(e.speedup for e in same_k):
                same_k = [e for e in same_k if _load(e) == _load(same_k[0])]
            ordered = sorted(e.speedup for e in same_k)
            return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return None


def _load(row: Evidence) -> tuple[float | None, float | None]:
    return row.concurrency, row.input_tokens


def goal_interval(estimate: Estimate | None, goal: Goal) -> Interval:
    """The 80 % interval of the speed-up that the goal looks at (balanced: the weighted geometric
    mean).
    """
    if estimate is None:
        return Interval(p10=1.0, p50=1.0, p90=1.0)
    weights = GOAL_WEIGHTS[goal]
    parts = (estimate.output_tok_s.speedup, estimate.tpot_ms.speedup, estimate.ttft_ms.speedup)

    def mix(values: Sequence[float]) -> float:
        return float(
            np.exp(sum(w * np.log(max(v, 1e-6)) for w, v in zip(weights, values, strict=True)))
        )

    return Interval(
        p10=mix([p.p10 for p in parts]),
        p50=mix([p.p50 for p in parts]),
        p90=mix([p.p90 for p in parts]),
    )


def unsure(candidate: Candidate, interval: Interval) -> bool:
    """Whether the estimate alone is too unsure to say on or off."""
    low, _, high = _logs(interval)
    return bool(stakes.unsure(stakes.certainty(np.array([candidate.utility]), low, high))[0])


def _score(candidates: Sequence[Candidate], goal: Goal) -> tuple[Candidate, ...]:
    """Fill in expected utility and expected regret (both in log speed-up; no speculation is the
    zero).
    """
    logs = [
        None if c.estimate is None else _logs(goal_interval(c.estimate, goal)) for c in candidates
    ]
    regret = stakes.regrets(np.stack([_utility_samples(one, i) for i, one in enumerate(logs)]))
    # each plan's own utility is that of the card, whatever else is proposed beside it
    worth = [0.0 if one is None else float(stakes.expected(*one)[0]) for one in logs]
    return tuple(
        c.model_copy(update={"utility": worth[i], "regret": float(regret[i])})
        for i, c in enumerate(candidates)
    )


def _utility_samples(logs: tuple[Array, Array, Array] | None, index: int) -> Array:
    """Samples of the loss-averse log-utility, for comparing plans whose errors are mostly shared;
    None: no speculation.
    """
    if logs is None:
        return np.zeros(stakes.SAMPLES)
    return np.asarray(stakes.utilities(*logs, stakes.deviates(index))[0], dtype=np.float64)


def _logs(interval: Interval) -> tuple[Array, Array, Array]:
    """10th, 50th and 90th percentile of the log speed-up, each an array of one."""
    low, middle, high = np.log(np.array([[interval.p10], [interval.p50], [interval.p90]]))
    return low, middle, high


def _within_k_limits(candidates: Sequence[Candidate], eligible: list[int]) -> list[int]:
    """Keep to the largest k that the documented sweeps allow, if any eligible plan does."""
    limits = [
        f.k_max for i in eligible for f in candidates[i].findings if f.effect == "k_max" and f.k_max
    ]
    if not limits:
        return eligible
    return [i for i in eligible if candidates[i].plan.k <= min(limits)] or eligible


def _documented_k(candidates: Sequence[Candidate], eligible: Sequence[int]) -> int | None:
    """The eligible plan at the k that a published sweep of this regime prefers, if one does."""
    wanted = [
        f.k_best for i in eligible for f in effects(candidates[i].findings, "support") if f.k_best
    ]
    return next((i for i in eligible if wanted and candidates[i].plan.k == wanted[0]), None)


def meets(request: Request | None, estimate: Estimate | None, arm: str = "value") -> bool:
    """Whether an arm ("value": with speculation, "baseline": without) keeps to the latency
    objectives; none asked: yes.
    """
    if request is None or estimate is None:
        return True
    pairs = ((request.max_tpot_ms, estimate.tpot_ms), (request.max_ttft_ms, estimate.ttft_ms))
    told = [(limit, getattr(metric, arm)) for limit, metric in pairs if limit is not None]
    return all(value is None or value <= limit for limit, value in told)


def _objectives(request: Request | None, estimate: Estimate | None) -> Decision | None:
    """on or off when only one of the arms meets the latency objectives; None when they do not tell
    the arms apart.
    """
    on, off = meets(request, estimate), meets(request, estimate, "baseline")
    return None if on == off else "on" if on else "off"
