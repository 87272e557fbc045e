"""The memory bill of a plan: weights, draft head, recurrent state, KV pool, and what speculation
takes from the pool; one count of the requests that it holds.

GiB per GPU; KV tokens over one replica. Not modelled: fragmentation, LoRA, multimodal caches,
pipeline imbalance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.domain.nouns import LLM, Facts, MemoryBill, Plan, Quant
from advisor.domain.question import USUAL_OUTPUT, USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import drafters
from advisor.perf.regimes.setting import Length, greater, lesser, round_down
from advisor.perf.sizes import pools as kv_sizes
from advisor.perf.sizes import shares
from advisor.perf.sizes.device import kept_gib, overhead_gib, release_of, usable_gib
from advisor.perf.sizes.pools import Pool, hybrid_pool, hybrid_requests, plain_pool
from advisor.perf.sizes.weights import GIB, draft_gib, experts_gib, published_gib, target_gib

SERVERS = kv_sizes.SERVERS
VISION_GIB = sourced(
    0.84,
    "GiB",
    "weights in the log of the GB10 (checkpoint with its vision tower) less the H200's (text only)",
    "derived",
)
LAST_LEGACY_REPORT = sourced(
    (0, 19),
    "release",
    "vLLM: up to here the log's KV tokens are blocks / groups * block size",
    "read",
)
SGLANG_STATE_SHARE = sourced(
    0.9 / 1.9, "share of the pool", "SGLang --mamba-full-memory-ratio, 0.9 unless set", "read"
)
SGLANG_STATES = sourced(
    7.5,
    "states a running request",
    "running batches of 35B and 27B on H200, B200 and B300: output rate times TPOT",
    "derived",
)
SGLANG_FEW = sourced(
    4.0, "requests", "no limit below: small pools are set with --max-mamba-cache-size", "chosen"
)


def _length(facts: Facts, plan: Plan) -> int:
    """Tokens of a full-length request: what the plan allows, else what was asked for."""
    asked = (facts.ctx_tokens or USUAL_PROMPT) + (facts.output_tokens or USUAL_OUTPUT)
    return plan.max_model_len or asked


def _pool(facts: Facts, plan: Plan, shape: LLM, available: float, running: int) -> Pool | None:
    """The pool as the engine's log tells it, beside the states of the `running` requests."""
    kv_token = kv_sizes.bytes_per_token(shape, plan.kv_cache_dtype)
    if kv_token is None:
        return None
    kv_token *= kv_sizes.copies(shape, plan)
    length = _length(facts, plan)
    legacy = (release_of(plan, facts) or (1,))[:2] <= LAST_LEGACY_REPORT
    if pages_states(plan, shape):
        return hybrid_pool(
            shape, kv_token, available, length, plan.k, legacy, plan.prefix_caching is True
        )
    k = plan.k
    own = drafters.layers(facts, plan)
    window = kv_sizes.window_bytes(shape, plan.kv_cache_dtype, length) * kv_sizes.window_copies(
        shape, plan
    )
    return plain_pool(
        shape, kv_token, available, length, k if shape.is_hybrid or own else 0, running, own, window
    )


def spec_gib(facts: Facts, plan: Plan, shape: LLM, quant: Quant) -> float:
    """Weights of the plan's drafter, per GPU."""
    return (published_gib(facts, plan) or draft_gib(shape, quant, plan)) / replica_gpus(facts, plan)


def outside_gib(facts: Facts, plan: Plan, shape: LLM, quant: Quant) -> float:
    """What an engine needs beside its memory share, per GPU. SGLang's share holds the model's
    weights and the KV pool only: activations, graphs and the drafter come on top (its
    server_args.py, on mem_fraction_static).
    """
    return (
        overhead_gib(facts, plan, shape) + spec_gib(facts, plan, shape, quant)
        if traits(plan.engine).outside_share
        else 0.0
    )


def _limit(facts: Facts, plan: Plan, shape: LLM, quant: Quant) -> float | None:
    """What the engine may take of a device: its share and what lies outside, at most all."""
    usable = usable_gib(facts)
    if usable is None:
        return None
    usable -= kept_gib(facts, plan, usable)
    fraction = plan.memory_fraction
    if fraction is None:
        fraction = shares.default_share(facts, plan, shape)
    limit: float = lesser(usable * fraction + outside_gib(facts, plan, shape, quant), usable)
    return limit


def bills(facts: Facts, plans: Sequence[Plan]) -> list[MemoryBill]:
    """The bill of each plan; those that differ in their drafts alone share the arm without."""
    made: list[MemoryBill] = []
    last: Plan | None = None
    before: MemoryBill | None = None
    for plan in plans:
        if plan.method != "none" and (plain := without_drafts(plan)) != last:
            last, before = plain, bill(facts, plain)
        made.append(bill(facts, plan, before))
    return made


def bill(facts: Facts, plan: Plan, before: MemoryBill | None = None) -> MemoryBill:
    """What the plan needs and what is left for KV. Unknown parts are None; `before`: the bill
    without its drafts, where that is at hand. `fits` needs model, quant and hardware: the engine
    starts and one full-length request fits; llama-server: all slots' context is allocated at once.
    """
    made = _fixed_bill(facts, plan)
    shape = facts.shape or facts.model
    if made is None or shape is None:
        return MemoryBill(weights_gib=0.0, fits=None)
    left, gpus = left_gib(made), replica_gpus(facts, plan)
    if left is None:
        return made
    asked = (facts.ctx_tokens or USUAL_PROMPT) + (facts.output_tokens or USUAL_OUTPUT)
    held = max_requests(facts, plan, asked, made)
    slots = plan.max_num_seqs or facts.concurrency or 1
    if not kv_sizes.shares_context(plan):
        slots = min(slots, facts.concurrency or slots)
    running = slots if held is None or plan.engine not in SERVERS else min(slots, held)
    state = kv_sizes.state_bytes(shape, plan) * running / GIB / gpus
    if plan.method == "none":
        before = None
    elif before is None:
        before = bill(facts, without_drafts(plan))
    fixed = made.model_copy(
        update={
            "state_gib": min(state, max(left, 0.0)) if plan.engine in SERVERS else state,
            "requests": held,
            "requests_without": before.requests if before is not None else None,
            "request_tokens": asked,
        }
    )
    lost = before.kv_tokens if before is not None else None
    if plan.engine not in SERVERS:
        return _llama_bill(facts, plan, shape, fixed, left, gpus, lost)
    kv_token = kv_sizes.bytes_per_token(shape, plan.kv_cache_dtype)
    pool = _pool(facts, plan, shape, max(left, 0.0) * gpus * GIB, running)
    if pool is None or kv_token is None:
        return fixed.model_copy(update={"fits": None if left > 0 else False})
    length = _length(facts, plan)
    window = kv_sizes.window_bytes(shape, plan.kv_cache_dtype, length) * kv_sizes.window_copies(
        shape, plan
    )
    one_gib = (length * kv_token * kv_sizes.copies(shape, plan) + window) / GIB / gpus
    # in units of one request, since its recurrent states need room too: an engine refuses to start
    # below one
    short = max(one_gib - left, one_gib * (1 - pool.requests)) if pool.requests < 1 else 0.0
    kv_gib = max(left - (0.0 if traits(plan.engine).states_in_pool else fixed.state_gib), 0.0)
    return _with_pool(fixed, kv_gib, pool.tokens, lost, short)


def _fixed_bill(facts: Facts, plan: Plan) -> MemoryBill | None:
    """What is taken whatever the load: weights, drafter, overhead; None if a size is unknown."""
    shape, quant = facts.shape or facts.model, facts.quant
    weights = target_gib(facts, plan, shape, quant) if shape and quant else None
    if shape is None or quant is None or weights is None:
        return None
    vision = (
        VISION_GIB if facts.model and facts.model.multimodal and plan.engine in SERVERS else 0.0
    )
    on_devices = max(weights - experts_gib(shape, quant, plan), 0.0)
    copied = (shape.mixer_params_b or 0.0) * 1e9 * quant.bytes_mixer / GIB
    on_devices += copied * (kv_sizes.attention_groups(plan) - 1)
    return MemoryBill(
        weights_gib=on_devices / replica_gpus(facts, plan) + vision,
        spec_gib=spec_gib(facts, plan, shape, quant),
        overhead_gib=overhead_gib(facts, plan, shape),
        available_gib=_limit(facts, plan, shape, quant),
    )


def _with_pool(
    fixed: MemoryBill, kv_gib: float, tokens: int, before: int | None, short: float
) -> MemoryBill:
    return fixed.model_copy(
        update={
            "kv_gib": kv_gib,
            "kv_tokens": tokens,
            "kv_tokens_lost": None if before is None else max(before - tokens, 0),
            "fits": short <= 0.0,
            "short_gib": round(short, 2) if short > 0 else None,
        }
    )


def max_requests(
    facts: Facts, plan: Plan, length: int, made: MemoryBill | None = None
) -> int | None:
    """Requests of `length` tokens that one replica runs at once, at least 1: the one count that the
    bill, the estimate, the limits and the rules use. None where that is not known.
    `made`: the plan's bill, where it is at hand.

    A paged pool takes what each request really uses: pages of its tokens, its window, its states.
    Slots (llama-server) are reserved at the plan's length per slot.
    """
    found = room(facts, plan, length, made)
    return None if found is None else max(int(found), 1)


def room(facts: Facts, plan: Plan, length: Length, made: MemoryBill | None = None) -> Length | None:
    """The same count before it is rounded: below 1 where not even one request fits. An array for
    many lengths, and for facts and plans of which a number is an array (N,).
    """
    shape = facts.shape or facts.model
    if shape is None or facts.quant is None:
        return None
    left = free_gib(facts, plan) if made is None else left_gib(made)
    if left is None:
        return None
    free = greater(left, 0.0) * replica_gpus(facts, plan) * GIB
    paged = plan.engine in SERVERS or plan.max_model_len is None
    reserved: Length = length if paged else plan.max_model_len  # type: ignore[assignment]
    return _requests(facts, plan, shape, free, reserved)


def starts(facts: Facts, plan: Plan, tokens: Length, load: Length) -> Any:
    """Whether the plan without drafts, of a pool of small pages, holds one request of its context
    beside the states of those that run, of `load` requests of so many tokens; one truth, or an
    array of them (N,). What `bill` says of it.
    """
    shape = facts.shape or facts.model
    left, held = free_gib(facts, plan), room(facts, plan, tokens)
    kv_token = None if shape is None else kv_sizes.bytes_per_token(shape, plan.kv_cache_dtype)
    if shape is None or left is None or held is None or kv_token is None:
        return False
    slots = load if plan.max_num_seqs is None else lesser(plan.max_num_seqs, load)
    running = lesser(slots, greater(round_down(held), 1))
    length: Any = tokens if plan.max_model_len is None else plan.max_model_len
    window = kv_sizes.window_bytes(shape, plan.kv_cache_dtype, length)
    free = greater(left, 0.0) * replica_gpus(facts, plan) * GIB
    requests = kv_sizes.plain_requests(
        shape, kv_token * kv_sizes.copies(shape, plan), free, length, 0, running, 0,
        window * kv_sizes.window_copies(shape, plan),
    )  # fmt: skip
    return requests >= 1


def free_gib(facts: Facts, plan: Plan) -> float | None:
    """What remains of one device for KV and states."""
    fixed = _fixed_bill(facts, plan)
    return None if fixed is None else left_gib(fixed)


def left_gib(made: MemoryBill) -> float | None:
    """What a bill leaves of one device for KV and states; None where the memory is not known."""
    if made.available_gib is None:
        return None
    return made.available_gib - made.weights_gib - made.spec_gib - made.overhead_gib


def _requests(facts: Facts, plan: Plan, shape: LLM, free: float, length: Length) -> Length | None:
    """Requests of `length` tokens, one or an array of them, that `free` bytes of one replica hold;
    None where the size of its keys and values is not known.
    """
    kv_token = kv_sizes.bytes_per_token(shape, plan.kv_cache_dtype)
    if kv_token is None:
        return None
    kv_token *= kv_sizes.copies(shape, plan)
    if pages_states(plan, shape):
        caching = plan.prefix_caching is True
        return hybrid_requests(shape, kv_token, free, length, plan.k, caching)
    own = drafters.layers(facts, plan) * lesser(plan.k, 1)
    window = kv_sizes.window_bytes(shape, plan.kv_cache_dtype, length) * kv_sizes.window_copies(
        shape, plan
    )
    state = kv_sizes.state_bytes(shape, plan)
    least: Length = greater(length, 1)
    one = least * kv_token * (1 + own / kv_sizes.full_layers(shape))
    held: Length = free / (one + window + state)
    if kv_sizes.shares_context(plan):  # every slot's own part is there, whoever runs
        held = (free - (plan.max_num_seqs or 1) * (window + state)) / one
    if traits(plan.engine).running and shape.state_mb_per_seq:
        each = SGLANG_STATES * state / (1 + plan.k)
        held = lesser(held, greater(SGLANG_STATE_SHARE * free / each, SGLANG_FEW))
    return held


def pages_states(plan: Plan, shape: LLM) -> bool:
    """Whether recurrent states live in pages of the KV pool (see `hybrid_pool`)."""
    return bool(
        traits(plan.engine).states_in_pool
        and shape.is_hybrid
        and shape.linear_layers
        and shape.full_attention_layers
    )


def without_drafts(plan: Plan) -> Plan:
    """The arm without speculation, and without its drafter."""
    caching = plan.prefix_caching if plan.plain_caching is None else plan.plain_caching
    none = {"method": "none", "k": 0, "k_schedule": (), "draft_model": None}
    return plan.model_copy(update={**none, "prefix_caching": caching, "plain_caching": None})


def replica_gpus(facts: Facts, plan: Plan) -> int:
    """Devices that share one replica's weights; llama-server spreads layers over all of them."""
    gpus: int = greater(facts.gpus if plan.engine not in SERVERS else plan.tp * plan.pp, 1)
    return gpus


def replica(facts: Facts, plan: Plan) -> Facts:
    """The facts as one of `dp` replicas sees them: its devices, its share of the requests."""
    if plan.dp == 1 or kv_sizes.attention_groups(plan) > 1:
        return facts
    share = -(-(facts.concurrency or 1) // plan.dp)
    return facts.model_copy(update={"concurrency": share, "gpus": plan.tp * plan.pp})


def _llama_bill(
    facts: Facts,
    plan: Plan,
    shape: LLM,
    fixed: MemoryBill,
    left: float,
    gpus: int,
    before: int | None,
) -> MemoryBill:
    """llama-server allocates the context of all slots at the start."""
    slots = plan.max_num_seqs or facts.concurrency or 1
    kv_token = kv_sizes.bytes_per_token(shape, plan.kv_cache_dtype)
    if kv_token is None:
        return fixed.model_copy(update={"fits": None if left > 0 else False})
    head = 1 + drafters.layers(facts, plan) / kv_sizes.full_layers(shape)
    per_token = kv_token * head / GIB / gpus
    length = _length(facts, plan)
    windows = slots * kv_sizes.window_bytes(shape, plan.kv_cache_dtype, length) / GIB / gpus
    need = (1 if kv_sizes.shares_context(plan) else slots) * length * per_token + windows
    short = max(need + fixed.state_gib - left, 0.0)
    tokens = int(max(left - fixed.state_gib - windows, 0.0) / per_token)
    return _with_pool(fixed, need, tokens, before, short)
