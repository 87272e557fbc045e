from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.releases import affects, defect, prefix_caching_on

DEFECT = defect("vllm-async-align-assert")


@rule(severity="info", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources)
def async_align_assert(case: Case) -> Iterator[Hit]:
    """Asynchronous scheduling with MTP and align-mode prefix caching on a hybrid, vLLM of spring
    2026.

    Why: an assertion on allocating new blocks was reported; it has not been seen on later releases.
    Bad (version=0.21.0): vllm serve Qwen/Qwen3.6-27B --async-scheduling --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.21.0): vllm serve Qwen/Qwen3.6-27B --no-async-scheduling --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if (
        case.plan.method != "mtp"
        or case.plan.async_scheduling is False
        or not affects(DEFECT, case)
    ):
        return
    if is_hybrid(case) and prefix_caching_on(case):
        yield Hit(
            "asynchronous scheduling, MTP and align-mode caching can hit an assertion on "
            "allocating blocks",
            flag=flag(case, "--async-scheduling") or flag(case, "--enable-prefix-caching"),
            fix=Fix(text="If it appears: --no-async-scheduling."),
            conflicts=DEFECT.conflicts,
            versions=DEFECT.versions,
        )
