"""The KV cache type of a plan: 16 bits, unless it is given or only 8 let the load run at once."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from advisor import engines
from advisor.advice.plans.limits import LENGTHS, LLAMA_STEP, SLOTS, SPARE, need, only_type
from advisor.domain.nouns import AdvisorError, Facts, Plan
from advisor.domain.question import USUAL_OUTPUT, USUAL_PROMPT
from advisor.engines.traits import traits
from advisor.perf import memory
from advisor.perf.regimes.setting import Length, choose, greater, holds, lesser, round_up
from advisor.perf.sizes.pools import shares_context

# 8-bit KV caches are read by the attention kernels of these architectures without emulation
FP8_ARCHS = ("sm_89", "sm_9", "sm_10", "sm_11", "sm_12", "gfx94", "gfx95")


def kv_cache(facts: Facts, plan: Plan, arms: Sequence[Plan] = ()) -> Plan:
    """The plan with the KV cache type that is given, or with 8 bits where only so all requests or
    `SLOTS` of them run at once, in it and each of its `arms`. Raises AdvisorError for a type that
    the engine does not have.
    """
    kinds, given = traits(plan.engine).cache_types, facts.question.kv_cache_dtype
    if needed := only_type(facts, plan):
        if given is not None and not given.startswith(needed) and given != "8bit":
            raise AdvisorError(
                f"{facts.llm.name} runs in {plan.engine} with --kv-cache-dtype {needed} only"
            )
        return plan.replace(kv_cache_dtype=needed)
    if given is not None:
        if given in ("auto", "bf16", "f16", "fp16", "bfloat16"):
            return plan
        word = kinds[0] if given in ("fp8", "q8_0", "8bit") and kinds else given
        if word not in kinds:
            raise AdvisorError(
                f"{plan.engine} has no KV cache type '{given[:20]}' here: use auto or "
                f"{' or '.join(kinds)}"
            )
        return plan.replace(kv_cache_dtype=word)
    if not kinds or not reads_8_bits(facts, plan):
        return plan
    asked = min(ceil(facts.load / plan.dp), plan.max_num_seqs or facts.load)
    if not needs_8_bits(facts, plan, arms, asked, min(facts.memory_tokens, need(facts))):
        return plan
    return plan.replace(kv_cache_dtype=kinds[0])


def needs_8_bits(
    facts: Facts, plan: Plan, arms: Sequence[Plan], asked: Length, tokens: Length
) -> Any:
    """Whether `asked` requests of so many tokens, or `SLOTS` of them and of usual ones, run at once
    only with 8 bits, in the plan and each of its arms: one truth, or an array for arrays (N,).
    """
    kind, slots = traits(plan.engine).cache_types[0], plan.max_num_seqs
    one = plan.replace(kv_cache_dtype=kind, max_num_seqs=1)
    # fewer than `SLOTS` were asked for: the others are for short requests beside them
    least = lesser(SLOTS, slots if slots is not None else asked)
    few = asked < least
    beside = (choose(few, lesser(tokens, USUAL_PROMPT + USUAL_OUTPUT), tokens), least)
    if shares_context(plan):  # context comes before precision, and precision before more slots
        alone = {"max_num_seqs": 1, "max_model_len": None}
        plan, *arms = (arm.replace(**alone) for arm in (plan, *arms))
        usual = greater(tokens, int(min(LENGTHS[-1], facts.llm.max_context_tokens or 0) / SPARE))
        beside = (choose(few, usual, tokens), choose(few, 1, least))
    eight = plan.replace(kv_cache_dtype=kind)
    now, then = (memory.room(facts, arm, tokens) for arm in (plan, eight))
    decides: Any = now is not None and then is not None and now < lesser(asked, then)
    wanted: Sequence[tuple[Length, Length]] = ((tokens, lesser(asked, least)), beside)
    if facts.device.arch.startswith("sm_12"):
        catalogue = engines.get(facts.engine or "").catalogue
        if catalogue.behaviour("piecewise_graphs_flashinfer_sm12x", facts.engine_version):
            wanted = ()  # drafts beside an 8-bit cache verify with piecewise graphs (SD414)
    for arm in (plan, *arms):
        for each in wanted if holds(few) else wanted[1:]:
            if decides is not True:
                decides = decides | _lacks_slots(facts, arm, kind, *each)
    if traits(plan.engine).pool == "slots" and now is not None:
        # a smaller file is the better way to make one request fit, and what 8 bits do not make fit
        # either keeps its precision
        whole = memory.room(facts, one, tokens)
        decides = decides & (now >= 1) & (whole is not None and whole >= 1)
    return decides


def _lacks_slots(facts: Facts, arm: Plan, eight: str, tokens: Length, slots: Length) -> Any:
    """Whether an arm holds so many requests with an 8-bit KV cache only."""
    if traits(arm.engine).pool == "slots":  # reserved at their whole length
        whole = round_up(tokens * SPARE / LLAMA_STEP) * LLAMA_STEP
        length = whole if arm.max_model_len is None else lesser(arm.max_model_len, whole)
        arm = arm.replace(max_model_len=length)
    now = memory.room(facts, arm, tokens)
    if now is None or not holds(lacks := now < slots):
        return False
    then = memory.room(facts, arm.replace(kv_cache_dtype=eight), tokens)
    return then is not None and lacks & (then >= slots)


def reads_8_bits(facts: Facts, plan: Plan) -> bool:
    """Whether the engine reads such a cache on this hardware without emulation."""
    return traits(plan.engine).pool == "slots" or facts.device.arch.startswith(FP8_ARCHS)
