from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, integer, open_value
from advisor.rules.kit.fixes import set_fix

ROW = table("compatibility")["mamba_track_interval"]


@rule(severity="error", engines=("sglang",), sources=tuple(ROW["sources"]))
def mamba_track_interval(case: Case) -> Iterator[Hit]:
    """A Mamba tracking interval that does not fit the draft tokens or the page size.

    Why: SGLang requires it to be at least as long as the draft and a multiple of the page size, and
    asserts both.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --page-size 64 --mamba-track-interval
        100
    Good: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --page-size 64 --mamba-track-interval
        128
    """
    place, page = flag(case, "--mamba-track-interval"), flag(case, "--page-size")
    given = integer(place.value) if place is not None else None
    interval, size = given or ROW["value"], (integer(page.value) if page is not None else None) or 1
    unknown = open_value(case, "--mamba-track-interval") or open_value(case, "--page-size")
    if (place is None and page is None) or unknown or interval <= 0:
        return
    draft = case.plan.k + 1 if case.plan.method != "none" else 0
    use = max(size, -(-256 // size) * size)
    if interval % size or interval < draft:
        yield Hit(
            f"the tracking interval {interval} must be a multiple of the page size {size} and at "
            f"least {draft or 1}",
            flag=place or page,
            severity=None if place is not None else "warning",
            fix=set_fix(case, place, str(use), f"Use --mamba-track-interval {use}."),
        )
