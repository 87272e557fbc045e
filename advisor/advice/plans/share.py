"""The memory share of a launch for an engine whose share holds weights and KV alone (SGLang), where
vLLM's holds all.

What it does not know: what else uses the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from advisor.domain.nouns import Facts, Plan
from advisor.domain.sourced import sourced
from advisor.perf import memory
from advisor.perf.sizes import device
from advisor.perf.sizes.shares import card_of, sglang_share

LEAST_SHARE = sourced(0.5, "share", "own choice: less leaves no room for a model", "chosen")


def with_share(facts: Facts, plan: Plan, arms: Sequence[Plan]) -> Plan:
    """The plan with the share that the engine itself would take; where the model does not fit so,
    with the smaller prefill steps that the engine takes for this card; where it does not then,
    with all that is not needed beside the share, by any of the `arms`: a drafter, activations,
    graphs (`memory.outside_gib`).
    """
    usable, shape = device.usable_gib(facts), facts.shape or facts.model
    if usable is None or shape is None or facts.quant is None or plan.memory_fraction is None:
        return plan
    outside = max(memory.outside_gib(facts, arm, shape, facts.quant) for arm in arms)
    most = min(plan.memory_fraction, floor(100 * (1 - outside / usable)) / 100)
    chunk = card_of(1024 * usable).chunk
    steps = sorted({plan.max_num_batched_tokens or chunk, chunk}, reverse=True)
    for tokens in [one for one in steps if one <= (plan.max_num_batched_tokens or chunk)]:
        arm = plan.model_copy(update={"max_num_batched_tokens": tokens})
        share = floor(1000 * (sglang_share(facts, arm, shape) or 0.0)) / 1000
        less = arm.model_copy(update={"memory_fraction": min(share, most)})
        if share > 0 and memory.bill(memory.replica(facts, less), less).fits:
            return less
    return plan.model_copy(update={"memory_fraction": max(most, LEAST_SHARE)})


def fits_beside(facts: Facts, plan: Plan) -> bool:
    """Whether what the engine keeps beside its memory share fits there (see `with_share`)."""
    usable, shape = device.usable_gib(facts), facts.shape or facts.model
    if usable is None or shape is None or facts.quant is None or plan.memory_fraction is None:
        return True
    outside = memory.outside_gib(facts, plan, shape, facts.quant)
    return outside <= usable * (1 - plan.memory_fraction)
