"""Weights of a model and of its drafter, in GiB over all GPUs of a replica, and what of them
llama-server's options for the experts of a mixture keep in the machine's own memory instead
(llama.cpp common/arg.cpp, b10605, 0.5.0). What it does not know: other tensors that
`--override-tensor` moves, layers that `--gpu-layers` leaves out.
"""

from __future__ import annotations

import math

from advisor.domain.nouns import LLM, Facts, Plan, Quant
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.perf.sizes import overrides, pools

GIB = 2.0**30

USUAL_WIDTH = sourced(4096, "elements", "width of most models of 8B in knowledge/llms", "assumed")
LAYER_SQUARES = sourced(
    12, "squared widths", "a layer: 4 of attention and 8 of feed-forward weights", "derived"
)
EAGLE_SQUARES = sourced(
    17,
    "squared widths",
    "one layer, its attention of twice the width (2), three hidden states fused into one (3): "
    "arXiv:2503.01840",
    "derived",
)
EAGLE3_VOCABULARY = sourced(
    32_000, "tokens", "draft_vocab_size in config.json of most published EAGLE-3 heads", "read"
)
BLOCK_LAYERS = sourced(
    (5, 8),
    "layers of a block drafter, of one for a narrow mixture",
    "config.json of z-lab's DFlash drafters: Qwen3-8B-DFlash-b16 has 5; Qwen3.6-35B-A3B-DFlash "
    "(width 2,048) and gpt-oss-120b-DFlash (2,880) have 8. Sizes of others agree: Llama 3.1 8B 2.1 "
    "GB and Kimi-K2.5 (width 7,168) 7.0 GB are 5 layers, gpt-oss-20b 1.6 GB is 8",
    "read",
)
NARROW_WIDTH = sourced(
    3072, "elements", "between gpt-oss (2,880) and the mixtures of width 4,096 and more", "derived"
)


def weights_gib(shape: LLM, quant: Quant) -> float | None:
    """GiB of the target model's weights over all GPUs, by tensor class; None if not known."""
    total = shape.total_params_b
    if total is None:
        return None
    head = shape.lm_head_params_b
    if head is None or shape.mixer_params_b is None:
        return total * 1e9 * (quant.bits or 8 * quant.bytes_ffn) / 8 / GIB
    experts = (shape.experts or 0) * (shape.expert_params_m or 0.0) * (shape.moe_layers or 0) / 1e3
    ffn = (shape.dense_ffn_params_b or 0.0) + (shape.shared_params_b or 0.0) + experts
    embedding = max(total - shape.mixer_params_b - ffn - head, 0.0)
    size = (
        shape.mixer_params_b * quant.bytes_mixer
        + ffn * quant.bytes_ffn
        + head * quant.bytes_lm_head
        + embedding * quant.bytes_embedding
    )
    return size * 1e9 / GIB


def target_gib(facts: Facts, plan: Plan, shape: LLM, quant: Quant) -> float | None:
    """GiB of the checkpoint that this engine would load: as it says, else by tensor class."""
    found = (
        knowledge.checkpoint(facts.model, quant, plan.engine, "none")
        if facts.model is not None
        else None
    )
    return (
        found.size_gb * 1e9 / GIB
        if found is not None and found.size_gb
        else weights_gib(shape, quant)
    )


def draft_gib(shape: LLM, quant: Quant, plan: Plan) -> float:
    """GiB that the plan's speculation adds over all GPUs (embedding and lm_head are shared)."""
    hidden = shape.hidden or USUAL_WIDTH
    if plan.method == "mtp":
        return (shape.assistant_params_b or shape.mtp_params_b or 0.0) * 1e9 * quant.bytes_mtp / GIB
    if plan.method in ("eagle", "eagle3"):
        own_head = EAGLE3_VOCABULARY * hidden if plan.method == "eagle3" else 0
        return (EAGLE_SQUARES * hidden**2 + own_head) * 2 / GIB
    if plan.method in ("dflash", "dspark"):
        narrow = plan.method == "dflash" and bool(shape.experts) and hidden < NARROW_WIDTH
        return BLOCK_LAYERS[narrow] * LAYER_SQUARES * hidden**2 * 2 / GIB
    if plan.method == "draft_model":
        size = _billions(plan.draft_model or "")
        return size * 1e9 * (2.0 if plan.engine in pools.SERVERS else quant.bytes_ffn) / GIB
    return 0.0


def published_gib(facts: Facts, plan: Plan) -> float | None:
    """GiB of the plan's drafter as published, over all GPUs; None if its size is not known."""
    known = drafters.of_plan(facts, plan)
    size = drafters.size_bytes(known) if known is not None else None
    return size / GIB if size is not None else None


def _billions(name: str) -> float:
    """The size in a draft model's name, 1.0 if it does not say."""
    import re

    found = re.search(r"(\d+(?:\.\d+)?)b\b", name, re.I)
    return float(found.group(1)) if found else 1.0


ALL_EXPERTS, EXPERTS_OF, OVERRIDE = "--cpu-moe", "--n-cpu-moe", "--override-tensor"


def layer_gib(shape: LLM, quant: Quant) -> float:
    """The routed experts of one layer; 0 where the model has none or their size is not known."""
    return (shape.experts or 0) * (shape.expert_params_m or 0.0) * 1e6 * quant.bytes_ffn / GIB


def dense_layers(shape: LLM) -> int:
    """Layers without experts: the first ones, which the options count too."""
    return max((shape.layers or 0) - (shape.moe_layers or 0), 0)


def experts_gib(shape: LLM, quant: Quant, plan: Plan) -> float:
    """GiB of routed experts that the plan's options keep in system memory, over all devices."""
    return told_layers(shape, plan) * layer_gib(shape, quant)


def layers_over(shape: LLM, quant: Quant, gib: float) -> int | None:
    """Layers whose experts make room for so many GiB; None where all of them do not."""
    each, most = layer_gib(shape, quant), shape.moe_layers or 0
    layers = math.ceil(max(gib, 0.0) / each) if each else 1
    return layers if layers <= most else None


def told_layers(shape: LLM, plan: Plan) -> float:
    """Layers whose experts the plan's options keep in system memory, or parts of one."""
    if not plan.extra or not gguf_engine(plan.engine):
        return 0
    told: list[overrides.Override] = []
    for name, value in plan.extra:
        if name == OVERRIDE and value is not None:
            told += overrides.read_overrides(value)
        elif name == ALL_EXPERTS:
            told.append(overrides.ALL_EXPERTS)
        elif name == EXPERTS_OF and value is not None and value.isdecimal():
            told.append(overrides.ALL_EXPERTS._replace(below=int(value[:6])))
    return overrides.host_layers(tuple(told), dense_layers(shape), shape.moe_layers or 0)
