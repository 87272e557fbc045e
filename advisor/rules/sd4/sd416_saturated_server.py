from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.policy import hardware_name, sources, streams


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm",),
    sources=sources(
        "regime", "saturated_concurrency", "saturated_slots", "unified_caution_concurrency"
    ),
)
def saturated_server(case: Case) -> Iterator[Hit]:
    """Speculation on a server that runs many requests at once.

    Why: once the batch fills the compute, or the KV pool limits the batch, every verified token
    takes from another request; MTP also shrinks that pool. Where the break-even lies depends on
    machine and model.
    Bad (hw=gb10, concurrency=64): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 64
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    running, hw = streams(case), case.facts.hardware
    unified = hw is not None and hw.unified_memory
    limit = number("regime", "unified_caution_concurrency" if unified else "saturated_concurrency")
    against = (
        "the 397B in NVFP4 on 4x RTX PRO 6000 gained 1.3x to 1.5x from 64 to 128 streams (rtx6k)",
    )
    if running is not None and (running > limit if unified else running >= limit):
        losses = (
            "35B-A3B with 100 requests of 16k -15 %, 27B at 64 streams 0.52x (RTX 5090) and "
            "0.41x (H20, SGLang)"
        )
        yield Hit(
            f"{running} streams on {hardware_name(case)}: documented losses of saturated servers "
            f"({losses})",
            flag=flag(case, "--max-num-seqs"),
            severity="info" if hw is None else None,
            fix=Fix(
                text="Measure this load on and off; use k=1, or a k schedule that ends in 0 "
                "where the release runs it."
            ),
            conflicts=against if not unified else ("a GB10 gained 24 % at 16 streams (seed000)",),
        )
    elif running is None and (case.plan.max_num_seqs or 0) >= number("regime", "saturated_slots"):
        yield Hit(
            f"{case.plan.max_num_seqs} slots with speculation: if they fill, verifying can cost "
            f"more than it brings",
            flag=flag(case, "--max-num-seqs"),
            severity="info",
            fix=Fix(text="Measure at full load, or cap --max-num-seqs."),
            conflicts=against,
        )
