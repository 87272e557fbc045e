from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid, spec_flag
from advisor.rules.kit.fixes import caching_off_fix
from advisor.rules.kit.releases import affects, defect, prefix_caching_on

DEFECT = defect("vllm-mtp-prefix-caching-hitrate")


@rule(
    severity="warning", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources
)
def mtp_prefix_caching_hitrate(case: Case) -> Iterator[Hit]:
    """MTP makes prefix caching on a hybrid lose its last block of about 1,000 tokens at every hit.

    Why: the hit rate falls (92 to 71 % in the report, 0 % for short prompts) and decode times
    scatter; part of MTP's gain goes into computing the dropped block again.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-AWQ --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-AWQ --no-enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    """
    if case.plan.method != "mtp" or not is_hybrid(case) or not prefix_caching_on(case):
        return
    affected = affects(DEFECT, case)
    shared = case.facts.prefix_share or 0.0
    if affected is False:
        return
    graver = (
        case.plan.k >= 2 or case.facts.workload == "agent"
    )  # SD202 warns then, with the same remedy
    how = "" if case.plan.prefix_caching else " (on by default here)"
    yield Hit(
        f"prefix caching{how} with MTP on a hybrid drops the last matched block (1,056 to 1,584 "
        f"tokens) at every hit: short "
        "shared prefixes gain nothing, and decode times scatter",
        flag=flag(case, "--enable-prefix-caching") or spec_flag(case),
        severity="info" if graver or shared >= 0.5 else None,
        fix=caching_off_fix(
            case,
            "Measure with --no-enable-prefix-caching; keep caching where prompts share several "
            "thousand tokens.",
        ),
        conflicts=DEFECT.conflicts,
        versions=DEFECT.versions,
    )
