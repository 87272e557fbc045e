from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag

FAILED_K = 18  # with 16,384 tokens a step


@rule(
    severity="warning",
    engines=("vllm",),
    speculative=True,
    sources=("AI-Guru/ai_services int4-dflash",),
)
def dflash_block_budget(case: Case) -> Iterator[Hit]:
    """DFlash with a block so long that it does not fit the token budget.

    Why: from k 18 on the server failed to start with 16,384 tokens a step; 8 was the best of the
    sweep.
    Bad: vllm serve Qwen/Qwen3.6-27B --max-num-batched-tokens 16384
        --speculative-config
        '{"method":"dflash","model":"z-lab/Qwen3.6-27B-DFlash","num_speculative_tokens":20}'
    Good: vllm serve Qwen/Qwen3.6-27B --max-num-batched-tokens 16384
        --speculative-config
        '{"method":"dflash","model":"z-lab/Qwen3.6-27B-DFlash","num_speculative_tokens":8}'
    """
    if case.plan.method == "dflash" and case.plan.k >= FAILED_K:
        yield Hit(
            f"DFlash with k={case.plan.k}: blocks of 18 and more failed to start, 8 was the best",
            flag=k_flag(case),
            fix=Fix(text="Use 8, or raise --max-num-batched-tokens and measure."),
        )
