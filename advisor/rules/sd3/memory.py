"""Weights and buffers against memory."""

from advisor.domain.nouns import Case, MemoryBill
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import fp8_kv, is_gguf
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.policy import (
    bill,
    demand_tokens,
    each_replica,
    leaves_no_pool,
    streams,
    unknown_sizes,
)

_LOWER_FIRST = {
    "vllm": "Lower --max-num-seqs or the draft tokens first (each running request holds one "
    "state slot per draft token), then "
    "raise --gpu-memory-utilization; shorten the context last.",
    "sglang": "Lower the draft tokens or --max-running-requests first, or take FP8 weights; "
    "shorten the context last.",
    "llama-server": "Lower --parallel or --spec-draft-n-max first, then quantise the KV cache "
    "(-ctk q8_0 -ctv q8_0); shorten "
    "the context last.",
}


@rule("SD301", "error", data="memory.least_buffer_share")
@when(needs="hardware shape quant")
def weights_do_not_fit(case: Case) -> Hits:
    """Weights, draft head and fixed buffers are larger than the memory that the engine may take.

    Why: memory runs out while it loads; llama-server moves layers to the CPU, several times slower.
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    Good (hw=h200): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    Sources: advisor memory bill
    """
    yield from unknown_sizes(case)
    found = bill(case)
    if found is None or found.available_gib is None or not leaves_no_pool(found):
        return
    fixed = found.weights_gib + found.spec_gib + found.overhead_gib
    short = fixed - found.available_gib
    # the buffers are an estimate; that the weights alone are too large is not
    least = found.available_gib * (1 - number("memory", "least_buffer_share"))
    unsure = found.weights_gib + found.spec_gib <= least
    yield Hit(
        f"{case.model_name} needs {fixed:.1f} GiB per GPU (weights {found.weights_gib:.1f}, "
        f"draft {found.spec_gib:.1f}, buffers {found.overhead_gib:.1f}) but {case.hardware_name} "
        f"offers {found.available_gib:.1f} GiB: short by {short:.1f} GiB before any KV "
        f"cache{'; layers would spill to the CPU' if is_gguf(case) else ''}",
        flag=case.flag("--gpu-memory-utilization", "--mem-fraction-static", "--gpu-layers"),
        severity="warning" if unsure or is_gguf(case) or case.unread() else None,
        fix=_what_would_fit(case, found),
    )


def _what_would_fit(case: Case, found: MemoryBill) -> str:
    """The smallest change of each kind that makes the weights fit; sharding is taken as even."""
    room = (found.available_gib or 0.0) - found.overhead_gib
    weights = found.weights_gib + found.spec_gib
    if room <= 0:
        return "Take a device with more memory: the buffers alone exceed what is offered."
    bits, options = (case.facts.quant.bits if case.facts.quant else None) or 0.0, []
    if bits:
        most = 0.95 * bits * room / weights
        options += [f"a quantisation of at most {most:.1f} bits per weight (now {bits:g})"]
    tp = case.plan.tp
    if cards := [n for n in (1, 2, 4, 8, 16) if n > tp and weights * tp / n <= 0.95 * room]:
        options += [f"tensor parallel over {cards[0]} such devices"]
    return f"Use {' or '.join(options)}." if options else "Take a smaller model."


@rule("SD302", "warning", data="memory.mtp_kv_loss_gb10 memory.mtp_kv_loss_h200")
@when(needs="hardware shape quant concurrency ctx_tokens")
def kv_pool_too_small(case: Case) -> Hits:
    """The KV pool holds fewer tokens than the load has in flight.

    Why: requests are queued or prefilled again: TTFT and the tail of the latency grow.
    Bad (hw=rtx3090, concurrency=32, ctx=32768, quant=awq-int4): vllm serve
        cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit --max-num-seqs 32
    Good (hw=h200, concurrency=4, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
    Sources: advisor memory bill
    """
    yield from unknown_sizes(case)
    found, demand, running = bill(case), demand_tokens(case), streams(case)
    if found is None or found.kv_tokens is None or demand is None or not running:
        return
    if demand <= found.kv_tokens or leaves_no_pool(found):
        return  # of the latter SD301 speaks
    if case.plan.method != "none" and demand <= found.kv_tokens + (found.kv_tokens_lost or 0):
        return  # SD304 says that speculation decides it
    each = demand // running
    counted = found.kv_tokens // each if each else 0
    fit = counted if found.requests is None else found.requests  # the bill's and the estimate's
    fit = min(max(0, fit), running) if counted > 0 else 0
    run = f"about {fit} of them run at once, the rest are queued" if fit else "not one of them fits"
    lost = f" (MTP took {found.kv_tokens_lost:,} of it)" if found.kv_tokens_lost else ""
    yield Hit(
        f"the KV pool holds about {max(0, found.kv_tokens):,} tokens{lost}, but {running} "
        f"requests of {each:,} tokens{each_replica(case)} need {demand:,}: {run}",
        flag=case.flag(
            "--gpu-memory-utilization", "--mem-fraction-static", "--ctx-size", "--kv-cache-dtype"
        ),
        fix=(
            "Take fewer concurrent requests, a larger memory share"
            + ("" if fp8_kv(case) else ", an 8-bit KV cache")
            + (", or no speculation." if case.plan.method != "none" else ", or more GPUs.")
        ),
    )


@rule("SD304", "info", data="memory.mtp_weights_gib_35b_a3b_fp8", at="spec")
@when(speculative=True, needs="hardware shape quant concurrency ctx_tokens")
def mtp_memory_tight(case: Case) -> Hits:
    """Speculation takes its share of a KV pool that the load nearly fills.

    Why: the head, a state slot per draft token and padding come out of it: 10 to 22.8 %.
    Bad (hw=gb10, concurrency=64, ctx=8192): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --gpu-memory-utilization 0.45 --max-num-seqs 64 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=h200, concurrency=4, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Sources: seed003; vllm 0.33 layers/mamba/abstract.py
    """
    yield from unknown_sizes(case)
    found, demand = bill(case), demand_tokens(case)
    if found is None or found.kv_tokens is None or not found.kv_tokens_lost or demand is None:
        return
    before = found.kv_tokens + found.kv_tokens_lost
    if demand <= number("memory", "kv_tight_share") * found.kv_tokens:
        return
    decides = found.kv_tokens < demand <= before
    yield Hit(
        f"speculation costs {found.spec_gib:.2f} GiB of weights and {found.kv_tokens_lost:,} of "
        f"{before:,} KV tokens "
        f"({100 * found.kv_tokens_lost / before:.0f} %), and the load needs {demand:,}"
        + (": without it everything fits, with it some requests are queued" if decides else ""),
        severity="warning" if decides else None,
        fix=_LOWER_FIRST.get(case.plan.engine, _LOWER_FIRST["llama-server"]),
    )


@rule(
    "SD305",
    "warning",
    "vllm sglang",
    data="memory.unified_memory_fraction_max memory.vllm_default_memory_fraction",
)
@when(needs="hardware")
def unified_memory_overcommit(case: Case) -> Hits:
    """A memory share above 0.80 on a machine whose CPU and GPU share one memory.

    Why: what the GPU allocates there cannot be swapped; the system runs dry and freezes hard.
    Bad (hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.92
    Good (hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.75
    """
    hw, limit = case.facts.hardware, number("memory", "unified_memory_fraction_max")
    if hw is None or not hw.unified_memory:
        return
    share = case.plan.memory_fraction
    place = case.flag("--gpu-memory-utilization", "--mem-fraction-static")
    unset = share is None and place is None and not case.launch.cut_off  # where nothing reads it
    if unset and case.plan.engine == "vllm" and not case.flag("--kv-cache-memory-bytes"):
        yield Hit(
            f"no memory share is set, and vLLM's default of "
            f"{number('memory', 'vllm_default_memory_fraction'):g} or more is "
            f"too much for the unified memory of {case.hardware_name}",
            fix=add_fix(
                case,
                case.flag("--max-model-len") or case.spec_flag(),
                "--gpu-memory-utilization",
                f"{limit:g}",
                f"Set --gpu-memory-utilization to {limit:g} or less.",
            ),
        )
    elif share is not None and share > limit:
        yield Hit(
            f"a memory share of {share:g} leaves too little for the system on the unified memory "
            f"of {case.hardware_name}: above {limit:g} such machines froze",
            flag=place,
            fix=set_fix(case, place, f"{limit:g}", f"Set it to {limit:g} or less."),
        )


@rule("SD309", "warning", "vllm", data="memory.gdn_prefill_gpu_memory_gb", at="--max-model-len")
@when(needs="hardware model", parts="hybrid")
def gdn_prefill_oom(case: Case) -> Hits:
    """Long prompts of a hybrid (GDN) model on one small card under vLLM.

    Why: the GDN prefill keeps 500 MiB of live tensors: a request of 50,000 tokens fails.
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 131072 --max-num-seqs 2
    Good (hw=rtx3090): with --max-model-len 32768 for --max-model-len 131072
    """
    small, least = (number("memory", f"gdn_prefill_{x}") for x in ("gpu_memory_gb", "ctx_tokens"))
    longest = max(case.facts.ctx_tokens or 0, case.plan.max_model_len or 0)
    memory = case.facts.hardware.memory_gb if case.facts.hardware else None
    one = case.plan.tp * case.plan.pp == 1 and not unknown_sizes(case)
    if memory is not None and memory.value <= small and longest >= least and one:
        yield Hit(
            f"prompts of up to {longest:,} tokens on one {case.hardware_name} "
            f"({memory.value:g} GB): the GDN prefill of vLLM ran out of memory there beyond about "
            f"{least:,.0f} tokens",
            fix="Use --max-num-batched-tokens 2048, TP 2, a shorter context, or llama-server.",
        )
