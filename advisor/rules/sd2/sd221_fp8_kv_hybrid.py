from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, fp8_kv, is_hybrid


@rule(
    severity="info",
    engines=("vllm",),
    sources=("vllm-project/vllm#26646", "rwlove/home-ops", "AI-Guru/ai_services"),
)
def fp8_kv_hybrid(case: Case) -> Iterator[Hit]:
    """An fp8 KV cache on a hybrid model, where the evidence conflicts.

    Why: scales are uncalibrated (1.0) unless the checkpoint carries them, and silent loss was
    suspected; others measure no difference. Worth one quality test, not more.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    if fp8_kv(case) and is_hybrid(case):
        yield Hit(
            "fp8 KV on a hybrid: uncalibrated scales; the evidence on quality conflicts",
            flag=flag(case, "--kv-cache-dtype"),
            fix=Fix(text="Compare answers with and without it on your own prompts."),
            conflicts=(
                "club-3090 finds the quality equal and sets it on",
                "the vLLM recipe for DGX Spark uses it",
            ),
        )
