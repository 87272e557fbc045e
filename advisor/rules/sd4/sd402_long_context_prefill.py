from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import (
    hardware_name,
    matches,
    regime,
    rows,
    setting_of,
    sources,
    streams,
)


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm", "sglang"),
    needs=("hardware", "concurrency", "ctx_tokens"),
    sources=sources(
        "regime",
        "long_prefill",
        "long_prefill_ctx_tokens",
        "long_prefill_gain_over_output",
        "long_prefill_prompt_over_output",
    ),
)
def long_context_prefill(case: Case) -> Iterator[Hit]:
    """Speculation while several long prompts are prefilled at once on unified memory.

    Why: prefill and verify steps share the little compute of such machines; decoding stalls while
    prompts come in, and a stalled verify step costs more than a stalled plain one. The first token
    comes earlier all the same, so with TTFT as the goal the answer is the opposite.
    Bad (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --max-num-seqs 8
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --max-num-seqs 8
        --gpu-memory-utilization 0.75
    """
    facts, running = case.facts, streams(case)
    ctx, near = facts.ctx_tokens, losses.long_prefill_nearness(setting_of(case))
    if ctx is None or running is None or near == 0:
        return
    effect, strength = regime(case, losses.long_prefill)
    (known,) = rows("regime", "long_prefill")
    measured = matches(
        known, case
    )  # kin, other models and unified machines, is warned but not forbidden
    whose = known["text"] if measured else f"measured elsewhere: {known['text']}"
    if facts.goal == "ttft":
        yield Hit(
            f"the first token comes earlier with speculation in such a load ({whose})",
            severity="info",
            effect="support" if measured else None,
        )
        return
    load = f"{running} concurrent prompts of {ctx:,} tokens on {hardware_name(case)}"
    like = "such a load is" if near == 1 else "such a load is close to"
    yield Hit(
        f"{load}: {like} a documented loss for throughput and TPOT ({whose})",
        flag=spec_flag(case),
        fix=Fix(
            text="Switch speculation off for this load, or give long prompts their own server; "
            "on only if TTFT is the goal."
        ),
        conflicts=tuple(known["conflicts"]),
        severity=None if near == 1 else "info",
        effect=effect,
        strength=strength,
    )
