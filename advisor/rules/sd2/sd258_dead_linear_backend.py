from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.fixes import set_fix

NAMES = ("--linear-attn-backend", "--linear-attn-decode-backend")


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    sources=("sglang 0.5.10 and 0.5.14 server_args.py",),
)
def dead_linear_backend(case: Case) -> Iterator[Hit]:
    """A linear-attention backend other than triton with speculation on a hybrid.

    Why: it switches extra_buffer off, and FlashInfer decode without it is refused together with the
    radix cache (0.5.10).
    Bad: sglang serve --model-path Qwen/Qwen3.5-9B --linear-attn-decode-backend flashinfer
        --speculative-algorithm NEXTN
    Good: sglang serve --model-path Qwen/Qwen3.5-9B --linear-attn-decode-backend triton
        --speculative-algorithm NEXTN
    """
    place = flag(case, *NAMES)
    if (
        place is not None
        and not place.unresolved
        and (place.value or "triton") != "triton"
        and is_hybrid(case)
    ):
        yield Hit(
            f"{place.raw} {place.value} switches extra_buffer off, which speculation on a hybrid "
            f"needs for its radix cache",
            flag=place,
            fix=set_fix(case, place, "triton", "Use triton."),
        )
