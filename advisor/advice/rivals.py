"""Other ways of drafting beside the model's own head: priced and named, never taken unasked. A
drafter is recommended to be tried where its plan is faster with a probability of at least `SURE`
and `OWNERS` owners measured it faster in this class (architectures, load within a factor of two).
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from advisor.advice import decide, resolve
from advisor.advice.judge import PlanQuestion, plans_that_fit, replica_bill, weigh
from advisor.advice.plans import methods, propose
from advisor.advice.wording import reason
from advisor.domain.nouns import Candidate, Estimate, Facts, MemoryBill, Plan, Reason
from advisor.domain.patterns import lazy_re
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge import drafters, evidence
from advisor.knowledge import store as knowledge
from advisor.knowledge.heads import SPEEDS

SURE = sourced(
    0.8, "probability", "Policy: what is in the checkpoint is not left for less", "chosen"
)
OWNERS = sourced(2, "owners", "Policy: one owner's runs are one machine's", "chosen")
MIDDLE = sourced(
    0.5, "probability", "above it the drafter is likelier to be the faster one", "derived"
)
WEIGHTS = sourced(
    (0.4, 0.95), "order of reasons", "own choice: of a slower drafter, of a faster one", "chosen"
)
_Run = tuple[tuple[object, ...], float, float, float]
_ACCOUNT = lazy_re(r"(?:github\.com|huggingface\.co)/([\w.-]+)")


class Rival(NamedTuple):
    """The best plan of another method, its chance to be faster, and who measured that."""

    candidate: Candidate
    better: float
    owners: tuple[str, ...]


def plans(question: PlanQuestion) -> list[tuple[Plan, MemoryBill]]:
    """The plans of other methods that fit beside a default head, with bills of a replica."""
    facts, base = question.facts, question.base.plan
    if drafters.asked_method(facts) or methods.methods(facts) != ("mtp",) or not question.plans:
        return []
    proposed = [
        propose.with_method(facts, base, method, k)
        for method in drafters.methods(facts)
        if propose.no_path(facts, base, method) is None
        for k in methods.k_values(facts, method)
    ]
    fit = plans_that_fit(facts, proposed)
    return [(plan, replica_bill(facts, plan, bill)) for plan, bill in fit if bill.fits]


def compare(
    facts: Facts, own: Sequence[Candidate], others: Sequence[tuple[Plan, Estimate]]
) -> tuple[Rival, ...]:
    """The best allowed plan of each other method beside the head's candidates."""
    heads = [c for c in own if c.estimate is not None and decide.is_allowed(c)]
    if not heads or not others:
        return ()
    head = max(heads, key=lambda c: _price(facts, c.estimate))
    rivals = []
    for method in dict.fromkeys(plan.method for plan, _ in others):
        of_method = (row for row in others if row[0].method == method)
        priced = sorted(of_method, key=lambda row: -_price(facts, row[1]))
        judged = (weigh(facts, plan, estimate) for plan, estimate in priced)
        if (best := next((c for c in judged if decide.is_allowed(c)), None)) is not None:
            better = _chance(facts, best, head)
            owners = measured_faster(facts, method) if better > MIDDLE else ()
            rivals.append(Rival(best, better, owners))
    return tuple(sorted(rivals, key=lambda rival: -rival.better))


def _price(facts: Facts, estimate: Estimate | None) -> float:
    return decide.goal_interval(estimate, facts.aim).p50


def _chance(facts: Facts, rival: Candidate, head: Candidate) -> float:
    spans = (decide.goal_interval(c.estimate, facts.aim) for c in (rival, head))
    rivals, heads = (decide.sample(span, index) for index, span in enumerate(spans))
    return float(np.mean(rivals > heads))


def measured_faster(facts: Facts, method: str, head: str = "mtp") -> tuple[str, ...]:
    """The owners who measured the method faster than the head in most settings of this class."""
    speeds: dict[tuple[object, ...], dict[str, float]] = {}
    here = (facts.load, facts.ctx_tokens or USUAL_PROMPT)
    for name in (method, head):
        for setting, *load, gain in _class_runs(facts.device.arch, facts.llm.arch, name):
            if all(1 / n <= a / b <= n for a, b, n in zip(load, here, (2, 4), strict=True)):
                best = speeds.setdefault((*setting, load[0]), {})
                best[name] = max(best.get(name, 0.0), gain)
    won: dict[str, list[bool]] = {}
    for (source, *_), best in speeds.items():
        if len(best) == 2:
            entry = knowledge.source_of(str(source))
            account = _ACCOUNT.search(entry.address) if entry is not None else None
            owner = account[1] if account else f'"{entry.title if entry is not None else source}"'
            won.setdefault(owner, []).append(best[method] > best[head])
    return tuple(sorted(owner for owner, each in won.items() if 2 * sum(each) > len(each)))


@cache
def _class_runs(card: str | None, model: str | None, method: str) -> tuple[_Run, ...]:
    """What was measured on such cards and models: source and setting, requests, prompt, gain."""
    cards, models = (knowledge.index()[name] for name in ("hardware", "llms"))
    index = evidence.index()
    return tuple(
        (
            (pair["source"], *(group[name] for name in evidence.SHARED[:5])),
            pair["concurrency"],
            pair.get("input_tokens") or pair.get("depth_tokens") or USUAL_PROMPT,
            float(pair["speedup"]),
        )
        for number, group in enumerate(index.groups)
        if group["method"] == method
        and cards.get(group["hardware"], {}).get("arch") == card
        and models.get(group["model"], {}).get("arch") == model
        for pair in index.pairs(number)
        if pair["metric"] in SPEEDS and pair.get("clean") and pair.get("concurrency")
    )


def explain(
    facts: Facts, own: Sequence[Candidate], others: Sequence[tuple[Plan, Estimate]], best: Candidate
) -> Reason | None:
    """What else is published for the model, at which price, and how to measure it."""
    rivals = compare(facts, own, others)
    if not rivals:
        return None
    here = _price(facts, best.estimate)
    parts = []
    for rival in rivals:
        plan = rival.candidate.plan
        drafter = drafters.of_plan(facts, plan)
        name = drafters.TITLES[plan.method] + (f" ({drafter.repository})" if drafter else "")
        price = _price(facts, rival.candidate.estimate)
        seen = f"measured faster by {', '.join(rival.owners)}" if rival.owners else ""
        parts.append(
            f"{name} k={plan.k} {price:.2f}x, faster with {100 * rival.better:.0f} %, "
            f"{seen or 'not measured faster'} in this class"
        )
    method = rivals[0].candidate.plan.method
    options = " ".join(resolve.as_options(facts.question.replace(method=method)))
    advised = (
        f"--method {method} is the one to try first"
        if rivals[0].better >= SURE and len(rivals[0].owners) >= OWNERS
        else f"a drafter is tried first where it is likelier than {100 * SURE:.0f} % to be faster "
        f"and {OWNERS} owners measured it"
    )
    text = (
        f"Also published, beside {drafters.TITLES[best.plan.method]} at {here:.2f}x: "
        f"{'; '.join(parts)}. The model's own head stays the default; {advised}: "
        f"`advisor bench plan {options}`"
    )
    return reason(text, "models/speedup.md", weight=WEIGHTS[rivals[0].better > MIDDLE])
