from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, sources


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "model", "concurrency"),
    sources=sources("claims", "random_weight_sources"),
)
def random_weights_evidence(case: Case) -> Iterator[Hit]:
    """The nearest measurements come from runs with random weights and a set acceptance.

    Why: such runs measure what a step costs. What a draft head gets accepted, and how routing is
    skewed, they do not know.
    Bad (goal=balanced, hw=h200, concurrency=16, ctx=2048, evidence=h200-sweep): vllm serve
    Qwen/Qwen3.6-35B-A3B-FP8
        --max-num-seqs 32
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=gb10, concurrency=16, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --max-num-seqs 32
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    if not for_advice(case):
        return
    known = table("claims")["random_weight_sources"]
    used = {
        e.source
        for e in case.facts.evidence
        if e.source in known["ids"] or e.source.startswith(tuple(known["prefixes"]))
    }
    if used:
        yield Hit(
            "measured step costs here come from random weights with a set acceptance: the gain "
            "still depends on an assumed acceptance",
            sources=tuple(sorted(used)),
        )
