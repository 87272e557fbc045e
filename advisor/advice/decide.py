"""Judged candidates -> on, off or measure first, and which k: the order, written once. Plans that a
rule forbids are set aside; k has the least expected regret; latency objectives decide where the
runs differ clearly in keeping them, else the posterior of the goal's metric
(prediction/decision.py): the best decision that any plan's own posterior gives. Beyond the largest
documented k a plan is never on. A head that nobody is known to have seen, or what no estimate
prices, is measured first.
"""

from collections.abc import Sequence
from math import exp, log

import numpy as np

from advisor.advice.explain import caveats
from advisor.advice.objectives import meets, preferred_run
from advisor.advice.own_runs.cells import measured_here
from advisor.advice.plans import methods
from advisor.domain.normal import Z10, cdf
from advisor.domain.nouns import Candidate, Decision, Estimate, Facts, Finding, Goal, Interval, Plan
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf.arrays import Floats
from advisor.prediction import utility
from advisor.prediction.decision import decide_one, goal_weights, token_wait

NO_GAIN = Interval(p10=1.0, p50=1.0, p90=1.0)
METRICS = ("output_tok_s", "tpot_ms", "ttft_ms")  # of an estimate
# The metrics of measured rows that speak for a goal, best first.
GOAL_METRICS: dict[Goal, tuple[str, ...]] = {
    "throughput": ("output_tok_s", "request_tok_s"),
    "tpot": ("tpot", "request_tok_s"),
    "ttft": ("ttft",),
    "balanced": ("output_tok_s", "request_tok_s", "tpot"),
}
DECISIONS: tuple[Decision, ...] = ("on", "measure", "off")  # the better one first
UNLISTED = "unlisted"  # where no launch is known for what may draft here
UNSEEN = "unseen_head"  # the deciding step where the checkpoint's MTP head was not seen
UNPRICED = "unpriced"  # where the plan depends on what no estimate has in it
LENGTHS = "lengths"  # where off depends on answers of one length, which nobody states
WAIT_WEIGHT = sourced(
    0.1, "share", "Policy: ten times as long a wait for the first token weighs a fifth", "chosen"
)


class Verdict(NamedTuple):
    """What was decided: `best` indexes the candidates, `rule` names the deciding step; `aside` is
    adaptive verification that is priced and no candidate.
    """

    decision: Decision
    best: int | None
    rule: str
    candidates: tuple[Candidate, ...]
    aside: tuple[Candidate, ...] = ()

    @property
    def best_candidate(self) -> Candidate | None:
        """The best speculative candidate."""
        return self.candidates[self.best] if self.best is not None else None


def decide(facts: Facts, candidates: Sequence[Candidate]) -> Verdict:
    """Choose among judged candidates, the plan without speculation first; fills in regrets."""
    verdict = _by_preference(facts, candidates)
    if verdict.best is not None and verdict.decision == "on" and verdict.rule == "estimate":
        verdict = verdict._replace(best=_proven(facts, verdict.candidates, verdict.best))
    if (best := verdict.best_candidate) is None:
        return verdict
    if verdict.rule in ("estimate", "unsure") and caveats.open_part(facts, best.plan) is not None:
        return verdict._replace(decision="measure", rule=UNPRICED)
    if verdict.decision == "off" and verdict.rule == "estimate":
        plans = [verdict.candidates[i].plan for i in allowed_candidates(verdict.candidates)]
        if caveats.lengths_decide(facts, plans, best.estimate):
            return verdict._replace(decision="measure", rule=LENGTHS)
    if (decision := after_a_look(facts, best.plan, verdict.decision)) == verdict.decision:
        return verdict
    return verdict._replace(decision=decision, rule=UNSEEN)


def _proven(facts: Facts, candidates: Sequence[Candidate], best: int) -> int:
    """The best plan, or one that the user's own A/B showed to win here, where that is not sure."""
    won = measured_here(facts, GOAL_METRICS[facts.aim])
    plans = [(candidate.plan.method, candidate.plan.k) for candidate in candidates]
    shown = [i for i in allowed_candidates(candidates) if won.get(plans[i])]
    if plans[best] in won or not shown:
        return best
    spans = [goal_interval(one.estimate, facts.aim) for one in candidates]
    top = max(shown, key=lambda i: spans[i].p50)
    sd = float(np.hypot(*(np.log(spans[i].p90 / spans[i].p10) / (2 * Z10) for i in (best, top))))
    sure = cdf(float(np.log(spans[best].p50 / spans[top].p50)) / max(sd, 1e-6))
    return best if sure >= knowledge.threshold("decision_on_p_gain").value else top


def after_a_look(facts: Facts, plan: Plan, decision: Decision) -> Decision:
    """The decision, but measure instead of on for an unseen head or an unpriced part."""
    if decision != "on":
        return decision
    return "measure" if caveats.head(facts, plan) or caveats.open_part(facts, plan) else "on"


def _by_preference(facts: Facts, candidates: Sequence[Candidate]) -> Verdict:
    """The verdict where every checkpoint holds what its plan drafts with."""
    goal: Goal = facts.aim
    scored = _score(candidates, goal)
    eligible = allowed_candidates(scored)
    if not eligible:
        speculative = [i for i, c in enumerate(scored) if c.estimate is not None]
        if not speculative and methods.may_draft(facts):
            return Verdict("measure", None, UNLISTED, scored)
        least = min(speculative, key=lambda i: scored[i].regret, default=None)
        return Verdict("off", least, "rule" if speculative else "no_method", scored)
    eligible = [i for i in eligible if meets(facts.request, scored[i].estimate)] or eligible
    support = [f for i in eligible for f in effects(scored[i].findings, "support") if f.k_best]
    # the k that a published sweep of this regime prefers, if one does
    documented = [i for i in eligible if support and scored[i].plan.k == support[0].k_best]
    best = min(documented[:1] or eligible, key=lambda i: (scored[i].regret, scored[i].plan.k))
    chosen = scored[best]
    if facts.output_tokens == 1:
        return Verdict("off", best, "one_token", scored)
    if (objective := preferred_run(facts.request, chosen.estimate)) is not None:
        return Verdict(objective, best, "objective", scored)
    if facts.hardware is not None and facts.hardware.memory_bandwidth_gb_s is None:
        return Verdict("measure", best, "unknown_hardware", scored)
    if chosen.estimate is None:  # never: a plan that speculates has an estimate
        return Verdict("measure", best, "unsure", scored)
    decision = _by_estimate(chosen.estimate, goal)
    surer = [(wanted, eligible) for wanted in DECISIONS[: DECISIONS.index(decision)]]
    if decision == "off":
        surer.append(("measure", _least_beyond(scored)))
    for wanted, indices in surer:
        if (index := _surest(scored, indices, goal, wanted)) is not None:
            decision, best = wanted, index
            break
    return Verdict(decision, best, "unsure" if decision == "measure" else "estimate", scored)


def _by_estimate(estimate: Estimate, goal: Goal) -> Decision:
    """On, off or measure by the posterior of the goal's metric."""
    span = goal_interval(estimate, goal)
    return decide_one(
        span.p50,
        estimate.p_gain,
        goal == "ttft" and span.p10 <= 1.0 <= span.p90,
        estimate.measured_gain,
    )


def _surest(
    candidates: Sequence[Candidate], eligible: Sequence[int], goal: Goal, wanted: Decision
) -> int | None:
    """The plan of least regret whose own posterior decides so or better, a sure gain first."""
    good = DECISIONS[: DECISIONS.index(wanted) + 1]
    estimates = {i: estimate for i in eligible if (estimate := candidates[i].estimate) is not None}
    sure = [i for i, estimate in estimates.items() if _by_estimate(estimate, goal) in good]
    return min(sure, key=lambda i: (candidates[i].regret, candidates[i].plan.k), default=None)


def allowed_candidates(candidates: Sequence[Candidate]) -> list[int]:
    """The speculative candidates that no finding forbids, within the documented limits of k."""
    free = _free(candidates)
    # how many requests run differs by plan: the limit of one says nothing of another
    return [i for i in free if is_allowed(candidates[i])] or free


def is_allowed(candidate: Candidate) -> bool:
    """Whether no finding forbids the plan, or fewer draft tokens than it has are documented."""
    return not vetoes(candidate.findings) and candidate.plan.k <= min(
        (f.k_max for f in effects(candidate.findings, "k_max") if f.k_max), default=candidate.plan.k
    )


def _free(candidates: Sequence[Candidate]) -> list[int]:
    """The speculative candidates that no finding forbids, at every k."""
    return [
        i for i, c in enumerate(candidates) if c.estimate is not None and not vetoes(c.findings)
    ]


def vetoes(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings that forbid the plan: an error, or an engine that does not run on this chip."""
    return tuple(f for f in findings if f.severity == "error" or f.effect == "veto")


def effects(findings: Sequence[Finding], effect: str) -> tuple[Finding, ...]:
    """Findings with this effect on the decision."""
    return tuple(f for f in findings if f.effect == effect)


def goal_interval(estimate: Estimate | None, goal: Goal) -> Interval:
    """The 80 % interval of the goal's speed-up (balanced: the weighted geometric mean)."""
    if estimate is None:
        return NO_GAIN
    weights = goal_weights(goal, paid_share(estimate))
    return average([getattr(estimate, name).speedup for name in METRICS], weights)


def average(gains: Sequence[Interval], weights: Sequence[float]) -> Interval:
    """The weighted geometric mean of gains whose errors go together."""
    low, middle, high = (
        exp(sum(w * log(max(value, 1e-6)) for w, value in zip(weights, part, strict=True)))
        for part in zip(*((gain.p10, gain.p50, gain.p90) for gain in gains), strict=True)
    )
    return Interval(p10=low, p50=middle, p90=high)


def log_percentiles(gain: Interval) -> tuple[Floats, Floats, Floats]:
    """The logarithms of 10th, 50th and 90th percentile, (1,) each."""
    low, middle, high = np.log(np.array([[gain.p10], [gain.p50], [gain.p90]]))
    return low, middle, high


def sample(gain: Interval, dimension: int) -> Floats:
    """Loss-averse utilities for comparing plans, whose errors are mostly shared (SAMPLES,)."""
    shared = utility.symmetric(*log_percentiles(gain))
    return np.asarray(utility.utilities(*shared, utility.deviates(dimension))[0])


def paid_share(estimate: Estimate) -> float:
    """How far quicker tokens are paid by the wait for the first one, 0 to 1."""
    return token_wait(crowds(estimate), estimate.ttft_ms.speedup.p50)


def crowds(estimate: Estimate) -> bool:
    """Whether memory holds fewer requests with speculation than without, so that some wait."""
    return estimate.terms.get("requests_verify", 1) < estimate.terms.get("requests_base", 1)


def common_slots(
    facts: Facts, decision: Decision, rule: str, estimate: Estimate | None
) -> int | None:
    """The requests at once of a replica that both runs are compared at, where TPOT decides for
    speculation and fewer run with it: what a limit on requests gives is not its gain.
    """
    by_tpot = facts.goal == "tpot" or (rule == "objective" and facts.question.max_tpot_ms)
    if decision == "off" or not by_tpot or estimate is None or facts.request is None:
        return None
    return round(estimate.terms["requests_verify"]) if crowds(estimate) else None


def _wait(estimate: Estimate | None, goal: Goal) -> float:
    """What the wait for a slot costs a balanced goal, in log units: a share of the growth of the
    first token's time, counted only where it comes of the queue (elsewhere it is predicted too
    badly).
    """
    if estimate is None or goal != "balanced" or not crowds(estimate):
        return 0.0
    return WAIT_WEIGHT * max(0.0, -float(np.log(max(estimate.ttft_ms.speedup.p50, 1e-6))))


def _score(candidates: Sequence[Candidate], goal: Goal) -> tuple[Candidate, ...]:
    """Fill in expected utility and regret, both in log speed-up; no speculation is the zero."""
    gains = [goal_interval(candidate.estimate, goal) for candidate in candidates]
    samples = [sample(gain, i) for i, gain in enumerate(gains)]
    # each plan's own utility is that of the card, whatever else is proposed beside it
    worth = [float(utility.expected_utility(*log_percentiles(gain))[0]) for gain in gains]
    waits = np.array([[_wait(c.estimate, goal)] for c in candidates])
    regret = utility.regrets(np.stack(samples) - waits)
    return tuple(
        c.replace(utility=worth[i], regret=float(regret[i])) for i, c in enumerate(candidates)
    )


def _least_beyond(candidates: Sequence[Candidate]) -> list[int]:
    """The plans beyond some limit of k that most limits allow, of those that nothing forbids."""
    over = {}
    for i in _free(candidates):
        k, limits = candidates[i].plan.k, effects(candidates[i].findings, "k_max")
        over[i] = sum(f.k_max is not None and f.k_max < k for f in limits)
    return [i for i, n in over.items() if n == min(filter(None, over.values()), default=-1)]


def tells(estimate: Estimate | None, goal: Goal | None) -> bool:
    """Whether sign and size of the goal's change are known: often not for the first token."""
    return goal != "ttft" or estimate is None or estimate.ttft_ms.predictable
