from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import bill, demand_tokens, sources, unknown_sizes

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


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "shape", "quant", "concurrency", "ctx_tokens"),
    sources=sources("memory", "mtp_weights_gib_35b_a3b_fp8", "mtp_kv_loss_gb10", "mtp_kv_loss_h200")
    + ("seed003", "vllm 0.33 layers/mamba/abstract.py"),
)
def mtp_memory_tight(case: Case) -> Iterator[Hit | Lacking]:
    """Speculation takes its share of a KV pool that the load nearly fills.

    Why: the head's weights (+0.79 GiB for the 35B-A3B), a state slot per draft token and running
    request, and padding layers come out of the pool: 10 % of the tokens on a GB10, 22.8 % on an
    H200. Where the pool is nearly full, that turns into waiting requests.
    Bad (hw=gb10, concurrency=64, ctx=8192): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --gpu-memory-utilization 0.45
        --max-num-seqs 64 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=h200, concurrency=4, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if open_sizes := unknown_sizes(case):
        yield Lacking(open_sizes)
        return
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
        flag=spec_flag(case),
        severity="warning" if decides else None,
        fix=Fix(text=_LOWER_FIRST.get(case.plan.engine, _LOWER_FIRST["llama-server"])),
    )
