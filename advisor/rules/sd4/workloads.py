"""Losses by workload."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.perf.regimes import losses
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import is_sparse_moe, regime
from advisor.rules.sd1.spec_config_method import is_suffix_decoding


@rule("SD406", "warning", decides=True, data="regime.ngram_general", at="spec")
@when(methods="ngram")
def ngram_general_text(case: Case) -> Hits:
    """N-gram speculation on text that does not repeat its prompt.

    Why: few are accepted while every guess is verified. It pays where answers copy from the prompt.
    Bad: llama-server -m Qwen3.6-35B-A3B-Q4_K_M.gguf --spec-type ngram-cache
    Good: llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 2
    """
    if is_suffix_decoding(case):
        return
    longer = "; at least raise prompt_lookup_min to 8" if case.plan.engine == "vllm" else ""
    effect = regime(case, losses.lookup).effect
    yield Hit(
        "n-gram speculation lost 11 to 19 % on general prompts at 2 to 5 % acceptance",
        severity="info" if effect == "caution" else None,  # where answers copy
        fix=f"Use MTP where the checkpoint has a head, else no speculation{longer}.",
        conflicts=("copy-and-edit loads gained 15 to 24 %",),
        effect=effect,
    )


@rule("SD412", "info", decides=True, data="regime.creative_k_max_sparse", at="k")
@when(speculative=True, needs="workload model")
def creative_text(case: Case) -> Hits:
    """Creative or random text with more than a short draft.

    Why: acceptance falls fastest there: one draft token is even on the 35B-A3B, a gain on the 27B.
    Bad (workload=creative): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (workload=creative): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
    """
    if case.facts.workload != "creative":
        return
    sparse, measured = is_sparse_moe(case), "MTP on the 27B 1.32x at k=1, 1.37x at 2, 0.98x at 6"
    limit = int(number("regime", "creative_k_max_sparse" if sparse else "creative_k_max_dense"))
    if sparse:
        measured = "DFlash on the 35B-A3B 1.05x at k=1, 0.91x at 3"
    over = case.plan.k > limit
    yield Hit(
        f"creative text is accepted least ({measured}, V100): off, or at most k={limit}",
        fix=k_fix(case, limit, f"Use k={limit}, or switch speculation off for this load.")
        if over
        else "Measure, or switch speculation off for this load.",
        conflicts=(
            "a dense 27B on an RTX 4090 gained 1.65x at k=4 with creative prompts (f59702526243)",
        ),
        effect="k_max" if over else regime(case, losses.creative).effect,
        k_max=limit if over else None,
    )
