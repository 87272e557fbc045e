"""Which kernels an engine uses on a platform, and which llama.cpp takes for the few tokens of a
verify step: the switch points of its own dispatch.

Up to a few tokens a matrix-vector kernel reads the weights once and computes each token by itself;
beyond, a tiled kernel. CUDA and ROCm builds keep the vector kernel up to 8 tokens unless a card's
switch point was tuned for its K-quants. Metal has a small-batch kernel, but for K-quants from 4
tokens on and for I-quants not at all: below, its plain kernel reads the weights anew for every
token, so that a step of 3 tokens costs more than one of 4.

Read in ggml-cuda/mmvq.cu and ggml-metal/ggml-metal-ops.cpp of ggml-org/llama.cpp.
"""

import re

import numpy as np

from advisor.domain.sourced import sourced
from advisor.engines.traits import engines_with, gguf_engine
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Mask, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.rates import (
    PROMPT_EXPERTS,
    at,
    params,
    prompt_rate,
    small_batch_rate,
    tile_overhead,
    unpack_tokens,
)

SMALL_BATCH_PATHS = (*P.LLAMACPP, "mlx")
# Forks of MLX whose verify kernels run on the matrix units from two tokens on, by their own
# descriptions.
_TILED = re.compile(r"mtplx|mlx-dspark", re.IGNORECASE)
WRAPPERS = ("ollama", "lmstudio")  # which run llama.cpp
LONGEST = sourced(
    8.0, "tokens", "llama.cpp: MMVQ_MAX_BATCH_SIZE; Metal's longest small batch", "read"
)
METAL_EXPERTS = sourced(
    31.0, "tokens", "llama.cpp, Metal: mul_mm_id from 32; below, each reads its own experts", "read"
)
_METAL_K_FROM = sourced(
    4.0, "tokens", "llama.cpp, Metal: small-batch kernel of K-quants from 4 tokens", "read"
)
# Upper bounds of the mean bits per weight of a file of Q2_K, Q3_K, Q4_K and Q5_K; Q6_K is above.
_BITS = sourced(
    np.array([3.4, 4.4, 5.4, 6.2]),
    "bits",
    "Between published files: UD-Q2_K_XL 3.3, Q3_K_S 3.64, Q3_K_L 4.3, Q4_K_S 4.67, UD-Q4_K_XL 5.2,"
    " Q5_K_S 5.57, UD-Q5_K_XL 5.9, Q6_K 6.56 (knowledge/quants)",
    "derived",
)
_USUAL_BITS = sourced(4.8, "bits", "Q4_K_M, the most published K-quant", "assumed")
# Most tokens in the vector kernel for Q2_K .. Q6_K, by architecture, and the first build that has
# the switch.
TUNED: dict[str, tuple[float, tuple[float, ...]]] = sourced(
    {
        "sm_89": (10530, (4, 6, 8, 8, 8)),  # llama.cpp #26079, merged between b10454 and b10549
        "sm_120": (10530, (5, 5, 5, 6, 7)),
        "sm_121": (10530, (6, 8, 8, 8, 8)),
        "sm_70": (10830, (4, 6, 5, 6, 7)),  # llama.cpp #28912
        "gfx9": (9250, (5, 3, 3, 3, 5)),  # llama.cpp #23227: matrix cores of CDNA2 and later
    },
    "build, tokens",
    "llama.cpp #26079 and #23227: most tokens in the vector kernel, and since which build",
    "read",
)
_MATRIX_CORES = sourced(
    100e12, "FLOP/s, bf16", "Published rates of gfx9: MI210 and later above, older below", "derived"
)


@P.memoize
def dense_limit(p: P.Points) -> Floats:
    """Most tokens of one step that dense weights meet in the vector kernel (N,)."""
    limit = np.full(len(p), LONGEST)
    k_quant = p.quant_family == P.QUANT_FAMILIES.index("gguf-k")
    if not k_quant.any():
        return limit
    size = np.searchsorted(_BITS, np.nan_to_num(p.quant_bits, nan=_USUAL_BITS))
    cards = p.is_path("llamacpp-cuda", "llamacpp-rocm") & k_quant
    for arch, (build, limits) in TUNED.items():
        here = cards & (p.arch == P.ARCHS.index(arch)) & (np.nan_to_num(p.version) >= build)
        if arch == "gfx9":
            here &= p.bf16 > _MATRIX_CORES
        limit = np.where(here, np.array(limits)[size], limit)
    return limit


def expert_limit(p: P.Points) -> Floats:
    """Most tokens of one step whose experts are read token by token, of N filled points (N,)."""
    return np.where(p.is_path("llamacpp-metal"), METAL_EXPERTS, LONGEST)


def repeats(p: P.Points, tokens: Tokens) -> Mask:
    """Where dense weights are read anew for every token: Metal, K-quants below 4, I-quants to 8."""
    few = (tokens > 1) & (tokens <= LONGEST) & p.is_path("llamacpp-metal")
    k_quant = (p.quant_family == P.QUANT_FAMILIES.index("gguf-k")) & (tokens < _METAL_K_FROM)
    return np.asarray(few & (k_quant | (p.quant_family == P.QUANT_FAMILIES.index("gguf-i"))))


def slow_small_batch(p: P.Points, tokens: Tokens) -> Mask:
    """Where Metal's small-batch kernel for K-quants gains nothing over reading the weights anew:
    GPU family Apple9 (N,).

    Nobody says why; measured on M3 Ultra and M4 (sudom3ultra, gemma31m3u, mangom4), and not on M1
    Max and M5 Pro.
    """
    chips = p.is_path("llamacpp-metal") & (p.arch == P.ARCHS.index("apple9"))
    k_quant = p.quant_family == P.QUANT_FAMILIES.index("gguf-k")
    return np.asarray(chips & k_quant & (tokens >= _METAL_K_FROM) & (tokens <= LONGEST))


def small_batch_seconds(
    p: P.Points,
    c: Constants,
    tokens: Tokens,
    distinct: Floats,
    dense_read: Seconds,
    expert_read: Floats,
) -> tuple[Floats, Floats]:
    """llama.cpp and MLX: a matrix-vector kernel for a few tokens (no reuse among experts), a tiled
    one beyond (see above).

    A switch point below 8 was tuned to where both kernels cost the same, so beyond it a step costs
    what it costs there and the tiled kernel's operations.
    """
    mixer, ffn, routed = params(p)
    rate = small_batch_rate(p, c)
    ops = 2 * (mixer + ffn + p.lm_head_params)
    tiled_rate = prompt_rate(p) * p.tp
    limit = dense_limit(p)
    unpack = unpack_tokens(p, c)
    unpacking = unpack * ops / rate
    tiled = _tiled_seconds(dense_read, unpacking, tile_overhead(p, c))
    dense_read = np.fmax(dense_read, unpacking)
    again = np.where(repeats(p, tokens), c.metal_repeat, 1.0)
    again = np.where(slow_small_batch(p, tokens), c.metal_apple9, again)
    vector = dense_read + np.fmax(np.fmin(tokens, limit) - 1, 0) * again * ops / rate
    beyond = np.where(
        limit < LONGEST,
        vector + (tokens - limit) * ops / tiled_rate,
        tiled + tokens * ops / tiled_rate,
    )
    dense = np.where(tokens <= limit, vector, beyond)
    # CUDA: each token unpacks its own experts, and tiles that few tokens fill gain nothing: 0.45 ms
    # a token (RTX 3090, llama.cpp #15525), 0.40 (H100, own llama-batched-bench)
    cuda = p.is_path("llamacpp-cuda")
    anew = np.fmax(expert_read, tokens * unpack * 2 * routed / rate)
    few = np.where(cuda, anew, expert_read + np.fmax(tokens - 1, 0) * 2 * routed / rate)
    many_rate = np.where(cuda, rate, PROMPT_EXPERTS * tiled_rate)
    share = np.divide(distinct, p.topk, out=np.zeros_like(distinct), where=p.topk > 0)
    many = _tiled_seconds(expert_read, share * unpack * 2 * routed / rate, at(c.mmq_moe, p))
    many = many + tokens * 2 * routed / many_rate
    many = many + p.moe_layers * at(c.mmq_moe_layer_s, p)
    experts = np.where(tokens <= expert_limit(p), few, many)
    return dense, experts


def _tiled_seconds(read: Floats, unpacking: Floats, overhead: Floats) -> Floats:
    """Reading weights for tiles that few tokens fill: what that costs more is of the unpacking, so
    a card of little bandwidth, which waits for the weights, has it free (llama.cpp
    benches/dgx-spark.md: 7B Q8_0 on a GB10 in 34 ms for one sequence, 48 for 16 and 54 for 32).
    Where unpacking is not known it is a part of the reading.
    """
    return np.where(unpacking > 0, np.fmax(read, overhead * unpacking), overhead * read)


def kernel_path(engine: str, arch: int, hints: str = "", hw_class: int = 0) -> int:
    """Code of the kernel path: which kernels this engine uses on this platform. `hints`: text that
    may name a backend.

    llama.cpp on AMD is taken as ROCm unless the text says Vulkan, on Intel and on small integrated
    Radeons (which ROCm does not list as supported) as Vulkan.
    """
    word, text = P.ARCHS[arch], hints.lower()
    nvidia = word.startswith("sm_") or word == "unknown"
    if gguf_engine(engine) or engine in WRAPPERS:
        if word.startswith("apple"):
            name = "llamacpp-metal"
        elif "vulkan" in text or word == "intel":
            name = "llamacpp-vulkan"
        elif "rocm" in text or "hip" in text:
            name = "llamacpp-rocm"
        elif word.startswith("gfx"):
            name = "llamacpp-vulkan" if hw_class == P.CLASSES.index("igpu") else "llamacpp-rocm"
        else:
            name = "llamacpp-cuda"
    elif engine in engines_with("replicas"):
        name = f"{engine}-cuda" if nvidia else "mlx" if word.startswith("apple") else "vllm-other"
    else:
        name = engine if engine in P.PATHS else "other"
    return P.PATHS.index(name)


def tiled_kernels(engine: str, version: str) -> float:
    """1.0 where a fork of MLX brings matrix kernels for a few tokens, else 0.0."""
    return float(engine == "mlx" and bool(_TILED.search(version)))
