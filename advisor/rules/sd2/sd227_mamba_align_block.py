from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import affects, defect, prefix_caching_on

DEFECT = defect("vllm-mamba-align-block")
BLOCK = table("compatibility")["hybrid_block_tokens"]


@rule(
    severity="error",
    engines=("vllm",),
    versioned=True,
    sources=(*DEFECT.sources, *BLOCK["sources"]),
)
def mamba_align_block(case: Case) -> Iterator[Hit]:
    """A token budget per step below one hybrid cache block, with prefix caching.

    Why: align mode schedules whole blocks (1,056 tokens and more on Qwen3.6): the start fails or
    the scheduler hangs.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-prefix-caching
        --max-num-batched-tokens 512
    Good (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-prefix-caching
        --max-num-batched-tokens 4096
    """
    budget = case.plan.max_num_batched_tokens
    if (
        budget is None
        or budget >= BLOCK["value"]
        or not is_hybrid(case)
        or not prefix_caching_on(case)
    ):
        return
    sure = affects(DEFECT, case)
    yield Hit(
        f"{budget} tokens a step are less than one hybrid cache block (at least {BLOCK['value']})",
        flag=flag(case, "--max-num-batched-tokens"),
        severity=None if sure else "warning",
        fix=set_fix(
            case,
            flag(case, "--max-num-batched-tokens"),
            "2048",
            "Use --max-num-batched-tokens 2048 or more, or --no-enable-prefix-caching.",
        ),
        versions=DEFECT.versions,
    )
