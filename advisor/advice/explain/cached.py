"""The launch that keeps the prefix cache beside drafts, for shared prompts or the goal ttft."""

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
BRIEF = "drafts switch the prefix cache off here; both together: --explain"


def alternative(facts: Facts, base: Plan, best: Candidate) -> Reason | None:
    """What to change in the launch with drafts, what is expected of it, and what speaks against it;
    None where the cache is on with drafts too, or nobody asked.
    """
    goal, plan = facts.goal or "balanced", best.plan
    hybrid, asked = facts.model and facts.model.is_hybrid, facts.prefix_share or goal == "ttft"
    if not (hybrid and asked and base.prefix_caching) or plan.prefix_caching:
        return None
    adapter = engines.get(plan.engine)
    keeps = plan.model_copy(update={"prefix_caching": True, "plain_caching": None})
    now, then = (adapter.units(adapter.to_launch(one)) for one in (plan, keeps))
    added = [shell_words(unit) for unit in then if unit not in now]
    gone = [shell_words(unit) for unit in now if unit not in then]
    text = "Drafts and prefix cache together: "
    text += f"{' '.join(added) or 'nothing'} in place of {' '.join(gone)}"
    if facts.prefix_share:
        gain = goal_interval(estimate_plans(facts, [keeps])[0], goal)
        text += f", {whole_percent(gain.p50)} expected ({span(gain)})"
    sources: tuple[str, ...] = ("own",)
    note = "compare answers on repeated prompts"
    if traits(plan.engine).states_in_pool:
        sources = get_defect(DEFECT).sources[:2]
        note = "not the answer here, as answers on cache hits can be wrong and no fix is known"
    return reason(f"{text}; {note}", *sources, weight=2.6, brief=BRIEF, risk=True)
