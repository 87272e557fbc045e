from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.releases import defect

DEFECT = defect("vllm-turboquant-mtp")


@rule(severity="error", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources)
def turboquant_mtp(case: Case) -> Iterator[Hit]:
    """TurboQuant KV cache together with speculation.

    Why: the verification of several tokens at once reads wrong values: lost needles and garbage.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B --kv-cache-dtype turboquant_4bit_nc
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if (case.plan.kv_cache_dtype or "").startswith(("turboquant", "tq")):
        yield Hit(
            f"KV cache {case.plan.kv_cache_dtype} with speculation gives wrong output",
            flag=flag(case, "--kv-cache-dtype"),
            fix=Fix(text="Use one of the two, not both."),
            versions=DEFECT.versions,
        )
