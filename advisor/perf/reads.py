"""What a step reads that goes by its tokens: the KV cache, with the operations of attention and
verify kernels that do not split it, and the experts that its tokens are routed to.
"""

import numpy as np

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Requests, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.rates import SERVER_PATHS, at, attention_share, read_rate
from advisor.perf.sizes.pools import LATENT

_FLASH_ATTENTION_2 = ("sm_80", "sm_86", "sm_89", "sm_120", "sm_121")
_RDNA = ("gfx11", "gfx12")
_SM12X = ("sm_120", "sm_121")
# Nodes of a standard normal at the middles of eight equally likely classes: expert popularity is
# lognormal.
_NODES = sourced(
    np.array([-1.5341, -0.8871, -0.4888, -0.1573, 0.1573, 0.4888, 0.8871, 1.5341]),
    "standard deviations",
    "Quantiles of the standard normal at 1/16, 3/16, ... 15/16",
    "derived",
)
_LARGEST = sourced(
    np.array([0.0, 0.80, 1.19, 1.52, 1.82, 2.10, 2.36]),
    "standard deviations",
    "expected largest of 1, 2, 4 ... 64 normal numbers, over their mean: order statistics",
    "derived",
)
_WHOLE = sourced(
    0.9,
    "ratio",
    "kernels over whole experts by those over parts: prompts of DeepSeek R1, TP 8 on H200, 3.4 ms "
    "a layer with and 3.1 without expert parallelism (vllm#28887, 2025-11-17)",
    "derived",
)
ALIKE_SHARE = sourced(
    0.5, "share", "own choice: of the experts, where requests of one batch are alike", "chosen"
)
MOST_SHARE = sourced(0.995, "share", "own choice: no expert takes every token", "chosen")

_FP8_WIDE = sourced(
    (256, 2.9),
    "width of a head, factor on the bytes' time",
    "FlashAttention 3, heads of 256, fp8 cache: 13.1 ms more at 32 x 65,536 tokens than at 2,048 "
    "where 16 bits add 9.1 (35B-A3B, H200, vLLM 0.25.1; vllm#48786 has the same). Heads of 128: 1",
    "measured",
)


def attention_seconds(
    p: P.Points, c: Constants, batch: Requests, tokens_per_request: Tokens, context: Tokens
) -> Seconds:
    """KV bytes are read once per request, operations grow with tokens; windows cut both. What
    sparse attention picks each token reads for itself, and the keys to pick by are read whole.
    """
    bandwidth = read_rate(p, c)
    # groups without a request have nothing to read, and MLA's one vector is read by every rank
    bandwidth = bandwidth / np.fmax(p.attention_groups / np.fmax(batch, 1.0), 1.0)
    shared = _is_latent(p) & p.is_path(*SERVER_PATHS)
    bandwidth = bandwidth / np.where(shared, p.tp / p.attention_groups, 1.0)
    seen = np.fmin(context, p.sparse_keys * tokens_per_request)
    elements = seen * p.kv_elems + np.fmin(context, p.window) * p.swa_kv_elems
    unpacked = (
        p.is_path("vllm-cuda")
        & p.is_arch("sm_90")
        & (p.head_dim == _FP8_WIDE[0])
        & (p.kv_bytes == 1)
    )
    read = elements * p.kv_bytes * np.where(unpacked, _FP8_WIDE[1], 1.0) + context * p.index_bytes
    ops = 4 * batch * tokens_per_request * attended_keys(p, context)
    small = p.is_path(*SMALL_BATCH_PATHS)
    rate = np.where(small, 0.5 * p.fp32, p.bf16) * attention_share(p, c) * p.tp
    return np.hypot(batch * read / bandwidth, ops / rate)  # they overlap, but not perfectly


@P.memoize
def _is_latent(p: P.Points) -> P.Mask:
    """Whether a layer's keys and values are as many as MLA's (N,)."""
    return np.isin(np.round(p.kv_elems / np.fmax(p.global_layers, 1)), LATENT)


def attended_keys(p: P.Points, context: Tokens) -> Floats:
    """Keys that a token meets over all layers, context or window, times their heads' width."""
    sliding = np.fmax(p.attn_layers - p.global_layers, 0) * p.swa_head_dim
    seen = np.fmin(context, p.sparse_keys)
    return np.asarray(
        p.heads * (seen * p.global_layers * p.head_dim + np.fmin(context, p.window) * sliding)
    )


def serial_attention_seconds(p: P.Points, c: Constants, context: Tokens) -> Seconds:
    """Verify attention of kernels that split the KV cache over the chip for single queries only; 0
    where all is split.

    One block of threads per request and KV head then walks the whole context, whatever the batch,
    the heads or the tensor parallelism. That is FlashAttention-2 (vLLM up to Ada and on SM12x with
    a 16-bit KV cache; an fp8 cache takes FlashInfer there), SGLang's Triton kernels there, and
    vLLM's Triton kernels on Radeon cards. MLA has kernels of its own.
    """
    archs = p.is_arch(*_FLASH_ATTENTION_2)
    wide = (p.kv_bytes >= 2) & (p.quant_family != P.QUANT_FAMILIES.index("nvfp4"))
    serial = p.is_path("vllm-cuda") & archs & wide
    serial |= p.is_path("sglang-cuda") & p.is_arch(*_SM12X)
    serial |= p.is_path("vllm-other") & p.is_arch(*_RDNA)
    serial &= (p.verify_tokens > 1) & ~_is_latent(p)
    return np.where(serial, context * p.global_layers * at(c.verify_serial_s, p), 0.0)


def union(experts: Floats, topk: Floats, tokens: Tokens, skew: float = 0.0) -> Floats:
    """Expected number of distinct experts that `tokens` independent tokens reach, lognormal
    popularity of width `skew`.

    Uniform routing (skew 0) gives E (1 - (1 - K/E)^tokens), the formula of MoESD (arXiv
    2505.19645). 0 for dense models. `topk`: experts of each token, K.
    """
    share = np.divide(topk, experts, out=np.zeros_like(topk), where=experts > 0)
    weights = np.ones(1) if skew <= 0 else np.exp(skew * _NODES) / np.exp(skew * _NODES).mean()
    left = np.zeros(np.broadcast(share, tokens).shape)
    for weight in weights:
        missed = np.minimum(weight * share, MOST_SHARE)
        np.log1p(np.negative(missed, out=missed), out=missed)
        missed = missed * tokens
        left += np.exp(missed, out=missed)
    return np.asarray(experts * (1 - left / len(weights)))


def reached_experts(p: P.Points, c: Constants, batch: Requests, per_request: Tokens) -> Floats:
    """Distinct experts of one layer read by a step: popular ones (skew), shared ones once (rho)."""
    rho = c.rho * np.where(p.workload == P.WORKLOADS.index("random"), c.rho_random, 1.0)
    return union(p.experts, p.topk, batch * (1 + (1 - rho) * (per_request - 1)), c.skew)


def busiest_reads(p: P.Points, distinct: Floats) -> Floats:
    """Experts that the busiest rank reads, over an equal share of the `distinct` ones of a layer:
    whole experts lie on one rank, and the step waits for the last one. Normal approximation (N,).
    """
    ranks = p.expert_ranks
    share, left = distinct / ranks, (p.experts - distinct) / np.fmax(p.experts - 1, 1.0)
    spread = np.sqrt(np.fmax(share * (1 - 1 / ranks) * left, 0.0))
    most = np.fmin(share + _highest(ranks) * spread, np.fmin(distinct, p.experts / ranks))
    return np.where((ranks > 1) & (distinct > 0), most / np.fmax(share, np.finfo(float).eps), 1.0)


@P.memoize
def busiest_tokens(p: P.Points, c: Constants) -> Floats:
    """Time that the busiest rank computes with whole experts, over that of an equal share with a
    part of each (N,).
    """
    width = np.sqrt(np.expm1(c.skew**2))  # of one expert's popularity
    each = np.fmax(p.experts / p.expert_ranks, 1.0)
    spread = width * np.sqrt((1 - 1 / p.expert_ranks) / each)
    most = 1 + _highest(p.expert_ranks) * spread
    return np.where(p.expert_ranks > 1, np.fmax(_WHOLE * most, 1.0), 1.0)


def _highest(ranks: Floats) -> Floats:
    """Standard deviations of the largest of so many equal shares of one sum (N,)."""
    places = np.arange(len(_LARGEST))
    return np.asarray(np.interp(np.log2(ranks), places, _LARGEST), dtype=np.float64)


def least_bytes(p: P.Points, batch: Requests) -> Floats:
    """Weights that a plain step of `batch` requests reads at the very least: all that every token
    needs, once, and of the experts half of those that independent tokens would reach. `p` filled.
    """
    reached = np.fmax(p.topk, ALIKE_SHARE * union(p.experts, p.topk, batch))
    experts = reached * p.expert_params * p.moe_layers
    ffn = (p.dense_ffn_params + p.shared_params + experts) * p.bytes_ffn
    return p.mixer_params * p.bytes_mixer + ffn + p.lm_head_params * p.bytes_lm_head
