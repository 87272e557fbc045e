from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag

ROW = table("compatibility")["low_conservativeness"]


@rule(severity="warning", engines=("sglang",), sources=tuple(ROW["sources"]))
def sglang_conservativeness_low(case: Case) -> Iterator[Hit]:
    """A very low --schedule-conservativeness.

    Why: new prompts are let in so freely that running requests are pushed out or starve; the time
    to first token then grows under mixed load.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --schedule-conservativeness 0.1
    Good: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --schedule-conservativeness 1.0
    """
    place = flag(case, "--schedule-conservativeness")
    try:
        given = float(place.value or "") if place is not None and not place.unresolved else None
    except ValueError:
        return
    if given is not None and given < ROW["value"]:
        yield Hit(
            f"--schedule-conservativeness {given:g} lets prompts starve running requests under "
            f"mixed load",
            flag=place,
            fix=Fix(text="Use 1.0 (the default) and --chunked-prefill-size 4096."),
        )
