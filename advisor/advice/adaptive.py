"""The third way beside off and a fixed block of drafts: vLLM's adaptive verification, priced.

Its price is that of the fixed block, times what the best number of verified drafts of the same cost
curve gives more, times what published pairs measured at as many tokens a step. It is proposed where
it is faster than every fixed block with a probability of at least `SURE`, and refused where
the rules say that the release does not run it. What it does not know: the acceptance of single
requests, and SGLang's and llama.cpp's own ways, whose answer over a range of loads is a k for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from advisor.advice import decide, judge
from advisor.advice.wording import reason, whole_percent
from advisor.domain.nouns import Candidate, Estimate, Facts, Finding, Plan, Reason
from advisor.domain.sourced import sourced
from advisor.domain.versions import before, release
from advisor.engines.vllm import ADAPTIVE, verifies_adaptively
from advisor.perf import memory
from advisor.prediction.estimates import Ratio, adaptive_row, ratio_at, times

SURE = sourced(
    0.8,
    "probability",
    "Policy: `sweep`, `compare` and `plan` price fixed blocks. On 29 published comparisons, each "
    "priced without its owner, 6.1 % of the speed is lost so, 3.1 % from 0.6 on, 8.5 % never",
    "chosen",
)
WEIGHTS = sourced(
    (0.35, 1.5), "order of reasons", "own choice: late, or before how a step is priced", "chosen"
)
REFUSED = "SD285"  # what a release does not run beside speculation


def trial(facts: Facts, fixed: Sequence[Candidate]) -> tuple[tuple[Candidate, ...], Reason | None]:
    """Adaptive verification of the best block beside the candidates with fixed blocks: it too where
    it pays, and what is said of it.
    """
    free = [c for c in fixed if c.estimate is not None and not decide.vetoes(c.findings)]
    blocks = [c for c in free if runs(facts, c.plan)]
    if not blocks:
        return (), None
    within = [c for c in free if decide.is_allowed(c)]
    allowed = within or free
    best, block = (max(c, key=lambda c: _log_gain(facts, c.estimate)) for c in (allowed, blocks))
    assert block.estimate is not None  # of those that are free
    ratio = price(facts, block.plan, fixed)
    estimate = times(block.estimate, ratio)
    candidate = judge.judge(facts, with_adaptive(block.plan), estimate)
    more = _log_gain(facts, block.estimate) + ratio.log - _log_gain(facts, best.estimate)
    better = ratio.beside(more, None if block is best else block.estimate.output_tok_s.speedup)
    stops = _stops(candidate)
    limited = bool(within) and not decide.is_allowed(candidate)
    pays = better >= SURE and not stops and not limited and not decide.vetoes(candidate.findings)
    limit = (
        "a rule allows fewer drafts" if limited else f"it is a candidate from {100 * SURE:.0f} % on"
    )
    priced = f"{whole_percent(exp(more))} beside the best fixed k={best.plan.k}"
    text = (
        f"No adaptive verification here: {stops[0].message}"
        if stops
        else f"Adaptive verification of k={block.plan.k} is priced {priced}, faster with "
        f"{100 * better:.0f} %; {limit}"
    )
    brief = f"verified adaptively {priced}, faster with {100 * better:.0f} %" if pays else ""
    said = reason(text, *adaptive_row()["sources"], weight=WEIGHTS[pays], brief=brief)
    return (candidate,) if pays else (), said


def late_unless(said: Reason | None, best: Candidate | None) -> Reason | None:
    """What is said of it, among the late reasons where the answer does not verify adaptively."""
    if said is None or (best is not None and verifies_adaptively(best.plan)):
        return said
    return said.replace(weight=min(WEIGHTS), brief="")


def runs(facts: Facts, plan: Plan) -> bool:
    """Whether the release verifies blocks of this method and length adaptively; what it refuses
    beside other options, the rules know.
    """
    row, amd = adaptive_row(), facts.hardware is not None and facts.hardware.vendor == "amd"
    since = row["amd_since" if amd else "since" if plan.method == "dspark" else "others_since"]
    block = plan.method in row["methods"] and plan.k >= row["least_k"] and not plan.k_schedule
    graphs = facts.hardware is None or facts.hardware.vendor in ("nvidia", "amd")  # it needs them
    known = plan.engine == "vllm" and graphs and release(plan.engine_version) is not None
    return block and known and not before(plan.engine_version, since)


def with_adaptive(plan: Plan) -> Plan:
    """The plan with adaptive verification on."""
    return plan.replace(extra=(*plan.extra, (ADAPTIVE, "true")))


def price(facts: Facts, plan: Plan, fixed: Sequence[Candidate] = ()) -> Ratio:
    """Adaptive over fixed: what the best of fewer verified drafts gives more, and what was measured
    at the tokens of this step. `fixed`: candidates whose estimates are at hand.
    """
    shorter = [plan.replace(k=k) for k in range(1, plan.k + 1)]
    estimates = {candidate.plan: candidate.estimate for candidate in fixed}
    missing = [one for one in shorter if one not in estimates]
    estimates |= zip(missing, judge.estimate_plans(facts, missing), strict=True)
    gains = [_log_gain(facts, estimates[one]) for one in shorter]
    requests = memory.replica(facts, plan).concurrency or 1
    seen = ratio_at(min(requests, plan.max_num_seqs or requests) * (plan.k + 1.0))
    return seen._replace(log=seen.log + max(gains) - gains[-1])


def over_loads(facts: Facts, plan: Plan, requests: Sequence[int]) -> list[float]:
    """Log of adaptive over fixed at each load, none where it is not surely faster in the mean."""
    if not runs(facts, plan) or _stops(judge.judge(facts, with_adaptive(plan), None)):
        return []
    ratios = [price(facts.replace(concurrency=n), plan) for n in requests]
    mean = sum(ratio.log for ratio in ratios) / len(ratios)
    sure = max(ratios, key=lambda ratio: ratio.sd).beside(mean) >= SURE
    return [ratio.log for ratio in ratios] if sure else []


def _stops(candidate: Candidate) -> list[Finding]:
    return [f for f in candidate.findings if f.code == REFUSED and f.severity != "info"]


def of_block(candidates: Sequence[Candidate], best: int | None) -> int | None:
    """The candidate whose fixed block the best one verifies adaptively, else the best one."""
    if best is None or not verifies_adaptively(candidates[best].plan):
        return best
    plans = [with_adaptive(candidate.plan) for candidate in candidates]
    return plans.index(candidates[best].plan)


def reprice(facts: Facts, plan: Plan, estimate: Estimate) -> Estimate:
    """An estimate with what adaptive verification changes, where the plan has it."""
    switched = verifies_adaptively(plan)
    return times(estimate, price(facts, plan)) if switched else estimate


def _log_gain(facts: Facts, estimate: Estimate | None) -> float:
    return log(decide.goal_interval(estimate, facts.goal or "balanced").p50)
