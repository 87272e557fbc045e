from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import is_gguf, matches, rows, sources


@rule(severity="warning", speculative=True, sources=sources("regime", "k_limits"))
def k_too_high(case: Case) -> Iterator[Hit]:
    """More draft tokens than published sweeps support.

    Why: one MTP layer drafts again and again on its own guesses, so each further position is
    accepted less, while its draft pass and its place in the verify step cost the same. Crashes
    become likelier too.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":8}'
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if is_gguf(case) and case.plan.k + 1 > number("regime", "kernel_switch_tokens"):
        return  # the kernel switch says it, with the larger reason
    row = next((row for row in rows("regime", "k_limits") if matches(row, case)), None)
    if row is None or case.plan.k <= row["usual"]:
        return
    yield Hit(
        f"k={case.plan.k} draft tokens; published sweeps end at {row['usual']} (best: "
        f"{row['best']})",
        flag=k_flag(case),
        severity="info" if case.plan.k <= row["hard"] else None,
        fix=k_fix(
            case,
            row.get("draft", row["usual"]),
            f"Draft {row.get('draft', row['usual'])} ({row['usual']} at most).",
        ),
        sources=tuple(row["sources"]),
        conflicts=tuple(row["conflicts"]),
        effect="k_max",
        k_max=row["usual"],
    )
