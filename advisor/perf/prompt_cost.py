"""What calls with prompts cost: the longer of the host's launches and the GPU's work, vectorised
over points.

A verify step beyond the captured CUDA graphs is launched like a prompt's call and priced here too.
Seconds, (N,), points filled, as in `physics`; how prompts and decode steps meet is `schedule`'s.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf import host_memory
from advisor.perf.constants import Constants
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.physics import link_seconds
from advisor.perf.rates import (
    PROMPT_EXPERTS,
    at,
    attention_share,
    params,
    prompt_rate,
    read_rate,
    soft_max,
    tensor_rates,
)
from advisor.perf.reads import attended_keys

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

GRAPH_TOKENS = sourced(
    512,
    "tokens",
    "vLLM: default of max_cudagraph_capture_size",
    "read",
)

PREFILL_ATTENTION_MOST = sourced(
    0.7,
    "share",
    "of the matrix rate that attention over a prompt reaches: FlashAttention-3 up to 740 of 989 "
    "TFLOP/s on an H100 (arXiv:2407.08608)",
    "derived",
)


def eager_seconds(p: P.Points, c: Constants, batch: Floats, step: Floats) -> Floats:
    """What a vLLM verify step of `step` seconds without prompts costs more above the largest
    captured CUDA graph: launches one by one, as in a prompt's call, which is why a step with
    prompts does not pay it again.

    H200, k = 4: 27 ms a step at 64 requests, 96 and 102 ms at 128 (640 tokens).

    Parameters
    ----------
    p : Points
        Filled; N points.
    c : Constants
        Rates and overheads of the kernel paths.
    batch : Floats
        Requests in the step. (N,)
    step : Floats
        Seconds of the step within captured sizes. (N,)

    Returns
    -------
    Floats
        Additional seconds. (N,)
    """
    tokens = batch * p.verify_tokens
    beyond = p.is_path("vllm-cuda") & (tokens > GRAPH_TOKENS)
    return np.where(
        beyond, np.fmax(call_seconds(p, c, tokens) * at(c.prefill_scale, p) - step, 0.0), 0.0
    )


def call_seconds(p: P.Points, c: Constants, tokens: Floats) -> Floats:
    """What the host needs to launch one call of `tokens` tokens with prompts in it: the kernels of
    recurrent layers above all.

    H200, 35B-A3B, vLLM 0.25.1: 48 ms with 64 tokens, within captured sizes, and 115 to 165 ms with
    2k to 8k.

    Parameters
    ----------
    p : Points
        Filled; N points.
    c : Constants
        Rates and overheads of the kernel paths.
    tokens : Floats
        Tokens in the step. (N,)

    Returns
    -------
    Floats
        Seconds of host time. (N,)
    """
    captured = p.is_path("vllm-cuda") & (tokens <= GRAPH_TOKENS)
    launches = at(c.prefill_call_s, p) + p.linear_layers * at(c.prefill_linear_s, p)
    return launches * np.where(captured, c.prefill_captured, 1.0)


def prefill_seconds(
    points: P.Points, constants: Constants, tokens: Floats, context: Floats, spec: Mask | bool
) -> Floats:
    """What a step's prompt tokens cost beyond a plain decode step, whose weights and launches they
    share.

    `tokens` prompt tokens in the step, `context` mean tokens before them. Measured on one H200
    (35B-A3B FP8, vLLM 0.25.1):
    about 112 ms for a call of 2k to 4k tokens, three times a roofline at peak rates.

    Parameters
    ----------
    points : Points
        Filled; N points.
    constants : Constants
        Rates and overheads of the kernel paths.
    tokens : Floats
        Tokens in the step. (N,)
    context : Floats
        Mean tokens before those of the prompt. (N,)
    spec : Mask | bool
        Whether the arm speculates.

    Returns
    -------
    Floats
        Additional seconds of the step. (N,)
    """
    p, c = points, constants
    mixer, ffn, routed = params(p)
    mixer_rate, ffn_rate = tensor_rates(p)
    mfu = np.where(p.moe_layers > 0, c.mfu_prefill, c.mfu_prefill_dense) * p.tp
    per_token = 2 * (mixer / mixer_rate + (ffn + routed) / ffn_rate) / mfu
    small = p.is_path(*SMALL_BATCH_PATHS)
    tiled = prompt_rate(p, c) * np.where(p.moe_layers > 0, PROMPT_EXPERTS, 1.0)
    per_token = np.where(small, 2 * (mixer + ffn + routed) / tiled, per_token)
    attention = 4 * attended_keys(p, context + tokens / 2)
    rate = np.where(
        small, tiled, np.fmin(2 * attention_share(p, c), PREFILL_ATTENTION_MOST) * p.bf16 * p.tp
    )
    extra_layer = np.where(
        np.asarray(spec) & p.is_method("mtp", "eagle", "eagle3"), 1 + 1 / p.layers, 1.0
    )
    bandwidth = read_rate(p, c) * at(c.expert_bw, p)
    all_experts = p.experts * p.expert_params * p.moe_layers * p.bytes_ffn / bandwidth
    reached = 1 - np.exp(
        -tokens * np.divide(p.topk, p.experts, out=np.zeros_like(p.topk), where=p.experts > 0)
    )
    work = all_experts * reached + tokens * (per_token + attention / rate) * extra_layer
    # the host launches the next kernels while the GPU works: the longer of the two counts
    scale = np.where(small, 1.0, at(c.prefill_scale, p))
    total = soft_max(call_seconds(p, c, tokens), work) * scale + link_seconds(
        p, c, tokens, p.layers
    )
    total = total + host_memory.prompt_seconds(p, c, tokens, reached, spec)
    return np.where(tokens > 0, total, 0.0)
