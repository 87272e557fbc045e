"""Bytes of keys and values that a model keeps, and how many requests a pool of one replica holds.

vLLM gives hybrid models one pool of equal pages: an attention page is as large as one layer's
recurrent state, and layers are grouped so that each group has as many as there are attention
layers, the last one padded. A draft head adds an attention layer, so 10 + 30 layers in 4 groups of
10 become 11 + 33 in 4 groups of 11, and each running request holds 1 + k states per group.
Reproduces the logs of vLLM 0.25.1 on one H200 (4,228,297 -> 3,263,864 tokens) and of 0.19.1 on GB10
(360k -> 323k).
"""

import math

from advisor.domain.nouns import LLM, Plan
from advisor.domain.sourced import sourced
from advisor.engines.sglang import DP_ATTENTION, DP_SIZE, GROUPS
from advisor.knowledge.imputed import table
from advisor.perf.regimes.setting import Length, greater, lesser, round_down, round_up

GRAPH_PAGES_UNTIL = sourced(
    "0.25.1",
    "release",
    "vLLM v1/worker/gpu_model_runner.py: up to it, graphs are measured at the start beside a pool "
    "of as many pages as the largest has tokens (27B, 2,304: 110 GiB, out of memory on an H200)",
    "read",
)
PAGE_ALIGN = sourced(16, "tokens", "vLLM: attention block sizes are multiples of 16 tokens", "read")

CONV_STATE_BYTES = sourced(
    16_384.0, "bytes", "A step of a GDN layer: 8192 convolution channels (config.json)", "derived"
)
CONV_TOKENS = sourced(
    3, "tokens", "config.json of Qwen3.5: linear_conv_kernel_dim 4, less the token itself", "read"
)


def legacy_tokens(shape: LLM, token: float, available: float, k: int) -> int:
    """Tokens of a hybrid model's pool as vLLM up to 0.19 reports them."""
    page, groups, page_tokens = _pages(shape, token, k)
    return max(int(available // page // (1 + groups) * page_tokens), 0)


def _pages(shape: LLM, token: float, k: int) -> tuple[float, int, int]:
    """Bytes of a page in all layers of a group, groups of recurrent layers, tokens of a page;
    arrays where k is one.
    """
    recurrent, layer_token = shape.linear_layers or 0, token / (shape.full_attention_layers or 1)
    state = (shape.state_mb_per_seq or 0.0) * 1e6 / max(recurrent, 1) + CONV_STATE_BYTES * (
        CONV_TOKENS + k
    )
    page_tokens = round_up(state / layer_token / PAGE_ALIGN) * PAGE_ALIGN
    group = (shape.full_attention_layers or 1) + lesser(k, 1)
    return group * page_tokens * layer_token, round_up(recurrent / group), page_tokens


def hybrid_requests(
    shape: LLM, plan: Plan, token: float, available: float, length: Length
) -> Length:
    """Requests of `length` tokens, one or an array of them, that `available` bytes of vLLM's pool
    for a hybrid model hold at once, where a token takes `token` bytes. With prefix caching each
    group keeps one more state, the one at the last page's end (H200 log: 4,228,297 -> 3,895,351
    tokens).
    """
    page, groups, page_tokens = _pages(shape, token, plan.k)
    needed = -(-length // page_tokens) + groups * (1 + plan.k + (plan.prefix_caching is True))
    held: Length = greater(round_down(available / page), 0) / needed
    return held


def hybrid_pages(shape: LLM, plan: Plan, available: float) -> float:
    """Pages of such a pool in so many bytes, inf where the size of a token is not known."""
    token = token_bytes(shape, plan)
    return available // _pages(shape, token, plan.k)[0] if token else math.inf


EXPERTS, EXPERT_RANKS = "--enable-expert-parallel", "--ep-size"  # vLLM: all ranks; SGLang
SERVERS = ("vllm", "sglang")
LINKS = ("roce", "ethernet")  # between machines

# Cached per token and layer by MLA, one vector that cannot be split over ranks: 512 compressed and
# 64 for positions (DeepSeek, GLM, Kimi), 256 and 64 (Mistral Small 4), 512 (GLM-5.3)
LATENT = sourced(
    (576, 320, 512),
    "elements",
    "config.json: DeepSeek-V3, GLM-5.2; Mistral Small 4; GLM-5.3",
    "read",
)

SHARED_CONTEXT = ("--kv-unified", None)

# llama.cpp keeps a recurrent state for every drafted token of these alone; of other drafts it keeps
# a copy in the machine's memory. Source: common/common.h, need_n_rs_seq (b11312).
ROLLS_BACK = ("mtp", "eagle3", "dflash", "dspark")


def state_bytes(shape: LLM, plan: Plan) -> float:
    """Recurrent states of a running request on the device: one, and one for every drafted token."""
    copied = plan.engine not in SERVERS and plan.method not in ROLLS_BACK
    return (shape.state_mb_per_seq or 0.0) * 1e6 * (1 if copied else 1 + plan.k)


def shares_context(plan: Plan) -> bool:
    """Whether llama-server's slots share one context, so that one request may take all of it."""
    return SHARED_CONTEXT in plan.extra


def full_layers(shape: LLM) -> int:
    """Layers whose keys and values grow with the context; `kv_elems_per_token` is theirs."""
    return shape.full_attention_layers or shape.layers or 1


def bytes_per_token(shape: LLM, kv_dtype: str | None) -> float | None:
    """Bytes of K and V for one token, and of the keys that sparse attention picks by; None if not
    known.
    """
    if shape.kv_elems_per_token is None:
        return None
    width = table("kv_cache_types").get((kv_dtype or "").lower(), math.nan)
    width = 2.0 if math.isnan(width) else width
    return shape.kv_elems_per_token * width + (shape.index_bytes_per_token or 0.0)


def token_bytes(shape: LLM, plan: Plan) -> float | None:
    """Bytes of one token's K and V on all ranks of a replica; None if not known. Every rank has all
    keys that sparse attention picks by (MiniMax-M3, TP 8: 45.3 kB on each; vllm#51494).
    """
    if (token := bytes_per_token(shape, plan.kv_cache_dtype)) is None:
        return None
    index = shape.index_bytes_per_token or 0.0
    ranks = plan.tp // attention_groups(plan) if plan.engine in SERVERS else 1
    return (token - index) * copies(shape, plan) + index * ranks


def windows(shape: LLM, plan: Plan, length: Length) -> Length:
    """Bytes of one request's K and V in the sliding layers, on all ranks of a replica."""
    held: Length = window_bytes(shape, plan.kv_cache_dtype, length) * copies(
        shape, plan, sliding=True
    )
    return held


def window_bytes(shape: LLM, kv_dtype: str | None, length: Length) -> Length:
    """Bytes of K and V that the sliding layers keep of one request: those of their window."""
    if not shape.swa_layers or not shape.swa_window or not shape.kv_elems_per_token:
        return 0.0 * length
    token = (bytes_per_token(shape, kv_dtype) or 0.0) - (shape.index_bytes_per_token or 0.0)
    heads = shape.swa_kv_heads or shape.kv_heads or 0
    size = shape.swa_head_dim or shape.head_dim or 0
    seen: Length = lesser(length, shape.swa_window)
    return seen * shape.swa_layers * 2 * heads * size * token / shape.kv_elems_per_token


def is_latent(shape: LLM) -> bool:
    """Whether full attention is MLA, also in hybrids (GLM-5.3)."""
    per_layer = (shape.kv_elems_per_token or 0) / full_layers(shape)
    return shape.arch.startswith("mla") or (shape.head_dim is None and per_layer in LATENT)


NO_TENSOR_SPLIT = sourced(
    "minimax nemotron granite kimi gigachat minicpm ling-3.0-flash glm-5.1 qwen3.8-flash-next",
    "families and models", "llama.cpp llm_arch_supports_sm_tensor at 0.5.0; and MLA", "read",
)  # fmt: skip


def splits_by_tensor(model: LLM | None, shape: LLM | None) -> bool:
    """Whether llama.cpp is known to split this model's tensors over cards."""
    if model is None or shape is None or not shape.arch or is_latent(shape):
        return False
    return not {model.family, model.id} & {*NO_TENSOR_SPLIT.split()}


def copies(shape: LLM, plan: Plan, sliding: bool = False) -> int:
    """How often the ranks of a replica hold a token's KV: all of them where it is MLA's one latent
    vector, else as many as share a KV head because there are more ranks than heads. llama-server
    splits by layers and copies nothing. Sliding layers often have more heads (Gemma 4: 16, not 4).
    """
    heads = 1 if is_latent(shape) else shape.kv_heads
    if sliding:
        heads = shape.swa_kv_heads or shape.kv_heads
    if plan.engine not in SERVERS or not heads:
        return 1
    each: int = greater(round_up(plan.tp / attention_groups(plan) / heads), 1)
    return each


def attention_groups(plan: Plan) -> int:
    """Groups of a server's ranks that each attend for requests of their own, with all weights of
    attention, where the ranks share out the experts alone (SGLang's DP attention); else 1.
    """
    unset = read_count(plan, DP_SIZE, plan.dp) if DP_ATTENTION in dict(plan.extra) else 1
    groups = read_count(plan, GROUPS, unset)
    return max(min(groups, plan.tp), 1) if groups > 1 else 1


def expert_ranks(plan: Plan) -> int:
    """Ranks of a server that hold whole experts; 1 where each holds a part of every expert."""
    told = dict(plan.extra)
    if EXPERTS in told and told[EXPERTS] != "false":
        return plan.tp
    return max(min(read_count(plan, EXPERT_RANKS, 1), plan.tp), 1)


def read_count(plan: Plan, name: str, unset: int) -> int:
    """The number of an option that a plan keeps as it was written, at most 999,999."""
    given = dict(plan.extra).get(name) or ""
    return int(given[:6]) if given.isdecimal() else unset
