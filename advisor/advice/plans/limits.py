"""Serving limits as an operator sets them: request slots and context; what is given stands."""

from collections.abc import Sequence
from functools import reduce
from math import ceil, inf
from typing import Any

from advisor import engines
from advisor.domain.nouns import AdvisorError, Facts, Plan
from advisor.domain.sourced import sourced
from advisor.domain.versions import parse_release
from advisor.engines.traits import traits
from advisor.perf import memory
from advisor.perf.prompt_cost import GRAPH_REQUESTS, GRAPH_TOKENS
from advisor.perf.regimes.setting import (
    Length,
    choose,
    greater,
    holds,
    lesser,
    negate,
    next_power,
    round_down,
    round_up,
)
from advisor.perf.sizes import device
from advisor.perf.sizes.pools import GRAPH_PAGES_UNTIL, SHARED_CONTEXT, shares_context
from advisor.perf.sizes.shares import sglang_share
from advisor.rules.kit.policy import GRAPHLESS
from advisor.rules.kit.releases import between, build_order
from advisor.rules.registry import get_defect

FOUR_BITS = sourced(
    4.0, "bits a weight", "below, quality falls faster than memory is won", "chosen"
)
FEW = sourced(
    16, "requests at once", "own choice: for more, below four bits is no answer", "chosen"
)
WIDE_GRAPH_TOKENS = sourced(
    (1024, 4352),
    "tokens",
    "where a card has room, and of experts on a server's: measured at prompts of 700, 1,500 and "
    "4,096 tokens (H200, vLLM 0.25.1, 35B-A3B, k = 0 and 3; 27B to 1,024: docs/research/h200.md)",
    "measured",
)
SLOTS = sourced(
    4, "requests at once", "a server with fewer lets a second browser tab wait", "chosen"
)
DISPLAY_SHARE = sourced(
    0.9, "share", "own choice: 2.4 of 24 GB stay with a desktop and its browser", "chosen"
)
LENGTHS = sourced(
    (131_072, 65_536, 32_768, 16_384, 8_192),
    "tokens",
    "as published launches use, the longest first",
    "chosen",
)
SMALL_GB = sourced(
    32.0, "GB", "noonghunna/club-3090#41: a hybrid's prefill of 50,000 tokens failed there", "read"
)
SMALL_LENGTH = sourced(
    32_768, "tokens", "the longest of LENGTHS below the prefill that failed there", "derived"
)
FREE = sourced(
    2, "requests", "of that length must fit, so that one alone does not hold the pool", "chosen"
)
LLAMA_STEP = sourced(
    256, "tokens", "llama.cpp pads the context of a slot to a multiple of it (GGML_PAD)", "read"
)
CONTEXT_STEP = sourced(1024, "tokens", "own choice: contexts are its multiples", "chosen")
LEAST_CONTEXT = sourced(4096, "tokens", "own choice: the least context that is served", "chosen")
SPARE = sourced(1.1, "ratio", "own choice: room for prompts longer than stated", "chosen")
LEAST_SHARE = sourced(0.5, "share", "own choice: less leaves no room for a model", "chosen")


def need(facts: Facts) -> int:
    """Tokens of one request. Raises AdvisorError where the model or the given limit is shorter."""
    tokens, top = facts.length, facts.llm.max_context_tokens
    if top is not None and tokens > top:
        raise AdvisorError(
            f"{tokens} tokens per request do not fit the model's context of {top}: lower --ctx or "
            f"--output-tokens"
        )
    if (given := facts.question.max_model_len) is not None and given < tokens:
        raise AdvisorError(
            f"--max-model-len {given} is shorter than a request of {tokens} tokens: raise it, or "
            f"lower --ctx or --output-tokens"
        )
    return tokens


def context(facts: Facts) -> int:
    """The least context to serve: prompt and answer with room to spare, or what is given."""
    return facts.question.max_model_len or int(least_context(facts, need(facts)))


def least_context(facts: Facts, tokens: Length) -> Length:
    """The least context for requests of so many tokens, one number or an array (N,)."""
    reserved, top = traits(facts.engine).pool == "slots", facts.llm.max_context_tokens
    step, floor = (LLAMA_STEP, 0) if reserved else (CONTEXT_STEP, LEAST_CONTEXT)
    room: Length = round_up(greater(tokens * SPARE, floor) / step) * step
    return lesser(room, top) if top is not None else room


def slots(facts: Facts, replicas: int) -> int:
    """Request slots of one replica before memory is asked: those given, else enough."""
    load, shared = ceil(facts.load / replicas), bool(shared_context(facts))
    return facts.question.max_num_seqs or int(enough_slots(facts, load, shared))


def enough_slots(facts: Facts, load: Length, shared: bool = False) -> Length:
    """Slots for so many requests, one number or an array (N,): powers of two where graphs are
    captured, `SLOTS` at least where they share the memory, else as many as requests: a batch
    of busy slots that are not neighbours is cut into passes (ggml-org/llama.cpp#25840).
    """
    if traits(facts.engine).pool == "slots" and not shared:
        return load
    wanted: Length = greater(load, SLOTS)
    return next_power(wanted) if traits(facts.engine).replicas else wanted


def graph_size(facts: Facts, prompt: Length, load: Length, slots: Any, k: int) -> Any:
    """Tokens of the largest CUDA graph to ask vLLM for, 0 where its own do: small cards get its
    usual ones where few slots leave a prompt none, others larger ones; none where the pages of a
    hybrid's would fill the memory at the start. Numbers or arrays (N,).
    """
    known = engines.get(facts.engine or "").catalogue.find(device.GRAPHS, facts.engine_version)
    able = known is not None and facts.device.vendor not in GRAPHLESS
    if between(parse_release(facts.engine_version), None, GRAPH_PAGES_UNTIL):
        able &= not facts.llm.is_hybrid
    small = facts.device.memory_gb is not None and facts.device.memory_gb.value <= SMALL_GB
    few = (prompt + load > GRAPH_REQUESTS * slots) & (prompt <= GRAPH_TOKENS)
    beyond = lesser(load, slots) * (k + 1) > GRAPH_TOKENS
    served = facts.device.hardware_class == "datacenter" and facts.llm.is_moe
    size = WIDE_GRAPH_TOKENS[served]
    return able * choose(((prompt < size) | beyond) & (not small), size, few * GRAPH_TOKENS)


def with_graphs(facts: Facts, plan: Plan, k: int) -> Plan:
    """The plan with the option for its CUDA graphs, where it needs one (`graph_size`)."""
    prompt = (facts.ctx_tokens or inf) * (1 - (facts.prefix_share or 0.0))
    load = ceil(facts.load / plan.dp)
    size = int(graph_size(facts, prompt, load, plan.max_num_seqs or load, k))
    return plan.replace(extra=(*plan.extra, (device.GRAPHS, str(size)))) if size else plan


def shared_context(facts: Facts) -> tuple[tuple[str, str | None], ...]:
    """The option by which llama-server's slots share one context, for one request at a time."""
    alone = facts.question.max_num_seqs is None and facts.load == 1
    return (SHARED_CONTEXT,) if alone and traits(facts.engine).pool == "slots" else ()


def cap_slots(facts: Facts, plan: Plan, tokens: Length | None = None, where: Any = True) -> Plan:
    """The plan with no more slots than its memory holds, where that is one or more; of a plan with
    arrays (N,) those in the mask `where`. `tokens`: of one request.
    """
    room: Any = memory.room(facts, plan, facts.memory_tokens if tokens is None else tokens)
    slots: Any = plan.max_num_seqs
    if room is None or slots is None:
        return plan
    if shares_context(plan):
        fewer = plan.replace(max_num_seqs=slots - 1)
        return plan if slots <= 1 or room >= 1 else cap_slots(facts, fewer, tokens)
    capped = where & (room >= 1) & (slots > room)
    fit = choose(capped, round_down(lesser(room, slots)), slots)
    return plan.replace(max_num_seqs=fit) if holds(capped) else plan


def roomy(facts: Facts, plan: Plan, arms: Sequence[Plan]) -> Plan:
    """The plan with the longest usual context that costs nothing: each of `arms` (the plan first)
    still holds `FREE` such requests, or its slots where they are reserved.
    """
    length = facts.question.max_model_len
    if length is not None or (length := free_length(facts, plan, arms)) == plan.max_model_len:
        return plan
    if facts.llm.max_context_tokens:
        return cap_slots(facts, plan.replace(max_model_len=length))
    # the model's own length, which the engine shortens to what fits
    extra = (("--max-model-len", "auto"),) if traits(plan.engine).json_speculation else ()
    return plan.replace(max_model_len=None, extra=(*plan.extra, *extra))


def free_length(facts: Facts, plan: Plan, arms: Sequence[Plan]) -> Any:
    """The plan's context or the longest usual one that is free (see `roomy`), or arrays (N,)."""
    top, gb = facts.llm.max_context_tokens, facts.device.memory_gb
    small = gb is not None and gb.value <= SMALL_GB
    most: Any = min(top or LENGTHS[0], SMALL_LENGTH if small else LENGTHS[0])
    reserved = traits(plan.engine).pool == "slots"
    if shares_context(plan):  # more slots come after the context
        arms = [arm.replace(max_num_seqs=1) for arm in arms]
    if reserved and any(arm.method == "mtp" for arm in arms):
        known = get_defect("llama-draft-ctx-total")  # the head's context is sized from all slots
        if between(build_order(facts.engine_version), known.since, known.until) is not False:
            parts = 1 if arms[0].max_num_seqs is None else arms[0].max_num_seqs
            most = lesser(most, round_down((top or LENGTHS[0]) / greater(parts, 1)))
    longest: Any = 0 if plan.max_model_len is None else plan.max_model_len
    for length in LENGTHS if top is not None else () if reserved else LENGTHS[:1]:
        free = (longest < length) & (length <= most)
        for arm in arms:
            if not holds(free):
                break
            room = memory.room(facts, arm.replace(max_model_len=length), length)
            slots = 1 if arm.max_num_seqs is None else arm.max_num_seqs
            free = free & (room is not None and room >= (slots if reserved else FREE))
        longest = choose(free, length, longest)
    return longest if plan.max_model_len is not None or holds(longest > 0) else None


def with_share(
    facts: Facts, plan: Plan, arms: Sequence[Plan], tokens: Length, load: Length
) -> Plan:
    """The plan with the share that the engine itself would take; where the model does not start so
    beside `load` requests of so many tokens (of one replica, numbers or arrays (N,)), with smaller
    prefill steps, then with all that none of the `arms` needs beside the share.
    """
    usable, shape, quant = device.usable_gib(facts), facts.known_shape, facts.quant
    if usable is None or shape is None or quant is None or plan.memory_fraction is None:
        return plan
    # GiB that the arms need at most beside the share
    outside = reduce(greater, (memory.outside_gib(facts, arm, shape, quant) for arm in arms))
    most = lesser(plan.memory_fraction, round_down(100 * (1 - outside / usable)) / 100)
    chunk = device.card_of(1024 * usable).chunk
    first = plan.max_num_batched_tokens or chunk
    budget: Any = plan.max_num_batched_tokens
    fraction, open_ = greater(most, LEAST_SHARE), True
    for step in sorted({first, min(first, chunk)}, reverse=True):
        less = plan.replace(max_num_batched_tokens=step)
        own = sglang_share(facts, less, shape)
        if own is not None and holds(own >= 1 / 1000):
            own = lesser(round_down(1000 * own) / 1000, most)
            less = less.replace(memory_fraction=own)
            here = open_ & memory.starts(facts, less, tokens, load)
            if holds(here):
                budget, fraction = choose(here, step, budget), choose(here, own, fraction)
                open_ = open_ & negate(here)
        if not holds(open_):
            break
    return plan.replace(memory_fraction=fraction, max_num_batched_tokens=budget)


def only_type(facts: Facts, plan: Plan) -> str | None:
    """The KV cache type without which vLLM's class for this model stops; None where any does."""
    return facts.llm.kv_cache_dtype if traits(plan.engine).json_speculation else None


def limit_choices(facts: Facts, plan: Plan) -> tuple[tuple[str, str, str], ...]:
    """The limits that were chosen, each with its price or reason."""
    request = facts.request
    if request is None:
        return ()
    rows: list[tuple[str, str, str]] = []
    length, tokens, top = plan.max_model_len, facts.memory_tokens, facts.llm.max_context_tokens
    asked, reserved = ceil(request.concurrency / plan.dp), traits(plan.engine).pool == "slots"
    room = memory.room(facts, plan, tokens)
    if request.max_model_len is None and top is None:
        own = "left to the model's configuration" if length is None else "the question's own length"
        why = f"{own}: the longest that this model takes is not known here"
        rows.append(("max_model_len", str(length or "the model's own"), why))
    elif request.max_model_len is None and length is not None and length > context(facts):
        whole = memory.room(facts, plan, length)
        share = f"one request of this length takes {100 / (whole or 1):.0f} % of the KV pool"
        why = "fits in memory for every slot" if reserved else share if whole else ""
        why = "all of it for one request, where it is alone" if shares_context(plan) else why
        rows.append(("max_model_len", str(length), why))
    if request.max_num_seqs is None and plan.max_num_seqs is not None:
        why = "for the load"
        if plan.max_num_seqs < asked:
            why = f"all that fits in memory of {asked}; the others are queued"
        elif shares_context(plan):
            why = "they share the context: a second request does not wait"
        elif room:
            what, each = ("slots", length or tokens) if reserved else ("requests", tokens)
            why = f"{int(room):,} {what} of {each:,} tokens fit in memory"
        rows.append(("max_num_seqs", str(plan.max_num_seqs), why))
    if size := device.captured_tokens(plan):
        why = "vLLM's own CUDA graphs are too small here for a prompt or a verify step"
        rows.append((device.GRAPHS[2:].replace("-", "_"), str(size), why))
    fraction = plan.memory_fraction or 0.0
    server = facts.hardware is None or facts.hardware.hardware_class == "datacenter"
    if request.memory_fraction is None and fraction > DISPLAY_SHARE and not server:
        why = f"where the card drives a display: --gpu-memory-utilization {DISPLAY_SHARE:g}"
        rows.append(("gpu_memory_utilization", f"{fraction:g}", why))
    if request.kv_cache_dtype is None and plan.kv_cache_dtype is not None:
        why = "the model's attention takes no other"
        if not only_type(facts, plan):
            what = "a longer context fits" if shares_context(plan) else "more requests run at once"
            why = f"so {what}; its effect on acceptance was not measured: compare answers"
        rows.append(("kv_cache_dtype", plan.kv_cache_dtype, why))
    return tuple(rows)
