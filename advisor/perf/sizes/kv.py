"""Bytes of keys and values that a model keeps: per token, per request in sliding windows, and how
often ranks hold the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from advisor.domain.nouns import LLM, Plan
from advisor.domain.sourced import sourced
from advisor.knowledge.imputed import table

SERVERS = ("vllm", "sglang")
# Elements that MLA caches per token and layer (physics.py names the models): one vector, which
# cannot be split over ranks.
LATENT = sourced(
    (576, 320, 512),
    "elements",
    "config.json of DeepSeek-V3, GLM-5.2 and Kimi K2; Mistral Small 4; GLM-5.3",
    "read",
)


def full_layers(shape: LLM) -> int:
    """Layers whose keys and values grow with the context; `kv_elems_per_token` is theirs."""
    return shape.full_attention_layers or shape.layers or 1


def bytes_per_token(shape: LLM, kv_dtype: str | None) -> float | None:
    """Bytes of K and V for one token over those layers; 16 bit unless the dtype says otherwise.

    Parameters
    ----------
    shape : LLM
        Of the model, or of the proxy that stands for it.
    kv_dtype : str | None
        As the engine's option names it; None: as the weights are computed.

    Returns
    -------
    float or None
        Bytes; None where the shape is not known.
    """
    if shape.kv_elems_per_token is None:
        return None
    width = table("kv_cache_types").get((kv_dtype or "").lower(), math.nan)
    return shape.kv_elems_per_token * (2.0 if math.isnan(width) else width)


def window_bytes(shape: LLM, kv_dtype: str | None, length: Any) -> Any:
    """Bytes of K and V that the sliding layers keep of one request of `length` tokens: those of
    their window.

    Parameters
    ----------
    shape : LLM
        Of the model, or of the proxy that stands for it.
    kv_dtype : str | None
        As the engine's option names it; None: as the weights are computed.
    length : int or ndarray, shape (N,)
        Tokens of one request, prompt and output.

    Returns
    -------
    float or ndarray, shape (N,)
        Bytes.
    """
    if not shape.swa_layers or not shape.swa_window or not shape.kv_elems_per_token:
        return 0.0
    width = (bytes_per_token(shape, kv_dtype) or 0.0) / shape.kv_elems_per_token
    heads, size = (
        shape.swa_kv_heads or shape.kv_heads or 0,
        shape.swa_head_dim or shape.head_dim or 0,
    )
    top = shape.swa_window
    seen = np.fmin(length, top) if isinstance(length, np.ndarray) else min(length, top)
    return seen * shape.swa_layers * 2 * heads * size * width


def is_latent(shape: LLM) -> bool:
    """Whether full attention is MLA, also in hybrids (GLM-5.3)."""
    per_layer = (shape.kv_elems_per_token or 0) / full_layers(shape)
    return shape.arch.startswith("mla") or (shape.head_dim is None and per_layer in LATENT)


def copies(shape: LLM, plan: Plan) -> int:
    """How often the ranks of a replica hold a token's KV: all of them where it is MLA's one latent
    vector, else as many as share a KV head because there are more ranks than heads. llama-server
    splits by layers and copies nothing.
    """
    return _copies(1 if is_latent(shape) else shape.kv_heads, plan)


def window_copies(shape: LLM, plan: Plan) -> int:
    """The same for the sliding layers, which often have more KV heads (Gemma 4: 16 beside 4)."""
    return _copies(shape.swa_kv_heads or shape.kv_heads, plan)


def _copies(heads: int | None, plan: Plan) -> int:
    if plan.engine not in SERVERS or plan.tp == 1 or not heads:
        return 1
    return max(math.ceil(plan.tp / heads), 1)
