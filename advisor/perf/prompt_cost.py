"""What calls with prompts cost: the longer of the host's launches and the GPU's work, vectorised
over points.

A verify step beyond the captured CUDA graphs is launched like a prompt's call and priced here too.
Seconds, (N,), points filled, as in `physics`; how prompts and decode steps meet is `schedule`'s.
"""

import numpy as np

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf import host_memory
from advisor.perf.arrays import Floats, Mask, Requests, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.links import link_seconds
from advisor.perf.rates import (
    PROMPT_EXPERTS,
    at,
    attention_share,
    params,
    pipeline_loss,
    prompt_rate,
    read_rate,
    tensor_rates,
)
from advisor.perf.reads import attended_keys, busiest_tokens

GRAPH_TOKENS = sourced(512, "tokens", "vLLM: default of max_cudagraph_capture_size", "read")
GRAPH_REQUESTS = sourced(
    2.0,
    "steps of max_num_seqs",
    "vLLM 0.25.1, config/vllm.py: no graph is captured beyond twice the tokens of a full decode "
    "step, nor at a size that the tokens of a request do not divide",
    "read",
)

PREFILL_ATTENTION_MOST = sourced(
    0.7,
    "share of the matrix rate",
    "FlashAttention-3, H100: 740 of 989 TFLOP/s (2407.08608)",
    "derived",
)


def eager_seconds(p: P.Points, c: Constants, batch: Requests, step: Seconds) -> Seconds:
    """What a vLLM verify step of `step` seconds without prompts costs more above the largest
    captured CUDA graph: launches one by one, as in a prompt's call, which is why a step with
    prompts does not pay it again.

    H200, k = 4: 27 ms a step at 64 requests, 96 and 102 ms at 128 (640 tokens).
    """
    most = np.where(np.isnan(p.graph_tokens), GRAPH_TOKENS, p.graph_tokens)
    beyond = p.is_path("vllm-cuda") & (batch * p.verify_tokens > most)
    return np.where(beyond, np.fmax(call_seconds(p, c, 0.0) - step, 0.0), 0.0)


def graph_tokens(p: P.Points, spec: Mask | bool) -> Tokens:
    """Tokens of the largest captured CUDA graph, 0 where calls with prompts find none."""
    each = np.where(spec, p.verify_tokens, 1.0)
    usual = np.fmin(GRAPH_REQUESTS * p.max_num_seqs * each, GRAPH_TOKENS)
    most = np.where(np.isnan(p.graph_tokens), usual, p.graph_tokens)
    return np.where(p.is_path("vllm-cuda"), each * np.floor(most / each), 0.0)


def call_seconds(p: P.Points, c: Constants, captured: Floats | float) -> Seconds:
    """What the host needs to launch one call with prompts in it: the kernels of recurrent layers in
    any case, and those of all other layers, experts above all, where no captured CUDA graph holds
    the call.

    35B-A3B, vLLM 0.25.1: 40 to 60 ms where prompts and decodes together fit a captured graph, and
    105 to 165 ms beyond, 515 tokens as 8,192 (H100, H200).
    """
    launches = at(c.prefill_call_s, p) + p.linear_layers * at(c.prefill_linear_s, p)
    others = p.layers * c.prefill_layer_s + p.moe_layers * c.prefill_moe_s
    return np.asarray(launches + np.where(p.is_path("vllm-cuda"), (1 - captured) * others, 0.0))


def prefill_seconds(
    points: P.Points,
    constants: Constants,
    tokens: Tokens,
    context: Tokens,
    spec: Mask | bool,
    captured: Floats | float | None = None,
) -> Seconds:
    """What a step's prompt tokens cost beyond a plain decode step, whose weights and launches they
    share.

    `tokens` prompt tokens in the step, `context` mean tokens before them. Measured on one H200
    (35B-A3B FP8, vLLM 0.25.1): about 112 ms for a call of 2k to 4k tokens, three times a roofline
    at peak rates. `captured`: share of such calls that fit a captured CUDA graph; default: whether
    the prompt does, alone.
    """
    p, c = points, constants
    if captured is None:
        captured = np.where(tokens <= graph_tokens(p, spec), 1.0, 0.0)
    mixer, ffn, routed = params(p)
    mixer_rate, ffn_rate = tensor_rates(p)
    mfu = np.where(p.moe_layers > 0, c.mfu_prefill, c.mfu_prefill_dense) * p.tp
    # a prompt is in one group, whose ranks alone compute its attention; each group takes its part
    # of the tokens of a step
    chunk = np.fmin(p.input_tokens, p.max_num_batched_tokens / p.attention_groups)
    met = np.where(tokens > p.input_tokens, tokens / np.fmax(chunk, 1.0), 1.0)
    lone = p.attention_groups / met.clip(1.0, p.attention_groups)
    routed = routed * busiest_tokens(p, c)
    per_token = 2 * (mixer / mixer_rate + (ffn + routed) / ffn_rate) / mfu
    per_token = per_token + 2 * mixer * (lone - 1) / mixer_rate / (c.mfu_prefill_dense * p.tp)
    small = p.is_path(*SMALL_BATCH_PATHS)
    tiled = prompt_rate(p) * np.where(p.moe_layers > 0, PROMPT_EXPERTS, 1.0)
    per_token = np.where(small, 2 * (mixer + ffn + routed) / tiled, per_token)
    attention = 4 * lone * attended_keys(p, context + tokens / 2)
    share = np.fmin(2 * attention_share(p, c), PREFILL_ATTENTION_MOST)
    rate = np.where(small, tiled, share * p.bf16 * p.tp)
    own_head = np.asarray(spec) & p.is_method("mtp", "eagle", "eagle3")
    extra_layer = np.where(own_head, 1 + 1 / p.layers, 1.0)
    bandwidth = read_rate(p, c) * at(c.expert_bw, p)
    all_experts = p.experts * p.expert_params * p.moe_layers * p.bytes_ffn / bandwidth
    part = np.divide(p.topk, p.experts, out=np.zeros_like(p.topk), where=p.experts > 0)
    reached = 1 - np.exp(-tokens * part)
    work = all_experts * reached + tokens * (per_token + attention / rate) * extra_layer
    # the host launches the next kernels while the GPU works: the longer of the two counts
    # vLLM's launches on CUDA are measured, and llama.cpp's rates of prompts published
    scale = np.where(small | p.is_path("vllm-cuda"), 1.0, at(c.prefill_scale, p))
    total = np.hypot(call_seconds(p, c, captured), work) * scale
    total = total + link_seconds(p, c, tokens, p.layers)
    total = total + host_memory.prompt_seconds(p, c, tokens, reached, spec)
    return np.where(tokens > 0, total * pipeline_loss(p), 0.0)
