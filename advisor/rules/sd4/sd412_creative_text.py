from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import is_sparse_moe, regime, sources


@rule(
    severity="info",
    speculative=True,
    needs=("workload", "model"),
    sources=sources("regime", "creative_k_max_sparse", "creative_k_max_dense"),
)
def creative_text(case: Case) -> Iterator[Hit]:
    """Creative or random text with more than a short draft.

    Why: such text is hard to guess; acceptance falls fastest there, and the recipes say off.
    Measured: one draft token is about even on the sparse 35B-A3B and gains on the dense 27B.
    Bad (workload=creative): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (workload=creative): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
    """
    if case.facts.workload != "creative":
        return
    sparse = is_sparse_moe(case)
    limit = int(number("regime", "creative_k_max_sparse" if sparse else "creative_k_max_dense"))
    measured = (
        "DFlash on the 35B-A3B 1.05x at k=1, 0.91x at 3"
        if sparse
        else "MTP on the 27B 1.32x at k=1, 1.37x at 2, 0.98x at 6"
    )
    over = case.plan.k > limit
    yield Hit(
        f"creative text is accepted least ({measured}, V100): off, or at most k={limit}",
        flag=k_flag(case),
        fix=k_fix(case, limit, f"Use k={limit}, or switch speculation off for this load.")
        if over
        else Fix(text="Measure, or switch speculation off for this load."),
        conflicts=(
            "a dense 27B on an RTX 4090 gained 1.65x at k=4 with creative prompts (f59702526243)",
        ),
        effect="k_max" if over else regime(case, losses.creative).effect,
        k_max=limit if over else None,
    )
