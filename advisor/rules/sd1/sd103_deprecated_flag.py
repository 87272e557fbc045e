from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, lookup_spelling
from advisor.rules.sd1.sd102_removed_flag import successor_fix


@rule(
    severity="info",
    engines=CATALOGUED,
    needs=("version",),
    sources=("the engines' own parsers, catalogued by release",),
)
def deprecated_flag(case: Case) -> Iterator[Hit]:
    """A flag that the release still takes but has deprecated.

    Why: it works today and is refused by a later release; renaming it now costs nothing.
    Bad (version=0.5.15): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer
    Good (version=0.5.15): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-radix-cache-strategy extra_buffer
    """
    version = catalogued_version(case)
    for found in flags(case):
        option = catalogue(case).find(lookup_spelling(found), version) if found.known else None
        if option is None or not option.deprecated or option.removed:
            continue
        use = catalogue(case).successor(lookup_spelling(found), version)
        yield Hit(
            f"{found.raw} is deprecated in {case.plan.engine} {version}"
            + (f"; use {use}" if use else ""),
            flag=found,
            fix=successor_fix(case, found) if use else Fix(text=f"Do without {found.raw}."),
        )
