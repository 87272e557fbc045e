"""What a device has to give, and what an engine takes of it beside weights and KV: context,
workspaces, graphs; and how far a bill of slots can be wrong.

GiB per GPU. What it does not know: what other processes hold.
"""

from math import inf

from advisor.domain.normal import Z10, cdf
from advisor.domain.nouns import LLM, Facts, MemoryBill, Plan
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.domain.versions import release
from advisor.engines.traits import traits
from advisor.knowledge.imputed import table
from advisor.perf.regimes.setting import Length, lesser
from advisor.perf.sizes import pools
from advisor.perf.sizes.weights import GIB, USUAL_WIDTH

GRAPHS = "--max-cudagraph-capture-size"
GRAPHS_OFF = ("--enforce-eager", "--disable-cuda-graph", "--disable-decode-cuda-graph")
GRAPHS_OFF_BY_VALUE = (("--optimization-level", "0"), ("--cuda-graph-backend-decode", "disabled"))
USABLE_DISCRETE = sourced(
    0.996, "GiB per advertised GB", 'H200: "141 GB" is 140.4 GiB to CUDA', "measured"
)
USABLE_REPORTED = sourced(
    0.99,
    "share of what the driver reports",
    "nvidia-smi, CUDA: H100 81,559 MiB, 79.1 GiB",
    "derived",
)
USABLE_UNIFIED = sourced(
    0.935, "GiB per advertised GB", 'GB10: "128 GB" is 119.7 GiB to CUDA', "read"
)
USABLE_APPLE = sourced(
    0.75, "share of the memory", "Metal's recommendedMaxWorkingSetSize, nothing set", "read"
)
SYSTEM_GIB = sourced(
    8.0,
    "GiB",
    "a GB10 froze with 0.3, 6.1 and 7.7 GiB left of its memory "
    "(AEON-7/vllm-ultimate-dgx-spark#9): what stays with the system where an engine has no option "
    "for its share",
    "derived",
)
SYSTEM_SHARE = sourced(
    0.25, "share", "own choice: no more of a small one, as its systems have no display", "chosen"
)
UNIFIED_EXTRA_GIB = sourced(
    2.5, "GiB", "the GB10's KV pool against its weights: host processes count there", "derived"
)
BASE_OVERHEAD_GIB = sourced(
    1.2, "GiB", "start-up log of vLLM on an H200: CUDA context and workspaces", "measured"
)
GRAPHS_GIB = sourced(
    0.59, "GiB", "start-up log of vLLM on an H200: CUDA graphs without speculation", "measured"
)
GRAPHS_PER_DRAFT_GIB = sourced(
    0.21, "GiB a draft token", "the same log: 1.01 GiB at k = 2 against 0.59", "derived"
)
ACTIVATION_BYTES = sourced(
    48,
    "bytes per prompt token of a step and hidden unit",
    "log of vLLM on an H200, 8192 tokens",
    "derived",
)
LLAMA_COMPUTE_GIB = sourced(
    0.8,
    "GiB",
    "CUDA context and compute buffers of llama-server; they grow with the batch and, without flash "
    "attention, with the context: ggml-org/llama.cpp#27953 prints 1.9 for a larger mixture at 64k. "
    "Effect: 1 GiB more is 16,384 tokens of KV cache less with a 27B, 52,428 with a 35B-A3B",
    "assumed",
)


class Card(NamedTuple):
    """What SGLang takes for a card below so much memory; `graphs_wide` from `WIDE` ranks on."""

    below_gib: float
    chunk: int  # tokens of a prefill step
    graphs: int  # largest batch that graphs are captured for
    graphs_wide: int


CARDS = sourced(
    (
        Card(20, 2048, 8, 8),
        Card(35, 4096, 48, 160),
        Card(60, 4096, 32, 160),
        Card(90, 8192, 256, 512),
        Card(160, 8192, 256, 512),
        Card(inf, 16384, 512, 512),
    ),
    "GiB, tokens, requests",
    "sglang 0.5.23 memory_hook.py: chunked_prefill_size and max_bs by gpu_mem",
    "read",
)
USUAL_BUDGET = sourced(
    8192, "tokens", "vLLM engine/arg_utils.py: default of its API server on a large device", "read"
)
FULL_GRAPHS_LOST = sourced(
    (0, 27, 1),
    "release of vLLM",
    "last without, SM12x: knowledge/rules/regime.json",
    "read",
)
MOST_GRAPHS = sourced(8, "draft tokens", "own choice: none of the logs has longer ones", "assumed")
BILL_ERROR_GIB = sourced(
    2.4,
    "GiB",
    "llama-server launches of six owners that are billed 0.3 to 2.4 GiB too large for the card "
    "gained as usual, 1.5x to 2.3x (corral9070xt, sudo38, sudo38c, lc27342b, hfdisc26, "
    "mtpround3060)",
    "measured",
)
OVERFLOW_GIB = sourced(
    6.2, "GiB", "billed too large by it, a launch lost (corral9070xt, 131,072 tokens)", "measured"
)


def card_of(total_mib: float) -> Card:
    """The row of the rule for a card of so much memory, MiB."""
    return next(one for one in CARDS if total_mib < 1024 * one.below_gib)


def release_of(plan: Plan, facts: Facts) -> tuple[int, ...] | None:
    """Return the release of the plan, else of the facts; None where neither states one."""
    return release(plan.engine_version or facts.engine_version or "")


def overhead_gib(facts: Facts, plan: Plan, shape: LLM) -> float:
    """Context, workspaces, activations, graphs, per GPU. GiB."""
    if plan.engine not in pools.SERVERS:
        return LLAMA_COMPUTE_GIB
    budget = plan.max_num_batched_tokens
    tokens = default_budget(facts, plan.engine) if budget is None else budget
    activations = tokens * (shape.hidden or USUAL_WIDTH) * ACTIVATION_BYTES / GIB
    graphs: float = sum(
        GRAPHS_GIB + GRAPHS_PER_DRAFT_GIB * lesser(k, MOST_GRAPHS) for k in _draft_lengths(plan)
    )
    if loses_full_graphs(facts, plan):
        graphs = GRAPHS_GIB / 2
    unified = UNIFIED_EXTRA_GIB if facts.device.unified_memory else 0.0
    return BASE_OVERHEAD_GIB + activations + graphs + unified


def default_budget(facts: Facts, engine: str | None = None) -> int:
    """Tokens of a step that the engine (of the facts) takes for this card, unless told."""
    memory, name = facts.device.memory_gb, facts.hardware.id if facts.hardware else ""
    if memory is None:
        return USUAL_BUDGET
    if traits(engine or facts.engine).outside_share:
        return card_of(memory.value * 1000**3 / 1024**2).chunk
    small = memory.value * 1e9 < table("values")["big_batches_bytes"] or "a100" in name
    return int(table("values")["budget_small"]) if small else USUAL_BUDGET


def _draft_lengths(plan: Plan) -> tuple[int, ...]:
    """The draft lengths that graphs are captured for, each on its own. SGLang prepares a state for
    every length of its adaptive configuration (docs.sglang.io, adaptive speculative decoding).
    """
    if plan.method == "none":
        return (0,)
    if plan.k_schedule and traits(plan.engine).graphs_per_k:
        return tuple(sorted({k for _, _, k in plan.k_schedule}))
    return (plan.k,)


def loses_full_graphs(facts: Facts, plan: Plan) -> bool:
    """vLLM up to 0.27.1 on SM12x: FlashInfer (fp8 KV) has no FULL graphs for a verify step."""
    fp8_kv, version = (plan.kv_cache_dtype or "").startswith("fp8"), release_of(plan, facts)
    old = version is None or version <= FULL_GRAPHS_LOST
    drafts = plan.engine == "vllm" and plan.method != "none"
    return drafts and facts.device.arch.startswith("sm_12") and fp8_kv and old


def kept_gib(facts: Facts, plan: Plan, usable: float) -> float:
    """What the system keeps of the `usable` GiB that it shares with the accelerator, where the
    engine has no option for its share; Metal's own limit leaves it more. GiB of one device.
    """
    shared = facts.device.unified_memory and facts.device.vendor != "apple"
    kept = shared and not traits(plan.engine).memory_share
    return min(SYSTEM_GIB, SYSTEM_SHARE * usable) if kept else 0.0


def usable_gib(facts: Facts) -> float | None:
    """Memory of one device as the runtime reports it; None if not known. GiB."""
    hw = facts.device
    if hw.memory_gb is None:
        return None
    if hw.memory_reported_mib is not None:
        return hw.memory_reported_mib.value / 1024 * USABLE_REPORTED
    share = USABLE_UNIFIED if hw.unified_memory else USABLE_DISCRETE
    return hw.memory_gb.value * (USABLE_APPLE if hw.vendor == "apple" else share)


def overflow_chance(short_gib: Length) -> Length:
    """The chance that what is billed too large by so many GiB, one number or an array, does not
    fit: a tenth at the largest shortfall that was seen to run, nine tenths at one that was seen
    to overflow (N,).
    """
    middle, sd = (BILL_ERROR_GIB + OVERFLOW_GIB) / 2, (OVERFLOW_GIB - BILL_ERROR_GIB) / 2 / Z10
    if isinstance(short_gib, int | float):
        return cdf((short_gib - middle) / sd)
    import numpy as np

    distinct, which = np.unique(short_gib, return_inverse=True)
    return np.array([cdf((one - middle) / sd) for one in distinct.tolist()])[which]


def moves_experts(facts: Facts, plan: Plan) -> bool:
    """Whether llama-server makes room for slots by moving experts to system memory (`--fit`, on by
    default): a mixture on a card with memory of its own.
    """
    shape = facts.known_shape
    mixture = shape is not None and bool(shape.moe_layers)
    return plan.engine == "llama-server" and mixture and not facts.device.unified_memory


def reserves(plan: Plan) -> bool:
    """Whether the plan's engine reserves its slots at the start."""
    return traits(plan.engine).pool == "slots"


def nearly_fits(plan: Plan, made: MemoryBill) -> bool:
    """Whether a plan's slots are billed too large by no more than such bills were wrong by."""
    return reserves(plan) and made.fits is False and (made.short_gib or 0.0) <= BILL_ERROR_GIB


def captured_tokens(plan: Plan) -> int | None:
    """Tokens of the largest CUDA graph that the plan's own flag asks for (vLLM)."""
    return int(size) if (size := dict(plan.extra).get(GRAPHS) or "").isdecimal() else None


def without_graphs(plan: Plan) -> bool:
    """Whether the plan's own flags take CUDA graphs from the engine, for both arms."""
    return any(
        (name in GRAPHS_OFF and text.lower() != "false")
        or (name, text) in GRAPHS_OFF_BY_VALUE
        or (name == "--compilation-config" and '"cudagraph_mode":"NONE"' in text)
        for name, text in [(name, (value or "").replace(" ", "")) for name, value in plan.extra]
    )
