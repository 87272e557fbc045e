"""Step time from bytes, operations and launches: the analytical core, vectorised over points.

One step reads the weights once for all its tokens (a mixture the union of their experts) and each
request's KV cache and state, and pays launch and host time; a verify step has k + 1 tokens per
request. Pure functions; seconds, (N,); a `batch` may be fractional. Points must be filled and have
a k. What it does not know: kernel quality beyond the constants, spill, thermal limits.
"""

import numpy as np

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf import host_memory, kernels, rates
from advisor.perf.arrays import Floats, Mask, Requests, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.drafting import draft_seconds
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.links import link_seconds
from advisor.perf.rates import at, overlap, params, pipeline_loss, tensor_rates
from advisor.perf.reads import (
    attention_seconds,
    busiest_reads,
    busiest_tokens,
    reached_experts,
    serial_attention_seconds,
)

_VERIFIES = np.array([[True], [False]])  # a step with drafts, and one without
_SERVER_CARDS = ("sm_80", "sm_90", "sm_100")  # which stand beside server processors
_LIKELY = sourced(0.7, "share", "Usual acceptance of a draft; sampling ends at a miss", "assumed")
_STATE_PASS = sourced(
    (1.28, 1.07),
    "of the time at the rate of weights",
    "Kernels of the gated delta rule with and without drafts move 3.4 and 4.0 TB/s (own traces of "
    "an H200, vLLM 0.25.1); H100 and B200 as that; a GB10 has six times the processors for it",
    "derived",
)
_DRAFT_DRAW = sourced(
    0.4,
    "of a sampled token",
    "llama-server, H200: 0.29 ms a draft, 0.72 ms a sampled token",
    "measured",
)


class StepTerms(NamedTuple):
    """Parts of one step, seconds, (N,)."""

    dense: Floats  # weights that every token uses, or their operations
    experts: Floats
    state: Floats
    attention: Floats  # KV bytes or attention operations
    launch: Floats
    host: Floats
    link: Floats
    sampler: Floats
    distinct_experts: Floats  # experts read per layer (a number, not a time)

    @property
    def total(self) -> Floats:
        """The time of the step, s: the sum of its terms."""
        return np.asarray(sum(self[:-1]), dtype=np.float64)


def weight_seconds(
    p: P.Points, c: Constants, tokens: Tokens, distinct: Floats
) -> tuple[Floats, Floats]:
    """(dense, experts): reading the weights once and computing `tokens` tokens with them."""
    mixer, ffn, routed = params(p)
    bandwidth = rates.read_rate(p, c)
    copied = mixer * p.attention_groups  # each group reads all of attention
    dense_bytes = copied * p.bytes_mixer + ffn * p.bytes_ffn + p.lm_head_params * p.bytes_lm_head
    expert_bytes = distinct * p.expert_params * p.moe_layers * p.bytes_ffn
    dense_read = dense_bytes / bandwidth
    expert_read = expert_bytes / (bandwidth * at(c.expert_bw, p)) * busiest_reads(p, distinct)
    mixer_rate, ffn_rate = tensor_rates(p)
    gemm = rates.gemm_share(p, c) * p.tp
    dense_ops = 2 * tokens * ((mixer + p.lm_head_params) / mixer_rate + ffn / ffn_rate) / gemm
    # narrow products of many experts, whose kernels are those of prompts
    narrow = np.where(p.is_path(*P.SERVED), c.mfu_prefill * p.tp, gemm)
    expert_ops = 2 * tokens * routed / (ffn_rate * narrow) * busiest_tokens(p, c)
    dense, experts = overlap(p, dense_read, dense_ops), overlap(p, expert_read, expert_ops)
    small = p.is_path(*SMALL_BATCH_PATHS)
    if small.any():
        few = kernels.small_batch_seconds(p, c, tokens, distinct, dense_read, expert_read)
        dense, experts = np.where(small, few[0], dense), np.where(small, few[1], experts)
    return dense, experts


def step_seconds(
    points: P.Points,
    constants: Constants,
    batch: Requests,
    tokens_per_request: Tokens,
    spec: Mask | bool,
    context: Tokens,
) -> StepTerms:
    """One target step over `batch` requests of `tokens_per_request` tokens, each with `context`
    tokens behind it.

    `spec`: the step verifies drafts (extra state slots, sampler work, lost graphs). `points`
    filled; arrays (N,), tokens and `spec` of several steps below each other (M, N).
    """
    p, c = points, constants
    speculative = np.asarray(spec)
    tokens = batch * tokens_per_request
    distinct = reached_experts(p, c, batch, tokens_per_request)
    moved, beside = host_memory.moved_seconds(p, c, tokens, distinct, speculative)
    small = p.is_path(*SMALL_BATCH_PATHS) & (tokens <= kernels.expert_limit(p))
    # one weight read per token there
    distinct = np.where(small, np.fmin(tokens * p.topk, p.experts), distinct)
    dense, experts = weight_seconds(p, c, tokens, distinct)
    bandwidth = rates.read_rate(p, c)
    drafts = np.where(speculative, tokens_per_request - 1, 0.0)
    passes = 2 * at(c.state_copies, p) + at(c.state_reads, p) * drafts
    passes = passes * np.where(rates.is_swift(p), np.where(speculative, *_STATE_PASS), 1.0)
    state = batch * p.state_bytes * passes / bandwidth
    layer = rates.layer_launch(p, c) + np.where(p.moe_layers > 0, at(c.moe_layer_launch_s, p), 0.0)
    layer = layer + np.where(p.residual_streams > 1, c.streams_layer_s, 0.0)
    lost = np.where(speculative, p.piecewise * c.piecewise_layer_s, 0.0)
    several = np.where(tokens > 1, at(c.verify_layer_s, p), 0.0)
    launch = p.layers * (layer + lost + several)
    extra = np.where(speculative, at(c.spec_step_s, p) + batch * at(c.spec_seq_s, p), 0.0)
    copies = speculative & (p.prefix_caching > 0) & (p.is_hybrid > 0)
    copies = copies & p.is_path("vllm-cuda", "vllm-other")
    host = (
        at(c.host_s, p)
        + batch * at(c.host_seq_s, p)
        + np.where(p.moe_layers > 0, 0.0, np.fmax(batch - 1, 0) * at(c.dense_seq_s, p))
        + extra
        + np.where(copies, c.prefix_verify_s, 0.0)
    )
    vocab = p.lm_head_params / p.hidden
    terms = StepTerms(
        dense=dense,
        experts=experts * (1 - moved) + beside,
        state=state,
        attention=attention_seconds(p, c, batch, tokens_per_request, context),
        launch=launch,
        host=host + _sampling_seconds(p, c, batch * vocab, tokens_per_request, speculative),
        link=link_seconds(p, c, tokens, p.layers),
        sampler=c.sampler_passes * 4 * vocab * tokens / bandwidth,
        distinct_experts=distinct,
    )
    launched = np.where(p.eager > 0, p.layers * c.eager_layer_s, 0.0)
    return terms._replace(launch=terms.launch + np.fmax(launched - terms.total, 0.0))


def _sampling_seconds(
    p: P.Points, c: Constants, entries: Floats, tokens_per_request: Floats, speculative: Mask
) -> Floats:
    """llama.cpp's sampling on the host: drafts are sampled as well, verified ones until the first
    miss. `entries`: vocabulary entries of all requests (N,).
    """
    drafts = np.where(speculative, tokens_per_request - 1, 0.0)
    own = drafts * p.is_method("mtp", "eagle", "eagle3", "draft_model")
    slow = np.where(p.is_arch(*_SERVER_CARDS), c.sample_server_cpu, 1.0)
    reached = (1 - _LIKELY ** (drafts + 1)) / (1 - _LIKELY)
    return np.asarray(at(c.sample_s, p) * slow * entries * (reached + _DRAFT_DRAW * own))


def decode_seconds(
    points: P.Points, constants: Constants, batch: Requests, context: Tokens, spec: bool
) -> Seconds:
    """One decode cycle of an arm: a plain step, or a verify step (`verify_scale`) and drafting."""
    if not spec:
        plain = step_seconds(points, constants, batch, np.ones_like(batch), False, context).total
        return plain * pipeline_loss(points)
    verify, _ = verify_seconds(points, constants, batch, context)
    # the last stage drafts while the others wait for their turn
    drafts = draft_seconds(points, constants, batch, context) * points.stages
    return (verify + drafts) * pipeline_loss(points)


def verify_seconds(
    points: P.Points, constants: Constants, batch: Requests, context: Tokens
) -> tuple[Seconds, Floats]:
    """A verify step with what attention that walks the context takes longer, and the experts that
    it reads per layer.
    """
    scale = at(constants.verify_scale, points)
    tokens = np.stack([points.verify_tokens, np.ones_like(batch)][: 1 + (scale != 1).any()])
    terms = step_seconds(points, constants, batch, tokens, _VERIFIES[: len(tokens)], context)
    verify, plain = terms.total[0], terms.total[-1]
    verify = plain + scale * np.fmax(verify - plain, 0)
    walk = serial_attention_seconds(points, constants, context)
    return verify + np.fmax(walk - terms.attention[0], 0), terms.distinct_experts[0]
