"""Whether a plan keeps the prefix cache on.

What it does not know: whether the engine's release serves its hits right; rules say so.
"""

from __future__ import annotations

import numpy as np

from advisor.advice.plans.methods import DRAFTER_K, drafter, habits
from advisor.domain.nouns import Facts, Method, Plan
from advisor.domain.question import USUAL_PROMPT
from advisor.knowledge import store as knowledge
from advisor.perf import memory, schedule
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.load import HYBRID_PAGE_TOKENS, PAGE_TOKENS
from advisor.prediction.artefact import load
from advisor.prediction.model import prepare


def with_caching(facts: Facts, plan: Plan) -> Plan:
    """The plan without speculation with its prefix cache on or off. On for a model without
    recurrent layers, whose hits cost nothing. A hybrid finds whole pages again and its prompts are
    cut at the end of the last one: on where a page is shared and that is estimated to pay.
    """
    if habits(facts).pool == "slots":
        return plan  # its prompt cache is per slot and on by default
    on = plan.model_copy(update={"prefix_caching": True})
    if not _is_hybrid(facts):
        return on
    off = plan.model_copy(update={"prefix_caching": False})
    return on if _shares_page(facts) and _pays(facts, on, off) else off


def beside(facts: Facts, base: Plan, method: Method) -> bool | None:
    """The same of a method's plan beside `base`. With MTP on a hybrid the cache also costs hit rate
    and carries a correctness defect (vllm#38182, #43559), so it then needs a large share to be
    worth it. So it does with a drafter that its publisher serves without it.
    """
    found = drafter(facts, method) if method in DRAFTER_K else None
    if not base.prefix_caching or (
        not _is_hybrid(facts) and (found is None or found.prefix_caching is not False)
    ):
        return base.prefix_caching
    needed = knowledge.threshold("prefix_share_worth_caching_with_mtp").value
    return (facts.prefix_share or 0.0) >= needed and _shares_page(facts)


def _is_hybrid(facts: Facts) -> bool:
    return facts.model is not None and facts.model.is_hybrid


def _shares_page(facts: Facts) -> bool:
    """Whether prompts share a whole page of the cache; less is never found again."""
    pages = _is_hybrid(facts) and habits(facts).states_in_pool
    shared = (facts.prefix_share or 0.0) * (facts.ctx_tokens or USUAL_PROMPT)
    return shared >= (HYBRID_PAGE_TOKENS if pages else PAGE_TOKENS)


def _pays(facts: Facts, on: Plan, off: Plan) -> bool:
    """Whether the plan without speculation serves more tokens with the cache than without it."""
    _, full = prepare(from_plans(memory.replica(facts, on), [on, off]))
    served = schedule.replay(full, load().speeds, np.ones(2), "base").output_tok_s
    return bool(served[0] >= served[1])
