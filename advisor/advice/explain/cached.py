"""The launch that keeps the prefix cache beside drafts, as an alternative where it is asked for:
prompts share a part, or the first token is the goal.

What it does not know: what prompts share, where nobody says it.
"""

from __future__ import annotations

from advisor import engines
from advisor.advice.decide import goal_interval
from advisor.advice.judge import estimate_plans
from advisor.advice.wording import reason, span, whole_percent
from advisor.domain.nouns import Candidate, Facts, Plan, Reason
from advisor.domain.shell import shell_words
from advisor.engines.traits import traits
from advisor.rules.registry import get_defect

DEFECT = "vllm-mtp-prefix-caching-accuracy"


def alternative(facts: Facts, base: Plan, best: Candidate) -> Reason | None:
    """What to change in the launch with drafts, what is expected of it, and what speaks against it;
    None where the cache is on with drafts too, pays for nobody, or nobody asked.
    """
    goal = facts.goal or "balanced"
    asked = facts.prefix_share or goal == "ttft"
    if best.plan.method != "mtp" or best.plan.prefix_caching or not base.prefix_caching:
        return None
    if not asked:
        return None
    adapter = engines.get(best.plan.engine)
    keeps = best.plan.model_copy(update={"prefix_caching": True, "k_schedule": ()})
    now, then = (
        adapter.units(adapter.to_launch(plan))
        for plan in (best.plan.model_copy(update={"k_schedule": ()}), keeps)
    )
    added = " ".join(shell_words(unit) for unit in then if unit not in now)
    gone = " ".join(shell_words(unit) for unit in now if unit not in then)
    text = f"Drafts and prefix cache together: {added or 'nothing'} in place of {gone}"
    if facts.prefix_share:
        gain = goal_interval(estimate_plans(facts, [keeps])[0], goal)
        text += f", {whole_percent(gain.p50)} expected ({span(gain)})"
    if not traits(best.plan.engine).states_in_pool:
        return reason(f"{text}; compare answers on repeated prompts", "own", weight=2.6)
    text += "; not the answer here, as answers on cache hits can be wrong and no fix is known"
    return reason(text, *get_defect(DEFECT).sources[:2], weight=2.6)
