from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid
from advisor.rules.kit.policy import for_advice, is_sparse_moe, model_name, sources


@rule(
    severity="info",
    speculative=True,
    engines=("vllm",),
    needs=("model", "hardware", "concurrency"),
    sources=sources("claims", "a3b_spread"),
)
def conflicting_a3b_reports(case: Case) -> Iterator[Hit]:
    """Reports on MTP for the A3B hybrids contradict each other by quantisation and release.

    Why: one number would mislead; without a published benchmark of this configuration only the
    spread is known.
    Bad (goal=balanced, hw=rtx4090, gpus=2, concurrency=2, quant=awq-int4): vllm serve
    cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit
        --tensor-parallel-size 2 --max-num-seqs 4 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=rtx4090, gpus=2, concurrency=2, quant=awq-int4): vllm serve
    Qwen/Qwen3.6-27B-AWQ
        --tensor-parallel-size 2
        --max-num-seqs 4 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if not for_advice(case):
        return
    if case.plan.method != "mtp" or not is_sparse_moe(case) or not is_hybrid(case):
        return
    if any(e.covers for e in case.facts.evidence):
        return
    reports = tuple(table("claims")["a3b_spread"]["rows"])
    yield Hit(
        f"reports on MTP for {model_name(case)} in vLLM range from -51 % to +55 % by "
        f"quantisation, release and settings",
        conflicts=reports,
    )
