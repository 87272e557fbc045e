from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.flags import (
    CATALOGUED,
    catalogue,
    catalogued_version,
    lookup_spelling,
    option_at_release,
)

SHORTHAND = ("--spec-method", "--spec-model", "--spec-tokens")  # SD118 speaks of these


@rule(
    severity="error",
    engines=CATALOGUED,
    needs=("version",),
    sources=("the engines' own parsers, catalogued by release",),
)
def flag_too_new(case: Case) -> Iterator[Hit]:
    """A flag that the pinned release does not have yet.

    Why: the server refuses to start; the flag was taken from a newer release's documentation.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-scheduled-tokens 4096
    Good (version=0.26.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-scheduled-tokens 4096
    """
    for found in flags(case):
        if found.name in SHORTHAND or option_at_release(case, found) != "too-new":
            continue
        ever = catalogue(case).find(lookup_spelling(found), None)
        since = ever.since if ever else "a later release"
        yield Hit(
            f"{case.plan.engine} {catalogued_version(case)} has no {found.raw}; it came "
            f"with {since}",
            flag=found,
            fix=drop_fix(
                case, found, f"Use {case.plan.engine} {since} or newer, or remove {found.raw}."
            ),
        )
