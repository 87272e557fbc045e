"""Hardware, models and quantisations as the fields of `Points` that they give, by name.

Names are resolved through `knowledge`, once per distinct spelling. A name that is not known is no
error as long as something says how big the model is: the point then carries NaN.
"""

from __future__ import annotations

import re
from binascii import crc32
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from advisor.domain.nouns import UnknownFact
from advisor.domain.patterns import lazy_re
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import architecture
from advisor.perf import arrays as P
from advisor.perf.encoding.cells import NAN

if TYPE_CHECKING:
    from advisor.domain.nouns import LLM, Hardware, Quant, Quantity

Vector = dict[str, float]
_SIZE = lazy_re(r"(?<![\w.])(\d+(?:\.\d+)?)b(?:-a(\d+(?:\.\d+)?)b)?(?![a-z0-9])", re.I)


def scaled_value(value: Quantity | float | None, scale: float = 1.0) -> float:
    """Return the value times the scale, NaN where it is None."""
    number: Any = getattr(value, "value", value)
    return NAN if number is None else float(number) * scale


def name_number(name: str) -> float:
    """A number that stands for a name: the same for equal names, whatever is known of them."""
    return float(crc32(name.encode()))


def hardware_vector(hw: Hardware) -> Vector:
    """The fields of `Points` that one accelerator gives."""
    return {
        "hardware_name": name_number(hw.id),
        "bw": scaled_value(hw.memory_bandwidth_gb_s, 1e9),
        "bf16": scaled_value(hw.bf16_tflops, 1e12),
        "fp8": scaled_value(hw.fp8_tflops, 1e12),
        "int8": scaled_value(hw.int8_tops, 1e12),
        "fp4": scaled_value(hw.fp4_tflops, 1e12),
        "fp32": scaled_value(hw.fp32_tflops, 1e12),
        "memory_bytes": scaled_value(
            hw.memory_gb, 2.0**30
        ),  # vendors write GB where it reports GiB
        "unified": float(hw.unified_memory),
        "link_bw": scaled_value(hw.link_gb_s, 1e9),
        "arch": P.code(P.ARCHS, architecture(hw.gpu_family or hw.arch)),
        "hw_class": P.code(P.CLASSES, hw.hardware_class),
    }


def family_word(llm_id: str, family: str = "") -> str:
    """Model family as far as acceptance and kernels care: one recipe, one word."""
    text = f"{family} {llm_id}".lower()
    if re.search(r"qwen3[._]?[5-9]|qwen3-next|qwen3\.5-3\.6", text):
        return "qwen3.5"
    text = text.replace("qwen", "qwen3").replace("qwq", "qwen3")
    known = (word for word in ("qwen3", "deepseek", "glm", "gemma", "llama") if word in text)
    return next(known, "other" if llm_id else "unknown")


def model_vector(llm: LLM, shape: LLM | None) -> Vector:
    """The fields of `Points` that one model gives; `shape` is its own or its proxy's, or None."""
    own = shape or llm
    moe, known = llm.is_moe or own.is_moe, own.layers is not None
    no_states = 0.0 if known else NAN
    swa_heads = own.swa_kv_heads or own.kv_heads or 0
    swa_head_dim = own.swa_head_dim or own.head_dim or 0
    attention = (own.full_attention_layers or 0) + (own.swa_layers or 0)
    return {
        "model_name": name_number(own.id),
        "mixer_params": scaled_value(own.mixer_params_b, 1e9),
        "dense_ffn_params": scaled_value(own.dense_ffn_params_b, 1e9),
        "expert_params": scaled_value(own.expert_params_m, 1e6) if moe else 0.0,
        "experts": scaled_value(own.experts) if moe else 0.0,
        "topk": scaled_value(own.experts_per_token) if moe else 0.0,
        "moe_layers": scaled_value(own.moe_layers) if moe else 0.0,
        "shared_params": scaled_value(own.shared_params_b, 1e9),
        "lm_head_params": scaled_value(own.lm_head_params_b, 1e9),
        "mtp_params": scaled_value(own.assistant_params_b or own.mtp_params_b or None, 1e9),
        "draft_head_params": 0.0 if own.assistant_params_b else NAN,
        "bytes_mixer": scaled_value(llm.mixer_bytes),
        "layers": scaled_value(own.layers),
        "attn_layers": scaled_value(attention or None),
        "global_layers": scaled_value(own.full_attention_layers),
        "window": float(own.swa_window or 0),
        "swa_kv_elems": float(2 * (own.swa_layers or 0) * swa_heads * swa_head_dim),
        "swa_head_dim": float(swa_head_dim),
        "linear_layers": scaled_value(own.linear_layers) if own.is_hybrid else no_states,
        "hidden": scaled_value(own.hidden),
        "residual_streams": scaled_value(own.residual_streams),
        "heads": scaled_value(own.heads),
        "head_dim": scaled_value(own.head_dim),
        "state_bytes": scaled_value(own.state_mb_per_seq, 1e6) if own.is_hybrid else no_states,
        "kv_elems": scaled_value(own.kv_elems_per_token),
        "sparse_keys": scaled_value(own.sparse_keys),
        "index_bytes": own.index_bytes_per_token or 0.0,
        "total_params": scaled_value(llm.total_params_b or own.total_params_b, 1e9),
        "active_params": scaled_value(llm.active_params_b or own.active_params_b, 1e9),
        "is_moe": float(moe) if known or moe else NAN,
        "is_hybrid": float(own.is_hybrid) if known or own.is_hybrid else NAN,
        "family": P.code(P.FAMILIES, family_word(llm.id, llm.family)),
    }


def quant_vector(quant: Quant) -> Vector:
    """The fields of `Points` that one quantisation gives."""
    return {
        "bytes_mixer": quant.bytes_mixer,
        "bytes_ffn": quant.bytes_ffn,
        "bytes_lm_head": quant.bytes_lm_head,
        "bytes_mtp": quant.bytes_mtp,
        "bytes_mtp_lm_head": quant.bytes_mtp_lm_head,
        "quant_bits": scaled_value(quant.bits),
        "quant_family": P.code(P.QUANT_FAMILIES, quant.family),
    }


@lru_cache(maxsize=4096)
def find_hardware(name: str) -> Hardware | None:
    """The accelerator of a name as a row has it."""
    try:
        return knowledge.hardware(name) if name else None
    except UnknownFact:
        return None


@lru_cache(maxsize=4096)
def find_model(name: str) -> tuple[LLM, LLM | None] | None:
    """The model of a name and the shape that stands for it, None where it is not known."""
    try:
        model = knowledge.llm_by_name(name) if name else None
    except UnknownFact:
        return None
    return None if model is None else (model, knowledge.known_shape(model))


@lru_cache(maxsize=4096)
def find_quant(name: str) -> Quant | None:
    """The quantisation of a name, also of one that only speaks of it."""
    try:
        return knowledge.quant(name) if name else None
    except UnknownFact:
        return knowledge.quant_from_text(name)


@lru_cache(maxsize=4096)
def hardware_of(name: str) -> Vector:
    """The encoded facts of a hardware name; of an unknown one its architecture at most."""
    hardware = find_hardware(name)
    if hardware is not None:
        return hardware_vector(hardware)
    apple = "apple" in name.lower()
    kind = P.code(P.ARCHS, "apple" if apple else "unknown")
    return {"arch": kind, "unified": 1.0 if apple else NAN} if name else {}


@lru_cache(maxsize=4096)
def model_of(name: str) -> tuple[Vector, bool]:
    """Fields of a model name, and whether the name means anything at all."""
    if not name:
        return {}, False
    if (pair := find_model(name)) is not None:
        return model_vector(*pair), True
    family = P.code(P.FAMILIES, family_word(name))
    if size := _SIZE.search(name):
        total, active = float(size[1]), float(size[2] or size[1])
        return {"total_params": total * 1e9, "active_params": active * 1e9, "family": family}, True
    return {"family": family}, P.FAMILIES[family] != "other"


@lru_cache(maxsize=4096)
def quant_of(name: str) -> Vector:
    """The encoded facts of a quantisation, an empty mapping where it is unknown."""
    quant = find_quant(name)
    return {} if quant is None else quant_vector(quant)
