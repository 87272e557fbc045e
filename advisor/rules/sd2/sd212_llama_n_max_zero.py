from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, integer


@rule(
    severity="warning",
    engines=("llama-server",),
    sources=("noonghunna/club-3090 compose notes",),
)
def llama_n_max_zero(case: Case) -> Iterator[Hit]:
    """A speculative type together with zero draft tokens.

    Why: nothing is drafted, but the draft context and its memory are still built.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --spec-draft-n-max 0
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf
    """
    place, kind = flag(case, "--spec-draft-n-max"), flag(case, "--spec-type")
    if kind is None or (kind.value or "none") == "none" or place is None or place.unresolved:
        return
    least = flag(case, "--spec-draft-n-min")
    low, high = integer(least.value) if least is not None else None, integer(place.value)
    if low is not None and high is not None and 0 < high < low:
        yield Hit(
            f"no draft of at most {high} tokens reaches the {low} of {least.raw}: none is used"
            if least is not None
            else "",
            flag=least,
            fix=Fix(text=f"Keep {least.raw if least is not None else ''} below {place.raw}."),
        )
    elif integer(place.value) == 0:
        yield Hit(
            f"--spec-type {kind.value} with 0 draft tokens drafts nothing but still takes the "
            f"draft context's memory",
            flag=place,
            fix=Fix(text="Remove the speculative flags, or draft 2 tokens."),
        )
