"""The memory bill of a plan: weights, draft head, recurrent state, KV pool, and what speculation
takes from the pool; one count of the requests that it holds.

GiB per GPU; KV tokens over one replica. Not modelled: fragmentation, LoRA, multimodal caches,
pipeline imbalance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.domain.nouns import LLM, Facts, MemoryBill, Plan, Quant
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import drafters
from advisor.perf.regimes.setting import Length, greater, lesser, round_down
from advisor.perf.sizes import pools, shares
from advisor.perf.sizes.device import kept_gib, overhead_gib, release_of, usable_gib
from advisor.perf.sizes.weights import (
    GIB,
    draft_gib,
    layer_gib,
    offloaded_gib,
    published_gib,
    target_gib,
    told_layers,
)

SERVERS = pools.SERVERS
VISION_GIB = sourced(
    0.84, "GiB", "weights in the log of a GB10 (with vision) less an H200's (text only)", "derived"
)
LAST_LEGACY_REPORT = sourced(
    (0, 19), "release", "vLLM: up to it the log's tokens are blocks / groups * block size", "read"
)
SGLANG_STATE_SHARE = sourced(
    0.9 / 1.9, "share of the pool", "SGLang --mamba-full-memory-ratio, 0.9 unless set", "read"
)
SGLANG_STATES = sourced(
    7.5,
    "states a running request",
    "running batches of 35B and 27B on H200, B200 and B300: output rate times TPOT; one without "
    "the prefix cache (kv_cache_configurator.py, _calculate_mamba_ratio)",
    "derived",
)
SGLANG_FEW = sourced(
    4.0, "requests", "no limit below: small pools are set with --max-mamba-cache-size", "chosen"
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
    if (usable := usable_gib(facts)) is None:
        return None
    usable -= kept_gib(facts, plan, usable)
    if (fraction := plan.memory_fraction) is None:
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
    made, shape = _fixed_bill(facts, plan), facts.known_shape
    if made is None or shape is None:
        return MemoryBill(weights_gib=0.0, fits=None)
    if (left := made.left_gib) is None:
        return made
    held = max_requests(facts, plan, facts.memory_tokens, made)
    running = plan.max_num_seqs or facts.load  # a slot has its state whether it runs or not
    state = pools.state_bytes(shape, plan) / GIB / replica_gpus(facts, plan)
    if plan.engine in SERVERS:
        running = min(running, facts.concurrency or running, held or running)
        state = min(state * running, max(left, 0.0))
    else:
        state *= running
    if plan.method == "none":
        before = None
    elif before is None:
        before = bill(facts, without_drafts(plan))
    known = made.replace(
        state_gib=state,
        requests=held,
        requests_without=before.requests if before is not None else None,
        request_tokens=facts.memory_tokens,
    )
    if pools.token_bytes(shape, plan) is None:
        return known.replace(fits=None if left > 0 else False)
    of_engine = _pool if plan.engine in SERVERS else _slots
    kv_gib, tokens, short = of_engine(facts, plan, shape, left, state, running)
    lost = before.kv_tokens if before is not None else None
    return known.replace(
        kv_gib=kv_gib,
        kv_tokens=tokens,
        kv_tokens_lost=None if lost is None else max(lost - tokens, 0),
        fits=short <= 0.0,
        short_gib=round(short, 2) if short > 0 else None,
    )


def _pool(
    facts: Facts, plan: Plan, shape: LLM, left: float, state: float, running: int
) -> tuple[float, int, float]:
    """A server's pool: GiB of KV on each device, tokens as the engine's log tells them, and the GiB
    that one full-length request lacks.
    """
    unit, length = GIB * replica_gpus(facts, plan), plan.max_model_len or facts.length
    token, free = pools.token_bytes(shape, plan) or 0.0, max(left, 0.0) * unit
    requests = _requests(facts, plan, shape, free, length, running) or 0.0
    tokens = int(requests * max(length, 1))
    if pages_states(plan, shape) and (release_of(plan, facts) or (1,))[:2] <= LAST_LEGACY_REPORT:
        tokens = pools.legacy_tokens(shape, token, free, plan.k)
    one = (length * token + pools.windows(shape, plan, length)) / unit
    # in units of one request, since its recurrent states need room too: an engine refuses to start
    # below one
    short = max(one - left, one * (1 - requests)) if requests < 1 else 0.0
    return max(left - (0.0 if traits(plan.engine).states_in_pool else state), 0.0), tokens, short


def _slots(
    facts: Facts, plan: Plan, shape: LLM, left: float, state: float, _: int
) -> tuple[float, int, float]:
    """The same of llama-server, which allocates the context of all slots at the start."""
    unit, length = GIB * replica_gpus(facts, plan), plan.max_model_len or facts.length
    slots = plan.max_num_seqs or facts.load
    head = 1 + drafters.layers(facts, plan) / pools.full_layers(shape)
    token = (pools.token_bytes(shape, plan) or 0.0) * head / unit
    windows = slots * pools.windows(shape, plan, length) / unit
    kv_gib = (1 if pools.shares_context(plan) else slots) * length * token + windows
    return kv_gib, int(max(left - state - windows, 0.0) / token), max(kv_gib + state - left, 0.0)


def _fixed_bill(facts: Facts, plan: Plan) -> MemoryBill | None:
    """What is taken whatever the load: weights, drafter, overhead; None if a size is unknown."""
    shape, quant = facts.known_shape, facts.quant
    weights = target_gib(facts, plan, shape, quant) if shape and quant else None
    offloaded = 0.0 if facts.device.unified_memory else offloaded_gib(plan)  # one memory there
    if shape is None or quant is None or weights is None or offloaded is None:
        return None
    vision = VISION_GIB if facts.llm.multimodal and plan.engine in SERVERS else 0.0
    on_devices = max(weights - told_layers(shape, plan) * layer_gib(shape, quant), 0.0)
    copied = (shape.mixer_params_b or 0.0) * 1e9 * shape.mixer_width(quant) / GIB
    on_devices += copied * (pools.attention_groups(plan) - 1)
    if traits(plan.engine).replicas_wait and pools.EXPERTS in dict(plan.extra):
        # whole experts are spread over all replicas (vllm-docs-dp)
        on_devices -= layer_gib(shape, quant) * (shape.moe_layers or 0) * (1 - 1 / plan.dp)
    gpus = replica_gpus(facts, plan)  # layers are offloaded, which the head is no part of
    head = lesser((shape.lm_head_params_b or 0.0) * 1e9 * quant.bytes_lm_head / GIB, on_devices)
    return MemoryBill(
        weights_gib=greater(on_devices / gpus - offloaded, head / gpus) + vision,
        spec_gib=spec_gib(facts, plan, shape, quant),
        overhead_gib=overhead_gib(facts, plan, shape),
        available_gib=_limit(facts, plan, shape, quant),
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
    shape = facts.known_shape
    if shape is None or facts.quant is None:
        return None
    left = free_gib(facts, plan) if made is None else made.left_gib
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
    shape = facts.known_shape
    left, held = free_gib(facts, plan), room(facts, plan, tokens)
    if shape is None or left is None or held is None:
        return False
    slots = load if plan.max_num_seqs is None else lesser(plan.max_num_seqs, load)
    running = lesser(slots, greater(round_down(held), 1))
    length: Any = tokens if plan.max_model_len is None else plan.max_model_len
    free = greater(left, 0.0) * replica_gpus(facts, plan) * GIB
    full: Any = _requests(facts, plan, shape, free, length, running)
    return full is not None and full >= 1


def free_gib(facts: Facts, plan: Plan) -> float | None:
    """What remains of one device for KV and states."""
    fixed = _fixed_bill(facts, plan)
    return None if fixed is None else fixed.left_gib


def _requests(
    facts: Facts, plan: Plan, shape: LLM, free: float, length: Length, running: Any = None
) -> Length | None:
    """Requests of `length` tokens, one or an array of them, that `free` bytes of one replica hold;
    None where the size of a token is not known. `running`: beside the states of so many others.
    """
    token = pools.token_bytes(shape, plan)
    if token is None:
        return None
    if pages_states(plan, shape):
        return pools.hybrid_requests(shape, plan, token, free, length)
    own = drafters.layers(facts, plan) * lesser(plan.k, 1)
    window, state = pools.windows(shape, plan, length), pools.state_bytes(shape, plan)
    least: Length = greater(length, 1)
    one = least * token * (1 + own / pools.full_layers(shape))
    held: Length = free / (one + window + state)
    if running is not None:
        held = greater(free - state * running, 0.0) / (one + window)
        return held
    if pools.shares_context(plan):  # every slot's own part is there, whoever runs
        held = (free - (plan.max_num_seqs or 1) * (window + state)) / one
    if traits(plan.engine).running and shape.state_mb_per_seq:
        each = (1.0 if plan.prefix_caching is False else SGLANG_STATES) * state / (1 + plan.k)
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
    return plan.replace(**none, prefix_caching=caching, plain_caching=None)


def replica_gpus(facts: Facts, plan: Plan) -> int:
    """Devices that share one replica's weights; llama-server spreads layers over all of them."""
    gpus: int = greater(facts.gpus if plan.engine not in SERVERS else plan.tp * plan.pp, 1)
    return gpus


def replica(facts: Facts, plan: Plan) -> Facts:
    """The facts as one of `dp` replicas sees them: its devices, its share of the requests."""
    whole = plan.engine not in SERVERS or plan.tp * plan.pp == facts.gpus
    if (plan.dp == 1 and whole) or pools.attention_groups(plan) > 1:
        return facts
    return facts.replace(concurrency=-(-facts.load // plan.dp), gpus=plan.tp * plan.pp)
