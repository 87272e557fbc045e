from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid, spec_flag
from advisor.rules.kit.policy import sources
from advisor.rules.kit.releases import between, release


@rule(
    severity="warning",
    speculative=True,
    versioned=True,
    engines=("vllm",),
    needs=("model",),
    sources=sources("regime", "schedule_piecewise"),
)
def k_schedule_cost(case: Case) -> Iterator[Hit]:
    """A k schedule per batch size that costs the full CUDA graphs or is ignored.

    Why: on the V1 model runner, which vLLM 0.24 to 0.28 use for hybrid models, draft lengths that
    change force PIECEWISE graphs for every step; with data parallelism the schedule is switched
    off.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --speculative-config '{"method":"mtp","num_speculative_tokens":3,
    "num_speculative_tokens_per_batch_size":[[1,8,3],[9,32,1]]}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    row, plan = table("regime")["schedule_piecewise"], case.plan
    if not plan.k_schedule:
        return
    if plan.dp > 1:
        yield Hit(
            f"with data parallelism {plan.dp} vLLM ignores the schedule of draft tokens",
            flag=spec_flag(case),
            fix=Fix(
                text="Use one k for all batch sizes, or separate servers instead of "
                "--data-parallel-size."
            ),
            versions="0.24.0 and later",
        )
    elif is_hybrid(case) and between(release(case), row["since"], row["until"]):
        yield Hit(
            "a schedule of draft tokens costs the full CUDA graphs on this release's runner for "
            "hybrid models",
            flag=spec_flag(case),
            fix=Fix(text="Use one k for all batch sizes, or vLLM 0.29.0 or later."),
            versions="0.24.0 to 0.28.0",
        )
