"""Model configurations with real shapes and no weights, for step-cost sweeps with random weights.

Shapes as in the released config.json of the Qwen3.5/3.6 family (read through
ai-dynamo/aiconfigurator@095f58a model configs); another model comes with its own config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from advisor.domain.nouns import UnknownFact


class ModelShape(NamedTuple):
    """Dimensions of one model of the family; `experts` 0 means dense."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    value_heads: int  # GDN value heads
    key_heads: int  # GDN key heads
    experts: int = 0
    topk: int = 0
    moe_ffn: int = 0
    shared_ffn: int = 0
    ffn: int = 0


SHAPES = {
    "qwen3.6-35b-a3b": ModelShape(40, 2048, 16, 2, 32, 16, 256, 8, moe_ffn=512, shared_ffn=512),
    "qwen3.6-27b": ModelShape(64, 5120, 24, 4, 48, 16, ffn=17408),
    "qwen3.5-9b": ModelShape(32, 4096, 16, 4, 32, 16, ffn=12288),
}
VOCAB = 248_320


def config_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a job's model: the file that it names, else the shape known here."""
    if path := job.get("config"):
        read: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return read
    return config(job["model"], job["quant"], job.get("layers"))


def write(job: Mapping[str, Any], folder: Path) -> None:
    """The model's config.json, with that of its drafter where that is a model of its own."""
    (folder / "config.json").write_text(json.dumps(config_of(job)))
    if draft := job.get("draft_config"):
        (folder / "drafter").mkdir()
        (folder / "drafter" / "config.json").write_text(Path(draft).read_text())


def vocabulary(config: Mapping[str, Any]) -> int:
    """Entries of a model's vocabulary: token ids of prompts stay below it."""
    return int(config.get("text_config", config)["vocab_size"])


def config(model: str, quant: str, layers: int | None = None) -> dict[str, Any]:
    """A config.json for `model` at bf16 or fp8 (block 128x128). Raises UnknownFact."""
    if model not in SHAPES:
        raise UnknownFact("bench model", model, tuple(SHAPES))
    if quant not in ("bf16", "fp8"):
        raise UnknownFact("bench quantisation", quant, ("bf16", "fp8"))
    shape = SHAPES[model]
    depth = layers or shape.layers
    moe = "Moe" if shape.experts else ""
    kind = "qwen3_5_moe" if moe else "qwen3_5"
    out: dict[str, Any] = {
        "architectures": [f"Qwen3_5{moe}ForConditionalGeneration"],
        "model_type": kind,
        "image_token_id": 248056,
        "video_token_id": 248057,
        "vision_start_token_id": 248053,
        "vision_end_token_id": 248054,
        "tie_word_embeddings": False,
        "text_config": _text(shape, kind, depth),
        "vision_config": VISION | {"model_type": kind, "out_hidden_size": shape.hidden},
        "dtype": "bfloat16",
        "transformers_version": "4.57.0",
    }
    if quant == "fp8":
        out["quantization_config"] = {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": _unquantised_modules(shape, depth),
        }
    return out


VISION = {
    "depth": 27, "hidden_size": 1152, "hidden_act": "gelu_pytorch_tanh", "intermediate_size": 4304,
    "num_heads": 16, "in_channels": 3, "patch_size": 16, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "num_position_embeddings": 2304, "initializer_range": 0.02,
    "deepstack_visual_indexes": [],
}  # fmt: skip
TEXT = {
    "vocab_size": VOCAB, "head_dim": 256, "hidden_act": "silu", "max_position_embeddings": 262_144,
    "initializer_range": 0.02, "rms_norm_eps": 1e-6, "use_cache": True,
    "tie_word_embeddings": False, "attention_bias": False, "attention_dropout": 0.0,
    "attn_output_gate": True, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "dtype": "bfloat16",
    "eos_token_id": 248044, "partial_rotary_factor": 0.25,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10], "mrope_interleaved": True,
    },
}  # fmt: skip


def _layer_types(depth: int) -> list[str]:
    return ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(depth)]


def _text(shape: ModelShape, kind: str, depth: int) -> dict[str, Any]:
    text = TEXT | {
        "model_type": f"{kind}_text",
        "hidden_size": shape.hidden,
        "num_hidden_layers": depth,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "layer_types": _layer_types(depth),
        "linear_num_key_heads": shape.key_heads,
        "linear_num_value_heads": shape.value_heads,
    }
    if not shape.experts:
        return text | {"intermediate_size": shape.ffn}
    return text | {
        "moe_intermediate_size": shape.moe_ffn,
        "shared_expert_intermediate_size": shape.shared_ffn,
        "num_experts_per_tok": shape.topk,
        "num_experts": shape.experts,
        "router_aux_loss_coef": 0.001,
        "output_router_logits": False,
    }


def _unquantised_modules(shape: ModelShape, depth: int) -> list[str]:
    """Modules that the released FP8 checkpoints leave in BF16."""
    prefix = "model.language_model"
    gates = ("mlp.gate", "mlp.shared_expert_gate") if shape.experts else ()
    linear = tuple(f"linear_attn.{p}" for p in ("conv1d", "in_proj_a", "in_proj_b", "in_proj_ba"))
    names = ["lm_head", "model.visual", "mtp.fc", f"{prefix}.embed_tokens"]
    for i, kind in enumerate(_layer_types(depth)):
        parts = (*gates, *(linear if kind == "linear_attention" else ()))
        names += [f"{prefix}.layers.{i}.{part}" for part in parts]
    return names + [f"mtp.layers.0.{gate}" for gate in gates]
