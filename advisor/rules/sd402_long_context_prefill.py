from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import spec_flag
from advisor.rules.policy import hardware_name, number, sources, streams, veto_unless_measured
from advisor.types import Case, Fix

_MEASURED = (
    "GB10, 4 x 8192 tokens, MTP k=2: -7.2 % output tok/s, +30.7 % TPOT, 1 s P99 inter-token latency, but -39 % TTFT"
)


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm", "sglang"),
    needs=("hardware", "concurrency", "ctx_tokens"),
    sources=sources("regime", "long_prefill_ctx_tokens", "long_prefill_prompt_over_output"),
)
def long_context_prefill(case: Case) -> Iterator[Hit]:
    """Speculation while several long prompts are prefilled at once on unified memory.

    Why: prefill and verify steps share the little compute of such machines; decoding stalls while prompts come in, and a
    stalled verify step costs more than a stalled plain one. The first token comes earlier all the same, so with TTFT as the
    goal the answer is the opposite.
    Bad (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --gpu-memory-utilization 0.75 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --gpu-memory-utilization 0.75
    """
    facts, running = case.facts, streams(case)
    hw, ctx = facts.hardware, facts.ctx_tokens
    if hw is None or not hw.unified_memory or ctx is None or running is None:
        return
    if ctx < number("regime", "long_prefill_ctx_tokens") or running < number("regime", "long_prefill_concurrency"):
        return
    ratio = ctx / (facts.output_tokens or 512)
    prefill_bound = ratio >= number("regime", "long_prefill_prompt_over_output")
    if facts.goal == "ttft":
        yield Hit(
            f"the first token comes earlier with speculation here ({_MEASURED})", severity="info", effect="support"
        )
        return
    same = hw.id == "gb10" and case.plan.engine == "vllm" and prefill_bound
    yield Hit(
        f"{running} concurrent prompts of {ctx:,} tokens on {hardware_name(case)}: a documented loss for throughput and "
        f"TPOT ({_MEASURED})",
        flag=spec_flag(case),
        fix=Fix(
            text="Switch speculation off for this load, or give long prompts their own server; on only if TTFT is the goal."
        ),
        conflicts=("the measurement is of one release (vLLM 0.19.1) that lost its full graphs with FlashInfer",),
        effect=veto_unless_measured(case) if same else "caution",
    )
