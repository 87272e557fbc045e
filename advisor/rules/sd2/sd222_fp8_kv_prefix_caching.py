from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, fp8_kv, is_hybrid
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.releases import affects, defect, version_label

DEFECT = defect("vllm-fp8kv-disables-prefix-caching")


@rule(severity="warning", engines=("vllm",), versioned=True, sources=DEFECT.sources)
def fp8_kv_prefix_caching(case: Case) -> Iterator[Hit]:
    """An fp8 KV cache with which some vLLM 0.25 builds drop prefix caching on hybrids in silence.

    Why: the hit rate is 0.0 % and nothing says so; an agent then computes its whole context at
    every step.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    if (
        fp8_kv(case)
        and is_hybrid(case)
        and case.plan.prefix_caching is not False
        and affects(DEFECT, case)
    ):
        yield Hit(
            f"fp8 KV under vLLM {version_label(case)} switched prefix caching off on a hybrid: "
            f"the hit rate was 0.0 %",
            flag=flag(case, "--kv-cache-dtype"),
            fix=drop_fix(
                case,
                flag(case, "--kv-cache-dtype"),
                "Remove --kv-cache-dtype fp8, or read the prefix cache hit rate in the log.",
            ),
            conflicts=DEFECT.conflicts,
            versions=DEFECT.versions,
        )
