from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.releases import prefix_caching_on


@rule(
    severity="error",
    engines=("vllm",),
    sources=("vllm 0.19.1 and 0.25.1 vllm/model_executor/models/config.py",),
)
def chunked_prefill_off(case: Case) -> Iterator[Hit]:
    """Prefix caching on a hybrid with chunked prefill switched off.

    Why: align mode needs chunked prefill and asserts it at start.
    Bad: vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --no-enable-chunked-prefill
    Good: vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --enable-chunked-prefill
    """
    place = flag(case, "--enable-chunked-prefill")
    if (
        place is not None
        and (place.value or "").lower() == "false"
        and is_hybrid(case)
        and prefix_caching_on(case)
    ):
        yield Hit(
            "prefix caching on a hybrid asserts chunked prefill, which is switched off here",
            flag=place,
            fix=drop_fix(
                case, place, "Remove --no-enable-chunked-prefill, or switch prefix caching off."
            ),
        )
