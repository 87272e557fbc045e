from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, hardware_name, sources


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "model", "concurrency"),
    sources=sources("claims", "no_pair"),
)
def hardware_never_measured(case: Case) -> Iterator[Hit]:
    """No published benchmark near this load used this hardware: the estimate is extrapolated.

    Why: the cost model carries ratios across machines better than speeds, but engine and platform
    faults (lost graphs, slow verify kernels) are seen only by measuring there.
    Bad (goal=balanced, hw=l40s, concurrency=4, ctx=2048): vllm serve Qwen/Qwen3.6-27B-FP8
    --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=gb10, concurrency=16, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --max-num-seqs 32
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    if not for_advice(case):
        return
    hw = case.facts.hardware
    if hw is not None and not any(e.hardware == hw.id for e in case.facts.evidence):
        yield Hit(
            f"no published benchmark near this load used {hardware_name(case)}: the estimate is "
            f"extrapolated from other machines"
        )
