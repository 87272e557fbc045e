from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, matches, rows, sources


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "model", "concurrency"),
    sources=sources("claims", "retracted"),
)
def retracted_claim(case: Case) -> Iterator[Hit]:
    """A published number about this set-up was withdrawn by its author.

    Why: it is still quoted. It takes no part in the estimate.
    Bad (goal=balanced, hw=rtx3090, gpus=2, concurrency=1): vllm serve
    cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit --tensor-parallel-size 2
        --max-num-seqs 8 --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (goal=balanced, hw=gb10, concurrency=1): vllm serve cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit
    --max-num-seqs 8
        --gpu-memory-utilization 0.75
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    """
    if not for_advice(case):
        return
    for row in rows("claims", "retracted"):
        if matches(row, case):
            yield Hit(row["text"], sources=tuple(row["sources"]))
