from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import calls_tools, flag, is_hybrid, k_words, open_value, spec_flag
from advisor.rules.kit.fixes import caching_off_fix
from advisor.rules.kit.releases import affects, defect, prefix_caching_on, version_label

DEFECT = defect("vllm-mtp-prefix-caching-accuracy")


@rule(
    severity="warning", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources
)
def mtp_prefix_caching_accuracy(case: Case) -> Iterator[Hit]:
    """MTP together with prefix caching on a hybrid model: answers on cache hits can be wrong.

    Why: a recurrent-state block that still holds rejected drafts is cached; later hits leak tool
    calls, lose needles or return nothing, while the acceptance looks normal. A warning from k 2 on
    and for agents, else a note.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --no-enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    """
    caching = prefix_caching_on(case)
    if case.plan.method != "mtp" or not is_hybrid(case) or caching is False:
        return
    affected = affects(DEFECT, case)
    unfixed = (
        "no release with the fix is known"
        if affected is False
        else "fixes #43650, #48375 and #47861 were in flight"
    )
    explicit = case.plan.prefix_caching is True
    risky = case.plan.k >= 2 or case.facts.workload == "agent"
    how = (
        ""
        if explicit
        else " (on by default here)"
        if caching
        else " (on by default from vLLM 0.26.0 on)"
    )
    if open_value(case, "--enable-prefix-caching"):
        how = " (if the file turns it on)"
    yield Hit(
        f"prefix caching{how} with MTP{k_words(case.plan)} on a hybrid under vLLM "
        f"{version_label(case)}: answers on cache hits "
        f"can be wrong{' and tool calls can leak as text' if calls_tools(case) else ''}; {unfixed}",
        flag=flag(case, "--enable-prefix-caching") or spec_flag(case),
        severity="warning" if risky and affected is not False and caching else "info",
        fix=caching_off_fix(
            case,
            "Add --no-enable-prefix-caching, or switch MTP off, or test answers on repeated "
            "prefixes.",
        ),
        conflicts=DEFECT.conflicts,
        versions=DEFECT.versions,
    )
