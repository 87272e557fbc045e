import json
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag


@rule(
    severity="warning",
    engines=("vllm",),
    speculative=True,
    sources=("vLLM 0.25.1, warning at start, run on an H200",),
)
def min_p_with_speculation(case: Case) -> Iterator[Hit]:
    """min_p as a server default together with speculation.

    Why: vLLM says itself that min_p and logit_bias do not work with speculative decoding; the
    setting is lost.
    Bad: vllm serve Qwen/Qwen3.6-27B --override-generation-config '{"temperature":0.6,"min_p":0.05}'
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good: vllm serve Qwen/Qwen3.6-27B --override-generation-config
        '{"temperature":0.6,"top_p":0.95}'
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    place = flag(case, "--override-generation-config")
    try:
        data = json.loads(place.value or "{}") if place is not None else {}
    except (ValueError, RecursionError):
        return
    least = data.get("min_p") if isinstance(data, dict) else None
    if isinstance(least, int | float) and least > 0:
        yield Hit(
            f"min_p {least:g} does not work with speculative decoding in vLLM",
            flag=place,
            fix=Fix(text="Use top_p and top_k instead."),
        )
