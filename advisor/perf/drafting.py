"""Seconds that drafting takes in one cycle, by method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf.attention import serial_attention_seconds
from advisor.perf.constants import Constants
from advisor.perf.experts import reached_experts
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.rates import at, small_batch_rate
from advisor.perf.sizes.weights import EAGLE3_VOCABULARY, EAGLE_SQUARES, LAYER_SQUARES

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DRAFT_DEPTH = sourced(
    (12, 22, 4, 36),
    "layers: least, of no parameters, more for each 1e9 parameters, most",
    "between published configs: Qwen2.5-0.5B 24, Qwen3-0.6B and 1.7B 28, Llama-3.2-1B 16, "
    "Llama-3.2-3B 28, Llama-3.1-8B 32",
    "derived",
)
NGRAM_REQUEST_S = sourced(
    10e-6,
    "s",
    "a look-up in the prompt of one request, in compiled code: no measurement",
    "assumed",
)
MOST_EXPERTS = sourced(
    0.95, "share", "own choice: an MTP layer has weights beside its experts", "chosen"
)


def _rolls_back(p: P.Points) -> Mask:
    llamacpp = p.is_path("llamacpp-cuda", "llamacpp-metal", "llamacpp-vulkan", "llamacpp-rocm")
    return np.asarray(llamacpp & (p.is_hybrid > 0))


def replays_states(p: P.Points) -> Mask:
    """Where llama.cpp takes recurrent states back after a rejected separate draft (N,).

    Parameters
    ----------
    p : Points
        N points.

    Returns
    -------
    Mask
        (N,)
    """
    return np.asarray(_rolls_back(p) & p.is_method("draft_model"))


def draft_seconds(points: P.Points, constants: Constants, batch: Floats, context: Floats) -> Floats:
    """All drafting of one cycle for `batch` requests: k passes (or one block pass) of the point's
    method. 0 for none.

    Parameters
    ----------
    points : Points
        Filled; N points.
    constants : Constants
        Rates and overheads of the kernel paths.
    batch : Floats
        Requests in the step. (N,)
    context : Floats
        Tokens behind each request. (N,)

    Returns
    -------
    Floats
        Seconds of one cycle. (N,)
    """
    p, c = points, constants
    k = p.k
    bandwidth = p.bw * p.tp * at(c.eta_bw, p)
    head = p.draft_head_params * p.bytes_mtp_lm_head / bandwidth
    launch = at(c.draft_pass_s, p)
    one_layer = at(c.layer_launch_s, p) + np.where(
        p.moe_layers > 0, at(c.moe_layer_launch_s, p), 0.0
    )
    one_layer = np.where(p.eager > 0, np.fmax(one_layer, c.eager_layer_s), one_layer)
    kv_layer = batch * context * p.kv_elems / np.fmax(p.global_layers, 1) * p.kv_bytes / bandwidth
    ops = _DraftOps.of(p, c)
    first = _mtp_block(p, ops, reached_experts(p, c, batch, k + 1), batch * (k + 1), bandwidth)
    later = _mtp_block(p, ops, reached_experts(p, c, batch, np.ones_like(k)), batch, bandwidth)
    per_pass = head + launch + one_layer + kv_layer + ops.seconds(batch, p.draft_head_params)
    mtp = first + np.fmax(k - 1, 0) * later + k * per_pass

    eagle_params = EAGLE_SQUARES * p.hidden**2
    eagle_head = np.where(
        p.is_method("eagle3"),
        np.fmin(EAGLE3_VOCABULARY * p.hidden, p.lm_head_params),
        p.lm_head_params,
    )
    eagle_pass = (eagle_params + eagle_head) * 2 / bandwidth + launch + one_layer + kv_layer
    eagle = k * (eagle_pass + ops.seconds(batch, eagle_params + eagle_head))

    small_bytes = np.where(p.is_path(*SMALL_BATCH_PATHS), p.quant_bits / 8, 2.0)
    least, at_none, each, most = DRAFT_DEPTH
    depth = np.clip(at_none + each * p.draft_params / 1e9, least, most)
    draft_layer = np.where(
        p.eager > 0, np.fmax(at(c.draft_layer_s, p), c.eager_layer_s), at(c.draft_layer_s, p)
    )
    model_pass = p.draft_params * small_bytes / bandwidth + depth * draft_layer + at(c.host_s, p)
    model = k * (model_pass + ops.seconds(batch, p.draft_params))
    model = model + np.where(_rolls_back(p), c.state_checkpoint_s, 0.0)

    block_params = c.dflash_layers * LAYER_SQUARES * p.hidden**2
    block = (block_params * 2 + p.lm_head_params * p.bytes_mtp_lm_head) / bandwidth + launch
    walk = serial_attention_seconds(p, c, context) / np.fmax(p.global_layers, 1)
    block = block + c.dflash_layers * (one_layer + np.fmax(kv_layer, walk))
    block = block + ops.seconds(batch * (k + 1), block_params + p.lm_head_params)

    chosen = np.select(
        [
            p.is_method("mtp"),
            p.is_method("eagle", "eagle3"),
            p.is_method("draft_model"),
            p.is_method("dflash"),
            p.is_method("dspark"),
            p.is_method("ngram"),
        ],
        [
            mtp,
            eagle,
            model,
            block,
            block + k * c.dspark_token_s,
            at(c.ngram_host_s, p) + batch * NGRAM_REQUEST_S,
        ],
        default=0.0,
    )
    return np.where(k > 0, chosen * at(c.draft_scale, p), 0.0)


class _DraftOps(NamedTuple):
    """What operations of a drafter cost beyond its bytes, (N,) each: free on tensor cores for a few
    tokens, not in matrix-vector kernels.
    """

    small: Mask
    rate: Floats  # operations per second

    @classmethod
    def of(cls, p: P.Points, c: Constants) -> _DraftOps:
        small = p.is_path(*SMALL_BATCH_PATHS)
        return cls(small, np.where(small, small_batch_rate(p, c), p.bf16 * c.mfu_gemm * p.tp))

    def seconds(self, tokens: Floats, params: Floats) -> Floats:
        beyond = np.where(self.small, np.fmax(tokens - 1, 0), tokens)
        return np.asarray(beyond * 2 * params / self.rate)


def _mtp_block(
    p: P.Points, ops: _DraftOps, reached: Floats, tokens: Floats, bandwidth: Floats
) -> Floats:
    """Weights of one MTP layer, with the experts that its tokens reach, and its operations."""
    all_experts = np.fmin(p.experts * p.expert_params, MOST_EXPERTS * p.mtp_params)
    core = p.mtp_params - all_experts
    share = np.divide(reached, p.experts, out=np.zeros_like(core), where=p.experts > 0)
    read = (core + all_experts * share) * p.bytes_mtp / bandwidth
    return np.asarray(read + ops.seconds(tokens, core))
