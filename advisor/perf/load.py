"""What the closed loop of clients asks of one engine: slots, prompt tokens to compute, decode
steps, their spread. `concurrency` clients start together, each sends its next request when the last
one ends.
"""

import numpy as np

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.engines.traits import engines_with, traits
from advisor.perf import arrays as P
from advisor.perf import imputation
from advisor.perf.arrays import Floats, Mask, Requests, Tokens
from advisor.perf.constants import Constants
from advisor.perf.memory import SGLANG_FEW, SGLANG_STATE_SHARE, SGLANG_STATES
from advisor.perf.sizes.pools import CONV_STATE_BYTES, CONV_TOKENS, PAGE_ALIGN

MEMORY_SHARE = sourced(
    0.9, "share", "vLLM: default of --gpu-memory-utilization; other engines are near it", "read"
)
OVERHEAD_BYTES = sourced(3e9, "bytes", "Activations, graphs and context of one engine", "assumed")
# SGLang's own cap with speculation and no explicit --max-running-requests
SPECULATING_SEQS = min(
    float(held[1]) for name in engines_with("running") if (held := traits(name).running)
)
# a limit that the memory sets and not an option: no request waits for a slot beside it
SLOTS_HOLD = sourced(1e9, "requests", "Larger than any option: stands for no limit", "chosen")
PREFIX_DROP_FIXED = sourced(
    3300.0, "release as 100 x major and minor", "vllm #38182: 0.33 keeps the last under MTP", "read"
)
ACCEPT_SPREAD = sourced(
    0.05, "share", "Spread of tokens per step between requests, beyond chance", "assumed"
)
LEAST_FREE = sourced(
    0.05,
    "share of the weights",
    "own choice: with less a row's memory is not what is stated",
    "chosen",
)
LEAST_LEFT = sourced(
    0.02, "share of the weights", "own choice: a pool stays above nothing", "chosen"
)
LEAST_BESIDE = sourced(
    0.1, "share of the budget", "own choice: prompts go on beside decoding requests", "chosen"
)


class Load(NamedTuple):
    """Arrays (N,); tokens and steps, no times."""

    clients: Floats  # requests in the engine at once
    prompt: Floats  # prompt tokens computed per request (prefix hits left out)
    # those of them after the last page that is cached, which vLLM computes in a call of their
    # own; 0 for none
    tail: Floats
    context: Floats  # mean tokens behind a decode step
    output: Floats
    tau: Floats  # tokens per decode step
    steps: Floats  # mean decode steps per request
    steps_sd: Floats  # their spread between requests
    budget: Floats  # prompt tokens that fit into one step beside the decode tokens
    # prompts and decodes share a step (vLLM, llama.cpp); else prompts run alone and decodes
    # wait
    mixed: Mask
    # steps made before a request arrives that it has to wait for (vLLM)
    ahead: Floats
    requests: Floats
    queued: Floats  # clients that wait for a slot


def graphs_by_slots(engine: str | None) -> bool:
    """Whether the engine captures CUDA graphs for as many requests as it has slots (vLLM)."""
    return engine in engines_with("states_in_pool")


@P.memoize
def kv_slots(p: P.Points, spec: bool) -> Requests:
    """Requests whose KV cache and recurrent state fit; infinite where the memory is not known.

    A question brings the count of `memory.max_requests`; rows of measurements, of which less is
    known, get this estimate of it. A known pool is the base arm's; with an MTP head and a state
    slot per drafted token it shrinks. Where the weights seem not to fit, the estimate of one of
    both is wrong (the row was run): no limit then. `memory.bill` judges fit.
    """
    told = p.held_spec if spec else p.held_base
    if not np.isnan(told).any():
        return np.asarray(np.fmax(told, 1.0))
    per_token = p.kv_elems * p.kv_bytes + p.index_bytes
    heads = p.is_method("mtp", "eagle", "eagle3") & spec
    draft = np.where(heads, 1 + 1 / np.fmax(p.global_layers, 1), 1.0)
    slots = 1 + np.where(p.method > 0, p.k, 0.0) if spec else np.ones(len(p))
    whole = p.input_tokens + p.output_tokens
    window = np.fmin(whole, p.window) * p.swa_kv_elems * p.kv_bytes
    per_request = whole * per_token * draft + window + p.state_bytes * slots
    # vLLM with recurrent layers: states and KV share pages of one size (pools.hybrid_requests)
    paged = p.is_engine(*engines_with("states_in_pool")) & (p.state_bytes > 0) & (p.attn_layers > 0)
    per_request = np.where(paged, _paged_request(p, slots, spec), per_request)
    weights = weight_bytes(p)
    free = MEMORY_SHARE * p.memory_bytes * np.fmax(p.gpus, p.tp) - weights - OVERHEAD_BYTES
    free = np.where(free > LEAST_FREE * weights, free, np.nan)
    # unknown stays unknown
    left = np.maximum(free - p.mtp_params * p.bytes_mtp, LEAST_LEFT * weights) if spec else free
    pool = np.where(np.isnan(p.kv_pool_tokens), left, p.kv_pool_tokens * per_token)
    slots_that_fit = np.where(np.isnan(pool), np.inf, pool / np.fmax(per_request, 1.0))
    sglang = p.is_engine(*engines_with("running")) & (p.state_bytes > 0)
    each = np.fmax(np.where(_caching(p, spec), SGLANG_STATES, 1.0) * p.state_bytes, 1.0)
    states = np.maximum(SGLANG_STATE_SHARE * pool / each, SGLANG_FEW)
    slots_that_fit = np.where(sglang, np.fmin(slots_that_fit, states), slots_that_fit)
    return np.asarray(np.fmax(np.where(np.isnan(told), np.floor(slots_that_fit), told), 1.0))


def weight_bytes(p: P.Points) -> Floats:
    """Bytes of the resident weights on all devices of a replica (N,), by tensor class: mixers and
    embeddings of a 4-bit checkpoint often stay wider than its name says.
    """
    ffn = p.dense_ffn_params + p.shared_params + p.experts * p.expert_params * p.moe_layers
    rest = np.fmax(p.total_params - p.mixer_params - ffn - p.lm_head_params, 0.0)
    classes = p.mixer_params * p.bytes_mixer + ffn * p.bytes_ffn
    classes = classes + (p.lm_head_params + rest) * p.bytes_lm_head
    return np.asarray(np.where(np.isnan(classes), p.total_params * p.quant_bits / 8, classes))


def _caching(p: P.Points, spec: bool) -> Mask:
    """Whether an arm keeps a prefix cache (N,)."""
    told = np.isnan(p.plain_caching) | spec
    return np.asarray(np.where(told, p.prefix_caching, p.plain_caching) > 0)


def _paged_request(p: P.Points, slots: Floats, spec: bool) -> Floats:
    """Bytes of a running request in such a pool: whole pages, a page per group and state."""
    attention, page = np.fmax(p.global_layers, 1), page_tokens(p, spec)
    group = attention + (p.is_method("mtp", "eagle", "eagle3") if spec else 0)
    states = np.ceil(p.linear_layers / group) * (slots + _caching(p, spec))
    pages = np.ceil((p.input_tokens + p.output_tokens) / page) + states
    return np.asarray(pages * group * page * p.kv_elems * p.kv_bytes / attention)


@P.memoize
def clients(p: P.Points, spec: bool) -> Floats:
    """Requests in the engine at once: those asked for that have a slot and room in memory (N,)."""
    # its own cap with speculation; where the memory is not known nothing would bound the plain arm,
    # so both go without
    capped = (
        p.is_engine(*engines_with("running"))
        & spec
        & (p.max_num_seqs >= imputation.value("unlimited_seqs"))
        & (p.max_num_seqs < SLOTS_HOLD)
        & np.isfinite(kv_slots(p, False))
    )
    cap = np.where(capped, SPECULATING_SEQS, p.max_num_seqs)
    return np.asarray(np.fmax(np.fmin(np.fmin(p.concurrency, cap), kv_slots(p, spec)), 1.0))


def load(p: P.Points, c: Constants, tau: Tokens, spec: bool) -> Load:
    """The load of one arm. `tau` counts only where `spec`; points filled, k known."""
    running = clients(p, spec)
    per_step = tau if spec else np.ones(len(p))
    steps = decode_steps(p, tau if spec else None)
    by_step = token_variance(tau, p.k) / per_step**2 if spec else np.zeros(len(p))
    spread = p.output_spread * steps / np.sqrt(3)
    mixed = ~(p.is_engine("sglang") | p.is_path("mlx"))
    # the requests that decode while one has its prompt computed
    beside = np.where(mixed, (running - 1) * (p.verify_tokens if spec else np.ones(len(p))), 0.0)
    hits = prefix_hits(p, spec)
    return Load(
        clients=running,
        prompt=np.fmax(p.input_tokens - hits, 1.0),
        tail=prefix_tail(p, spec, hits),
        context=np.fmax(p.input_tokens, p.depth_tokens) + p.output_tokens / 2,
        output=p.output_tokens,
        tau=per_step,
        steps=steps,
        steps_sd=np.sqrt(spread**2 + (by_step * steps + (ACCEPT_SPREAD * steps) ** 2 * spec)),
        budget=np.fmax(p.max_num_batched_tokens - beside, LEAST_BESIDE * p.max_num_batched_tokens),
        mixed=mixed,
        ahead=np.where(p.is_engine("vllm"), 1 - 1 / running, 0.0),
        requests=np.fmax(p.n_requests, 1.0),
        queued=np.fmax(p.concurrency - running, 0.0),
    )


def prefix_hits(p: P.Points, spec: bool) -> Tokens:
    """Prompt tokens in the prefix cache: whole pages, under MTP in vLLM before 0.33 one fewer."""
    shared = _cached_pages(p, spec, p.prefix_share * p.input_tokens)
    return np.asarray(np.where(_caching(p, spec), shared, 0.0))


def prefix_tail(p: P.Points, spec: bool, hits: Tokens) -> Tokens:
    """Prompt tokens behind the last page boundary whose recurrent state vLLM keeps: a call ends
    there. 0: one call does all.

    Under MTP the boundary is a page earlier (before 0.33), so that a prompt of up to two pages is
    not cut. Seen on one H200: 2048 tokens alone take 178 ms in the plain arm with prefix caching
    and 113 ms in the MTP arm; without it both take about 120.
    """
    last = _cached_pages(p, spec, p.input_tokens)
    cut = (
        p.is_engine(*engines_with("states_in_pool"))
        & (p.is_hybrid > 0)
        & _caching(p, spec)
        & (last > hits)
    )
    return np.asarray(np.where(cut, p.input_tokens - last, 0.0))


def page_tokens(p: P.Points, spec: bool = False) -> Tokens:
    """Prompt tokens of a page of the prefix cache (N,): in vLLM as many of a hybrid as are as large
    as the state of a layer (27B 784, 35B-A3B 1,056: its log on an H200).
    """
    paged = p.is_engine(*engines_with("states_in_pool")) & (p.is_hybrid > 0)
    convolution = CONV_STATE_BYTES * (CONV_TOKENS + (p.k if spec else 0))
    state = p.state_bytes / np.fmax(p.linear_layers, 1) + convolution
    pages = state / (p.kv_elems * p.kv_bytes / np.fmax(p.global_layers, 1)) / PAGE_ALIGN
    return np.asarray(PAGE_ALIGN * np.where(paged, np.fmax(np.ceil(pages), 1.0), 1.0))


def _cached_pages(p: P.Points, spec: bool, tokens: Floats) -> Floats:
    """The first `tokens` prompt tokens that whole pages hold for a later request to use."""
    vllm, page = p.is_engine(*engines_with("states_in_pool")), page_tokens(p, spec)
    whole = np.floor(tokens / page) * page
    if spec:
        old = vllm & p.is_method("mtp", "eagle", "eagle3") & ~(p.version >= PREFIX_DROP_FIXED)
        whole = np.where(old, np.fmax(whole - page, 0.0), whole)
    return np.asarray(whole)


# ---------------------------------------------------------------- steps of an answer
# Whole ones, one at least, the last cut off where it ends. What they do not know: which drafts are
# accepted together; the spread of a step's tokens is that of independent acceptance.


def token_variance(tau: Tokens, k: Tokens) -> Floats:
    """Variance of a step's tokens: exact for k = 1, within a tenth of independence above."""
    shape = np.where(k > 0, 0.5 + 0.5 / np.fmax(k, 1), 0.0)
    return np.asarray(np.fmax((tau - 1) * (k + 1 - tau), 0.0) * shape)


def decode_steps(p: P.Points, tau: Tokens | None) -> Floats:
    """Mean decode steps of a request. With speculation the last step is cut off where the answer
    ends: on average the renewal process gives E[A (A - 1)] / 2 E[A] tokens too many, A those of a
    step, and never are there fewer steps than `fewest_steps`.
    """
    plain = np.fmax(p.output_tokens - 1, 0.5)
    if tau is None:
        return np.asarray(plain)
    cut = (token_variance(tau, p.k) / tau + tau - 1) / 2
    return np.asarray(np.fmin(np.fmax((plain + cut) / tau, fewest_steps(p)), plain))


def fewest_steps(p: P.Points) -> Floats:
    """Decode steps of a request if every draft is accepted: the ceiling of its tokens over k + 1,
    in the mean over the lengths of answers (whole numbers, alike likely), and one at least (N,).
    """
    whole = np.fmax(p.k, 0.0) + 1
    after_first, half = p.output_tokens - 1, p.output_spread * p.output_tokens + 0.5

    def below(tokens: Floats) -> Floats:
        """The sum of the ceilings up to a length; an answer of fewer tokens takes a step too."""
        full = np.floor(tokens / whole)
        steps = whole * full * (full + 1) / 2 + (tokens - full * whole) * (full + 1)
        return np.asarray(np.where(tokens < 0, tokens, steps))

    most, least = after_first - 0.5 + half, after_first - 0.5 - half
    return np.asarray(np.fmin((below(most) - below(least)) / (2 * half), np.fmax(after_first, 0.5)))


def most_gain(p: P.Points) -> Floats:
    """The largest speed-up of decoding that a request's own steps leave room for (N,)."""
    return np.asarray(decode_steps(p, None) / fewest_steps(p))
