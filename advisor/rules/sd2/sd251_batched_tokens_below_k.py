from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("vllm-lookahead-budget")


@rule(severity="error", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources)
def batched_tokens_below_k(case: Case) -> Iterator[Hit]:
    """A token budget per step that does not even hold the draft tokens of one request.

    Why: vLLM 0.33 refuses it; earlier releases can never schedule a speculative step.
    Bad (version=0.33.0): vllm serve Qwen/Qwen3.6-27B --max-num-batched-tokens 2
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.33.0): vllm serve Qwen/Qwen3.6-27B --max-num-batched-tokens 8192
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    budget = case.plan.max_num_batched_tokens
    if budget is not None and budget <= case.plan.k:
        yield Hit(
            f"{budget} tokens a step do not hold k={case.plan.k} draft tokens and one more",
            flag=flag(case, "--max-num-batched-tokens"),
            fix=set_fix(case, flag(case, "--max-num-batched-tokens"), "2048", "Use 2048 or more."),
            severity=None if affects(DEFECT, case) else "warning",
            versions=DEFECT.versions,
        )
