"""The share of a card that an engine takes unless told.

SGLang's is what its own rule leaves for weights and KV beside activations and CUDA graphs:
`handle_gpu_memory_settings` and `adjust_mem_fraction_for_vlm` of its arg_groups/memory_hook.py, MiB
per GPU. What it does not know: attention data parallelism, DeepEP, a model's vision encoder.
"""

from math import inf

from advisor import engines
from advisor.domain.nouns import LLM, Facts, Plan
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.perf.regimes.setting import greater, lesser
from advisor.perf.sizes.device import card_of, release_of, usable_gib

DEFAULT_FRACTION = sourced(
    {"llama-server": 1.0, "ik_llama.cpp": 1.0},
    "share of the usable memory",
    "llama-server has no such option; vLLM's default is in its catalogue, SGLang's is its rule",
    "read",
)


WIDE = sourced(4, "ranks", "sglang 0.5.23 memory_hook.py: tp_size < 4", "read")
FIXED_MIB, TOKEN_MIB, LEAST_TOKENS, RANK_MIB, GRAPH_MIB, PREFILL_GRAPH_MIB, MLA_MIB = sourced(
    (512.0, 1.5, 2048, 128.0, 2.0, 8.0, 1536.0),
    "MiB; tokens",
    "sglang 0.5.23 memory_hook.py: constant meta data; activation_tokens of a prefill step, each "
    "and at least; tp_size * pp_size / 8 * 1024; a request of the largest graph (decode max_bs); a "
    "prefill graph (reserve_for_graph_mb), and those of an MLA model",
    "read",
)
LARGE_GIB, LEAST_MIB = sourced(
    (60.0, 10_240.0),
    "GiB, MiB",
    "sglang 0.5.23 memory_hook.py: from such a card on the least",
    "read",
)
CAPPED_SINCE = sourced(
    (0, 5, 23), "release", "sglang 0.5.23 memory_hook.py: max_bs is max_running_requests", "read"
)
VISION = sourced(
    0.9097,
    "ratio",
    "sglang 0.5.23 memory_hook.py, for an encoder of 27 layers of 1152 (SigLIP So400m): 0.95 * "
    "(1 - 0.1 * (27 * 1152**2 / (24 * 1024**2) - 1)); larger ones are rare",
    "assumed",
)
TEXT_ONLY = ("gemma-3", "llama-4")  # configs/model_config.py: mm_disabled_models


def sglang_share(facts: Facts, plan: Plan, shape: LLM) -> float | None:
    """SGLang's share, 0 to 1; None where the card's memory is not known."""
    usable, reported = usable_gib(facts), facts.device.memory_reported_mib
    if usable is None:
        return None
    total = reported.value if reported is not None else 1024 * usable
    card = card_of(total)
    chunk = plan.max_num_batched_tokens or card.chunk
    batch: float = card.graphs + (card.graphs_wide - card.graphs) * (plan.tp >= WIDE)
    if plan.max_num_seqs is not None and (release_of(plan, facts) or ()) >= CAPPED_SINCE:
        batch = lesser(batch, plan.max_num_seqs)
    reserve: float = (
        FIXED_MIB
        + TOKEN_MIB * max(chunk, LEAST_TOKENS)
        + RANK_MIB * plan.tp * plan.pp
        + GRAPH_MIB * batch
        + (MLA_MIB if shape.arch.startswith("mla") else PREFILL_GRAPH_MIB * prefill_graphs(chunk))
    )
    if total > 1024 * LARGE_GIB:
        reserve = greater(reserve, LEAST_MIB)
    sees = facts.llm.multimodal and not facts.llm.id.startswith(TEXT_ONLY)
    share: float = (VISION if sees else 1.0) * (1 - reserve / total)
    return share


def default_share(facts: Facts, plan: Plan, shape: LLM) -> float:
    """The share of any engine: vLLM's differs by release, SGLang's by the card and the load."""
    if plan.engine in DEFAULT_FRACTION:
        return DEFAULT_FRACTION[plan.engine]
    if traits(plan.engine).outside_share:
        own = sglang_share(facts, plan, shape)
        return 1.0 if own is None else own
    known, version = engines.get(plan.engine).catalogue, plan.engine_version
    asked = version if version in known.versions else None  # a build that is no release
    return float(str(known.default("--gpu-memory-utilization", asked)))


# Tokens between one captured size and the next, up to so many tokens
GRAPH_STEPS = sourced(
    ((4, 32), (16, 256), (32, 512), (64, 1024), (256, 4096), (512, inf)),
    "tokens",
    "sglang 0.5.23 cuda_graph_hook.py: generate_prefill_cuda_graph_batch_sizes",
    "read",
)


def prefill_graphs(tokens: int) -> int:
    """CUDA graphs for prefill steps of up to so many tokens."""
    count = below = 0.0
    for step, top in GRAPH_STEPS:
        count += max(min(tokens, top) - below, 0) // step
        below = top
    return int(count)
