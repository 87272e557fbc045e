"""Experts of a mixture that lie in the machine's own memory: what a step pays for them.

llama.cpp computes the experts of such a layer on the processor, at the rate at which it reads the
machine's memory; what neighbours in a text share saves it nothing, since each token is computed.
From 32 tokens on it copies the experts to the card instead, over PCIe, and computes there. Source:
llama.cpp ggml-cuda.cu (GGML_OP_OFFLOAD_MIN_BATCH) and ggml-backend.cpp, b11312. All other weights
stay on the card. How fast the machine's memory is, is not known (prediction/switches.py).
"""

import numpy as np

from advisor.domain.nouns import Facts, MemoryBill, Plan
from advisor.domain.sourced import sourced
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf import memory
from advisor.perf.arrays import Floats, Mask, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.reads import union
from advisor.perf.sizes import device, weights

BATCH = sourced(
    512, "tokens", "llama.cpp common.h, n_ubatch: prompt tokens computed at once (b11312)", "read"
)
COPIED_FROM = sourced(
    32, "tokens of a step", "llama.cpp ggml-cuda.cu: op_offload_min_batch_size (b11312)", "read"
)

MARGIN = "--fit-target"  # MiB by device
FIT_MARGIN_GIB = sourced(
    1.0, "GiB a device", "llama.cpp common.h: fit_params_target, what --fit leaves free", "read"
)


def host_layers(facts: Facts, plan: Plan, short: float | None = None) -> float:
    """Layers of a mixture whose experts lie in system memory: as many as the plan's options say,
    else as many as llama-server moves there by itself (`--fit`), so that its margin is left free.
    0 where nothing is moved; nor is it where only the usual margin is missing: bills are no finer.

    `short`: GiB that the slots are billed too large by, where that is at hand.
    """
    shape = facts.known_shape
    if shape is None or not shape.moe_layers or facts.device.unified_memory:
        return 0
    told = weights.told_layers(shape, plan)
    if told or facts.quant is None or not device.moves_experts(facts, plan):
        return told
    first = (dict(plan.extra).get(MARGIN) or "").partition(",")[0]  # left free by `--fit`, MiB
    margin = int(first[:9]) / 1024 if first.isdecimal() else None
    free = _free_gib(memory.bill(facts, plan)) if short is None else -short
    if free is None or free >= (0.0 if margin is None else margin):
        return 0
    gib = (FIT_MARGIN_GIB if margin is None else margin) - free
    moved = weights.layers_over(shape, facts.quant, gib * memory.replica_gpus(facts, plan))
    return shape.moe_layers if moved is None else moved


def _free_gib(made: MemoryBill) -> float | None:
    """What a bill leaves of one device, below 0 where it is too large; None where not known."""
    left = made.left_gib
    if left is None or made.fits is None:
        return None
    return -made.short_gib if made.short_gib else left - made.state_gib - (made.kv_gib or 0.0)


def moved_layers(p: P.Points, speculative: Mask | bool) -> Floats:
    """Layers whose experts lie in the machine's memory in an arm (N,)."""
    told = np.where(speculative, p.host_spec, p.host_base)
    return np.asarray(np.fmin(np.fmax(told, 0.0), p.moe_layers))


def moved_seconds(
    p: P.Points, c: Constants, tokens: Tokens, distinct: Floats, speculative: Mask | bool
) -> tuple[Floats, Floats]:
    """(share, seconds): the share of the layers with experts whose experts the card neither reads
    nor computes, and what the processor or the copies take for them.
    """
    layers = moved_layers(p, speculative)
    if not layers.any():
        return layers, layers
    share = layers / np.fmax(p.moe_layers, 1)
    own = np.array([table("host_memory")[word] for word in P.CLASSES])[p.hw_class]
    here = union(p.experts, p.topk, tokens) / (own * c.host_memory_share * c.host_memory_speed)
    experts = np.where(tokens < COPIED_FROM, here, distinct / c.host_copy_bw)
    return share, layers * (c.host_layer_s + experts * p.expert_params * p.bytes_ffn)


def prompt_seconds(
    p: P.Points, c: Constants, tokens: Tokens, reached: Floats, speculative: Mask | bool
) -> Seconds:
    """What the copies of those experts take for prompts: once for every batch of them."""
    layers = moved_layers(p, speculative)
    if not layers.any():
        return layers
    copied = p.experts * p.expert_params * p.bytes_ffn * reached / c.host_copy_bw
    return np.asarray(np.fmax(tokens / BATCH, 1.0) * layers * copied)
