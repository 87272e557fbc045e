"""The memory share of a launch for an engine whose share holds weights and KV alone (SGLang), where
vLLM's holds all.

What it does not know: what else uses the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from advisor.domain.nouns import Facts, Plan
from advisor.domain.sourced import sourced
from advisor.perf import memory
from advisor.perf.regimes.setting import Length, choose, greater, holds, lesser, negate, round_down
from advisor.perf.sizes import device
from advisor.perf.sizes.shares import card_of, sglang_share

LEAST_SHARE = sourced(0.5, "share", "own choice: less leaves no room for a model", "chosen")


def with_share(
    facts: Facts, plan: Plan, arms: Sequence[Plan], tokens: Length, load: Length
) -> Plan:
    """The plan with the share that the engine itself would take; where the model does not fit so
    beside `load` requests of so many tokens (of one replica, numbers or arrays (N,)), with the
    smaller prefill steps that the engine takes for this card; where it does not then, with all that
    is not needed beside the share, by any of the `arms`: a drafter, activations, graphs
    (`memory.outside_gib`).
    """
    usable, most = device.usable_gib(facts), _most_share(facts, plan, arms)
    if usable is None or most is None:
        return plan
    chunk = card_of(1024 * usable).chunk
    first = plan.max_num_batched_tokens or chunk
    budget: Any = plan.max_num_batched_tokens
    fraction, open_ = greater(most, LEAST_SHARE), True
    for step in sorted({first, min(first, chunk)}, reverse=True):
        less = _usual_share(facts, plan.model_copy(update={"max_num_batched_tokens": step}), most)
        fits = less is not None and memory.starts(facts, less, tokens, load)
        if less is not None and holds(here := open_ & fits):
            budget = choose(here, step, budget)
            fraction = choose(here, less.memory_fraction, fraction)
            open_ = open_ & negate(here)
        if not holds(open_):
            break
    return plan.model_copy(update={"memory_fraction": fraction, "max_num_batched_tokens": budget})


def _usual_share(facts: Facts, plan: Plan, most: float) -> Plan | None:
    """The plan with the share that the engine itself would take, `most` of it; None where that is
    not known or leaves nothing. Slots and ranks may be arrays (N,), and the share is then one.
    """
    shape = facts.shape or facts.model
    own = sglang_share(facts, plan, shape) if shape is not None else None
    if own is None or not holds(own >= 1 / 1000):
        return None
    return plan.model_copy(update={"memory_fraction": lesser(round_down(1000 * own) / 1000, most)})


def _most_share(facts: Facts, plan: Plan, arms: Sequence[Plan]) -> float | None:
    """The plan's share or what is not needed beside it by any arm; None where it is not known."""
    usable, shape = device.usable_gib(facts), facts.shape or facts.model
    if usable is None or shape is None or facts.quant is None or plan.memory_fraction is None:
        return None
    outside = reduce(greater, (memory.outside_gib(facts, a, shape, facts.quant) for a in arms))
    free: float = round_down(100 * (1 - outside / usable)) / 100
    most: float = lesser(plan.memory_fraction, free)
    return most


def fits_beside(facts: Facts, plan: Plan) -> bool:
    """Whether what the engine keeps beside its memory share fits there (see `with_share`)."""
    usable, shape = device.usable_gib(facts), facts.shape or facts.model
    if usable is None or shape is None or facts.quant is None or plan.memory_fraction is None:
        return True
    outside = memory.outside_gib(facts, plan, shape, facts.quant)
    return outside <= usable * (1 - plan.memory_fraction)
