"""The memory share of a launch for an engine whose share holds weights and KV alone (SGLang)."""

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
    """The plan with the share that the engine itself would take; where the model does not start so
    beside `load` requests of so many tokens (of one replica, numbers or arrays (N,)), with smaller
    prefill steps, then with all that none of the `arms` needs beside the share.
    """
    usable, shape = device.usable_gib(facts), facts.shape or facts.model
    outside = _outside(facts, plan, arms)
    if usable is None or shape is None or outside is None:
        return plan
    most = lesser(plan.memory_fraction, round_down(100 * (1 - outside / usable)) / 100)
    chunk = card_of(1024 * usable).chunk
    first = plan.max_num_batched_tokens or chunk
    budget: Any = plan.max_num_batched_tokens
    fraction, open_ = greater(most, LEAST_SHARE), True
    for step in sorted({first, min(first, chunk)}, reverse=True):
        less = plan.model_copy(update={"max_num_batched_tokens": step})
        own = sglang_share(facts, less, shape)
        if own is not None and holds(own >= 1 / 1000):
            own = lesser(round_down(1000 * own) / 1000, most)
            less = less.model_copy(update={"memory_fraction": own})
            here = open_ & memory.starts(facts, less, tokens, load)
            if holds(here):
                budget, fraction = choose(here, step, budget), choose(here, own, fraction)
                open_ = open_ & negate(here)
        if not holds(open_):
            break
    return plan.model_copy(update={"memory_fraction": fraction, "max_num_batched_tokens": budget})


def _outside(facts: Facts, plan: Plan, arms: Sequence[Plan]) -> Any:
    """GiB that the arms need at most beside the share; None where that is not known."""
    shape, quant = facts.shape or facts.model, facts.quant
    if shape is None or quant is None or plan.memory_fraction is None:
        return None
    return reduce(greater, (memory.outside_gib(facts, arm, shape, quant) for arm in arms))


def fits_beside(facts: Facts, plan: Plan) -> bool:
    """Whether what the engine keeps beside its memory share fits there (see `with_share`)."""
    usable, outside = device.usable_gib(facts), _outside(facts, plan, [plan])
    if usable is None or outside is None:
        return True
    return bool(outside <= usable * (1 - (plan.memory_fraction or 0.0)))
