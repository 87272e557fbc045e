"""The numbers of a config.json: shape, context, quantisation, each checked to be possible."""

import json
from collections.abc import Mapping
from math import prod
from typing import Any

from advisor.domain.files import open_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import printable

MAX_CONFIG = 1 << 20
# What a shape can have, the least and the most; far beyond every published model.
_LIMITS = {
    "layers": (1, 10_000), "hidden": (1, 1 << 20), "heads": (1, 1 << 16),
    "kv_heads": (1, 1 << 16), "head_dim": (1, 1 << 16), "vocab": (1, 1 << 24),
    "max_context_tokens": (1, 1 << 30), "mtp_layers": (0, 1_000), "experts": (0, 1 << 16),
    "experts_per_token": (0, 1 << 16),
}  # fmt: skip
_WIDTH = (0, 1 << 24)  # of a feed-forward part
# RoPE types whose factor lengthens the context (vllm config/model.py _get_and_verify_max_len)
_KEEPS_LENGTH = ("su", "longrope", "llama3", "mrope", "default")
# config.json: the names that families use for one thing
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"), "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",), "head_dim": ("head_dim",), "vocab": ("vocab_size",),
    "dense_ffn": ("intermediate_size",),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok", "num_experts_per_token"),
    "moe_ffn": ("moe_intermediate_size",), "shared_ffn": ("shared_expert_intermediate_size",),
    "mtp_layers": ("mtp_num_hidden_layers", "num_nextn_predict_layers"),
    "max_context_tokens": ("max_position_embeddings",),
    "sparse_keys": ("index_topk",), "index_dim": ("index_head_dim",),
    "state_space": ("state_size", "ssm_state_size", "mamba_d_state"),
}  # fmt: skip


def read_config(path: str) -> dict[str, Any]:
    """The fields of a config.json; those of the text model where it has several."""
    with open_safely(path, MAX_CONFIG) as stream:
        try:
            whole = json.loads(stream.read(MAX_CONFIG))
        except (ValueError, RecursionError):
            raise AdvisorError(f"{printable(path)} is no JSON") from None
    if not isinstance(whole, dict):
        raise AdvisorError(f"{printable(path)} holds no configuration of a model")
    config = whole | (inner if isinstance(inner := whole.get("text_config"), dict) else {})
    found = {
        field: _first([check_number(config.get(n), field, n, path) for n in names])
        for field, names in _NAMES.items()
    }
    found["max_context_tokens"] = _context(config, found["max_context_tokens"])
    if found["experts"]:
        found["dense_ffn"] = None if found["moe_ffn"] else found["dense_ffn"]
        found["moe_ffn"] = found["moe_ffn"] or count(config.get("intermediate_size"))
    every = count(config.get("full_attention_interval"))
    linear = (found["layers"] or 0) - (found["layers"] or 0) // every if every else 0
    if isinstance(types := config.get("layer_types"), list):
        linear = sum("linear" in str(kind) for kind in types[:1000])
    sizes = ("num_value_heads", "value_head_dim", "key_head_dim")
    told: Any = config.get("quantization_config")
    if (quant := _quantisation(told)) is None:
        how = printable(str(told.get("quant_method")), 30)
        raise AdvisorError(f"{printable(path)}: how large its {how} weights are is not known")
    return found | {
        "linear_layers": linear, "quant": quant, "family": str(config.get("model_type") or "")[:40],
        "state": prod(count(config.get(f"linear_{name}")) or 0 for name in sizes),
        "name": str(config.get("_name_or_path") or "").rsplit("/", 1)[-1],
        "multimodal": any(key in whole for key in ("vision_config", "audio_config")),
    }  # fmt: skip


def _context(config: Mapping[str, Any], length: int | None) -> int | None:
    """The context with the stretching of the positions that the configuration asks for."""
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(rope, dict) or length is None:
        return length
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    factor = rope.get("factor")
    if kind in _KEEPS_LENGTH or not isinstance(factor, int | float) or not 1 <= factor <= 1e4:
        return length
    made_for = count(rope.get("original_max_position_embeddings")) if kind == "yarn" else None
    return int((made_for or length) * factor)


def _quantisation(told: Any) -> str | None:
    """The id of a configuration's quantisation: bf16 where untold, None without a counterpart."""
    if not isinstance(told, dict):
        return "bf16"
    method = str(told.get("quant_method", "")).lower()
    words = f"{told.get('quant_algo', '')} {told.get('format', '')}".lower()
    bits = told.get("bits")
    if method == "compressed-tensors":
        groups = told.get("config_groups")
        parts = [*groups.values()] if isinstance(groups, dict) else []
        weights = [one.get("weights") if isinstance(one, dict) else None for one in parts]
        each = {count(one.get("num_bits")) if isinstance(one, dict) else None for one in weights}
        bits = each.pop() if len(each) == 1 else 0 if each else None  # 0: of several widths
    if "nvfp4" in words:
        return "nvfp4"
    if method in ("fp8", "mxfp4"):
        return method
    if (method == "modelopt" and "fp8" in words) or "float-quantized" in words:
        return "fp8" if bits in (None, 8) else None
    if "int-quantized" in words:
        return "int8-w8a8" if bits == 8 else None
    four = method in ("awq", "gptq") or "pack-quantized" in words
    if method == "auto-round":
        return {4: "int4-autoround", 8: "int8-autoround"}.get(bits) if bits else None
    return "awq-int4" if four and bits == 4 else None


def _first(values: list[int | None]) -> int | None:
    """The first that is not 0, else 0 where one is told."""
    told = [value for value in values if value is not None]
    return next((value for value in told if value), told[0] if told else None)


def check_number(value: Any, field: str, name: str, path: str) -> int | None:
    """A number of a shape, None where none is told. Raises AdvisorError for an impossible one."""
    if value is None or isinstance(value, list | tuple | dict):
        return None
    low, high = _LIMITS.get(field, _WIDTH)
    whole = not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )
    if not whole or not low <= value <= high:
        raise AdvisorError(
            f"{printable(path)}: {name} is {printable(str(value), 40)}, not a whole number from "
            f"{low} to {high:,}"
        )
    return int(value)


def count(value: Any) -> int | None:
    """A whole number that a shape can have."""
    fine = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31
    return value if fine else None
