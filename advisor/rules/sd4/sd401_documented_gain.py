from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import matches, rows, sources


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "model", "concurrency"),
    sources=sources("regime", "documented_gains"),
)
def documented_gain(case: Case) -> Iterator[Hit]:
    """Published benchmarks show a gain from speculation at this load.

    Why: medium concurrency on unified memory is where rules of thumb fail: decoding is limited by
    memory bandwidth there, and the verified tokens mostly use experts that are read anyway.
    Bad (hw=gb10, concurrency=16, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=16, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --gpu-memory-utilization 0.75
    """
    for row in rows("regime", "documented_gains"):
        if matches(row, case):
            yield Hit(
                f"documented gain: {row['text']}",
                sources=tuple(row["sources"]),
                conflicts=tuple(row["conflicts"]),
                effect="support",
                k_best=row.get("k_best"),
            )
            return
