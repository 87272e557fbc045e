from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid, k_flag
from advisor.rules.kit.releases import affects, defect, version_label

DEFECT = defect("vllm-mtp-gdn-illegal-access")


@rule(
    severity="warning", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources
)
def mtp_gdn_illegal_access(case: Case) -> Iterator[Hit]:
    """MTP on a hybrid (GDN) model with a vLLM release whose verify path can read outside the state.

    Why: workers die with an illegal memory access after minutes of long or multi-turn traffic, not
    at boot. Fewer draft tokens make it rarer; disabling speculation is the only workaround.
    Bad (version=0.27.1): vllm serve Qwen/Qwen3.6-27B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.27.1): vllm serve Qwen/Qwen3.6-27B-FP8
    """
    if case.plan.method != "mtp" or not is_hybrid(case) or affects(DEFECT, case) is False:
        return
    if case.launch.fork == "vllm-ascend":  # other kernels
        return
    drafts = f" with k={case.plan.k}" if case.plan.k else ""
    yield Hit(
        f"MTP{drafts} on a hybrid model under vLLM {version_label(case)} can end in an illegal "
        f"memory access "
        "after minutes of multi-turn traffic; a lower k makes it rarer; disabling speculation is "
        "the only workaround",
        flag=k_flag(case),
        severity="info" if case.plan.k <= 1 else None,
        fix=Fix(
            text="Watch for Xid 31 and worker deaths; use k 1, or switch speculation off until a "
            "release has vllm#50021."
        ),
        versions=DEFECT.versions,
    )
