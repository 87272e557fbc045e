"""Seconds that drafting takes in one cycle, by method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Mask, Requests, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.rates import (
    SERVER_PATHS,
    at,
    gemm_share,
    layer_launch,
    overlap,
    read_rate,
    small_batch_rate,
)
from advisor.perf.reads import reached_experts, serial_attention_seconds
from advisor.perf.sizes.weights import (
    BLOCK_LAYERS,
    EAGLE3_VOCABULARY,
    EAGLE_SQUARES,
    LAYER_SQUARES,
    NARROW_WIDTH,
)

DRAFT_DEPTH = sourced(
    (12, 22, 4, 36),
    "layers: least, of no parameters, more for each 1e9 parameters, most",
    "between published configs: Qwen2.5-0.5B 24, Qwen3-0.6B and 1.7B 28, Llama-3.2-1B 16, "
    "Llama-3.2-3B 28, Llama-3.1-8B 32",
    "derived",
)
NGRAM_REQUEST_S = sourced(
    10e-6, "s", "a look-up in the prompt of one request, compiled: no measurement", "assumed"
)
LOOKUPS_FOUND = sourced(
    0.2,
    "share",
    "cycles in which a lookup finds something to draft, where no acceptance is stated: of 13 "
    "published runs of llama-server on recurrent models 9 keep 0.97 to 1.03 of the plain speed, 4 "
    "lose 8 to 51 %",
    "derived",
)
DRAFT_HELD = sourced(
    0.7, "share", "accepted of a lookup's draft that is made: 0.61 to 0.74 in own runs", "derived"
)
MOST_EXPERTS = sourced(
    0.95, "share", "own choice: an MTP layer has weights beside its experts", "chosen"
)


def _rolls_back(p: P.Points) -> Mask:
    return np.asarray(p.is_path(*P.LLAMACPP) & (p.is_hybrid > 0))


def replays_states(p: P.Points) -> Mask:
    """Where llama.cpp takes recurrent states back after a rejected separate draft (N,)."""
    return np.asarray(_rolls_back(p) & p.is_method("draft_model"))


def draft_seconds(
    points: P.Points, constants: Constants, batch: Requests, context: Tokens
) -> Seconds:
    """All drafting of one cycle for `batch` requests: k passes, or one block pass; 0 for none."""
    p = points
    one, chosen = _Cycle.of(points, constants, batch, context), np.zeros(len(p))
    for methods, price in _PRICES:
        here = p.is_method(*methods)
        if here.any():
            chosen = np.where(here, price(one), chosen)
    return np.where(p.k > 0, chosen * at(constants.draft_scale, p), 0.0)


class _DraftOps(NamedTuple):
    """A drafter's operations beside its bytes: tensor cores overlap, vector kernels do not."""

    p: P.Points
    small: Mask
    rate: Floats  # operations per second

    @classmethod
    def of(cls, p: P.Points, c: Constants) -> _DraftOps:
        small, matrix = p.is_path(*SMALL_BATCH_PATHS), p.bf16 * gemm_share(p, c) * p.tp
        return cls(p, small, np.where(small, small_batch_rate(p, c), matrix))

    def beside(self, read: Floats, tokens: Floats, params: Floats) -> Floats:
        """Seconds of weights that take `read` seconds to read and meet `tokens` tokens (N,)."""
        ops = 2 * params / self.rate
        vector = read + np.fmax(tokens - 1, 0) * ops
        return np.where(self.small, vector, overlap(self.p, read, tokens * ops))


class _Cycle(NamedTuple):
    """What the methods' prices have in common, (N,) each."""

    p: P.Points
    c: Constants
    batch: Floats
    context: Floats
    bandwidth: Floats
    launch: Floats  # of one pass
    layer: Floats  # launches of one layer
    kv_layer: Floats  # reading the keys and values of one layer
    ops: _DraftOps

    @classmethod
    def of(cls, p: P.Points, c: Constants, batch: Floats, context: Floats) -> _Cycle:
        bandwidth = read_rate(p, c)
        layer = layer_launch(p, c) + np.where(p.moe_layers > 0, at(c.moe_layer_launch_s, p), 0.0)
        layer = np.where(p.eager > 0, np.fmax(layer, c.eager_layer_s), layer)
        read = batch * context * p.kv_elems / np.fmax(p.global_layers, 1) * p.kv_bytes / bandwidth
        launch = at(c.draft_pass_s, p)
        return cls(p, c, batch, context, bandwidth, launch, layer, read, _DraftOps.of(p, c))


def _mtp(one: _Cycle) -> Floats:
    p, c, batch, k = one.p, one.c, one.batch, one.p.k
    head = p.draft_head_params * p.bytes_mtp_lm_head / one.bandwidth
    experts = (reached_experts(p, c, batch, k + 1), reached_experts(p, c, batch, np.ones_like(k)))
    first = _mtp_block(p, one.ops, experts[0], batch * (k + 1), one.bandwidth)
    later = _mtp_block(p, one.ops, experts[1], batch, one.bandwidth)
    per_pass = one.ops.beside(head, batch, p.draft_head_params)
    per_pass = per_pass + one.launch + one.layer + one.kv_layer
    return np.asarray(first + np.fmax(k - 1, 0) * later + k * per_pass)


def _eagle(one: _Cycle) -> Floats:
    p = one.p
    params = EAGLE_SQUARES * p.hidden**2
    head = np.where(
        p.is_method("eagle3"),
        np.fmin(EAGLE3_VOCABULARY * p.hidden, p.lm_head_params),
        p.lm_head_params,
    )
    each = one.ops.beside((params + head) * 2 / one.bandwidth, one.batch, params + head)
    return np.asarray(p.k * (each + one.launch + one.layer + one.kv_layer))


def _draft_model(one: _Cycle) -> Floats:
    p, c = one.p, one.c
    small_bytes = np.where(p.is_path(*SMALL_BATCH_PATHS), p.quant_bits / 8, 2.0)
    least, at_none, each, most = DRAFT_DEPTH
    depth = np.clip(at_none + each * p.draft_params / 1e9, least, most)
    layer = at(c.draft_layer_s, p)
    layer = np.where(p.eager > 0, np.fmax(layer, c.eager_layer_s), layer)
    read = p.draft_params * small_bytes / one.bandwidth
    model_pass = one.ops.beside(read, one.batch, p.draft_params) + depth * layer
    model = p.k * (model_pass + at(c.host_s, p))
    return np.asarray(model + np.where(_rolls_back(p), c.state_checkpoint_s, 0.0))


def _block(one: _Cycle) -> Floats:
    p, c = one.p, one.c
    # as published where servers run the drafter as it is; fitted elsewhere
    narrow = p.is_method("dflash") & (p.moe_layers > 0) & (p.hidden < NARROW_WIDTH)
    published = np.where(narrow, float(BLOCK_LAYERS[1]), float(BLOCK_LAYERS[0]))
    layers = np.where(p.is_path(*SERVER_PATHS), published, c.dflash_layers)
    params = layers * LAYER_SQUARES * p.hidden**2
    read = (params * 2 + p.lm_head_params * p.bytes_mtp_lm_head) / one.bandwidth
    block = one.ops.beside(read, one.batch * (p.k + 1), params + p.lm_head_params)
    walk = serial_attention_seconds(p, c, one.context) / np.fmax(p.global_layers, 1)
    return np.asarray(block + one.launch + layers * (one.layer + np.fmax(one.kv_layer, walk)))


def _ngram(one: _Cycle) -> Floats:
    """The search, and in llama.cpp a copy of each slot's recurrent state before every draft, with
    what a refused one costs: back from the copy, and the accepted tokens computed again.
    """
    p = one.p
    search = at(one.c.ngram_host_s, p) + one.batch * NGRAM_REQUEST_S
    recurrent = np.fmax(p.layers - p.global_layers, 0)
    # share of cycles that draft, from the stated acceptance where there is one
    by_length = (p.given_length - 1) / np.fmax(p.k, 1)
    stated = np.where(np.isnan(by_length), p.given_rate, by_length) / DRAFT_HELD
    drafting = np.where(np.isnan(stated), LOOKUPS_FOUND, np.clip(stated, 0.0, 1.0))
    copied = one.batch * drafting * recurrent * one.c.lookup_copy_layer_s
    return np.asarray(search + np.where(_rolls_back(p), copied, 0.0))


_PRICES: tuple[tuple[tuple[str, ...], Callable[[_Cycle], Floats]], ...] = (
    (("mtp",), _mtp),
    (("eagle", "eagle3"), _eagle),
    (("draft_model",), _draft_model),
    (("dflash",), _block),
    (
        ("dspark",),
        lambda one: (
            _block(one) + one.p.k * (one.c.dspark_token_s + one.batch * one.c.dspark_request_s)
        ),
    ),
    (("ngram",), _ngram),
)


def _mtp_block(
    p: P.Points, ops: _DraftOps, reached: Floats, tokens: Floats, bandwidth: Floats
) -> Floats:
    """Weights of one MTP layer, with the experts that its tokens reach, and its operations."""
    all_experts = np.fmin(p.experts * p.expert_params, MOST_EXPERTS * p.mtp_params)
    core = p.mtp_params - all_experts
    share = np.divide(reached, p.experts, out=np.zeros_like(core), where=p.experts > 0)
    return ops.beside((core + all_experts * share) * p.bytes_mtp / bandwidth, tokens, core)
