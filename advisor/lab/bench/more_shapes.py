"""Configurations of models outside the Qwen3.5 family, for step-cost sweeps with random weights.

GLM-4.7-Flash (multi-head latent attention, a mixture of experts, one MTP layer) as in
zai-org/GLM-4.7-Flash; Llama 3.1 8B as in meta-llama/Llama-3.1-8B-Instruct and its EAGLE-3 head as
in yuhuili/EAGLE3-LLaMA3.1-Instruct-8B; Qwen3 8B as in Qwen/Qwen3-8B. DFlash heads of blocks of 16
as in z-lab/Qwen3.6-35B-A3B-DFlash (8 layers) and z-lab/Qwen3-8B-DFlash-b16 (5 layers).
"""

from __future__ import annotations

from typing import Any

VOCABULARIES = {"glm-4.7-flash": 154_880, "llama-3.1-8b": 128_256, "qwen3-8b": 151_936}
LAYERS = {"glm-4.7-flash": 47, "llama-3.1-8b": 32, "qwen3-8b": 36}
FP8 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ["lm_head"],
}


def config(model: str, quant: str, layers: int | None = None) -> dict[str, Any]:
    """config.json of one of `VOCABULARIES`, whole or cut to `layers`."""
    made = {"glm-4.7-flash": _glm, "llama-3.1-8b": _llama, "qwen3-8b": _qwen}[model]()
    made["num_hidden_layers"] = layers or LAYERS[model]
    if quant == "fp8":
        made["quantization_config"] = FP8
    return made


def eagle3() -> dict[str, Any]:
    """config.json of the EAGLE-3 head of Llama 3.1 8B."""
    return _llama() | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 32_000,
        "max_position_embeddings": 131_072,
        "rope_scaling": None,
        "rope_theta": 500_000.0,
    }


def dflash(model: str) -> dict[str, Any]:
    """config.json of the DFlash head of Qwen3 8B or Qwen3.6-35B-A3B."""
    if model == "qwen3-8b":
        layers, own, reads, mask = 5, {}, [1, 9, 17, 25, 33], 151_669
    else:
        own = {"hidden_size": 2048, "intermediate_size": 6144, "num_key_value_heads": 4}
        own |= {"vocab_size": 248_320}
        layers, reads, mask = 8, [1, 10, 19, 28, 37], 248_070
    return (
        _qwen()
        | own
        | {
            "architectures": ["DFlashDraftModel"],
            "num_hidden_layers": layers,
            "block_size": 16,
            "dflash_config": {"mask_token_id": mask, "target_layer_ids": reads},
            "layer_types": ["full_attention"] * layers,
        }
    )


def _glm() -> dict[str, Any]:
    return {
        "architectures": ["Glm4MoeLiteForCausalLM"],
        "model_type": "glm4_moe_lite",
        "num_hidden_layers": 47,
        "hidden_size": 2048,
        "num_attention_heads": 20,
        "num_key_value_heads": 20,
        "intermediate_size": 10_240,
        "vocab_size": VOCABULARIES["glm-4.7-flash"],
        "max_position_embeddings": 202_752,
        "n_routed_experts": 64,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1536,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "q_lora_rank": 768,
        "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64,
        "v_head_dim": 256,
        "routed_scaling_factor": 1.8,
        "dtype": "bfloat16",
        "use_cache": True,
        "tie_word_embeddings": False,
        "num_nextn_predict_layers": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "topk_method": "noaux_tc",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 1_000_000,
        "pad_token_id": 154_820,
        "eos_token_id": [154_820],
        "rope_interleave": True,
        "partial_rotary_factor": 1.0,
        "rope_scaling": None,
    }


def _llama() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14_336,
        "vocab_size": VOCABULARIES["llama-3.1-8b"],
        "max_position_embeddings": 131_072,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "attention_bias": False,
        "mlp_bias": False,
        "initializer_range": 0.02,
        "rope_theta": 500_000.0,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "bos_token_id": 128_000,
        "eos_token_id": 128_001,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "use_cache": True,
    }


def _qwen() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": 36,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 12_288,
        "vocab_size": VOCABULARIES["qwen3-8b"],
        "max_position_embeddings": 40_960,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "rope_theta": 1_000_000,
        "rope_scaling": None,
        "bos_token_id": 151_643,
        "eos_token_id": 151_645,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "use_cache": True,
    }
