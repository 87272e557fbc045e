from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags, model_text, replace_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, lookup_spelling

_NAME = lazy_re(r"--?[\w-]+(\.\w[\w.-]*)?")
OWN_RULE = ("--flash-attn",)  # SD120


@rule(
    severity="error",
    engines=CATALOGUED,
    sources=("the engines' own parsers, catalogued by release", "llama-server 0.5.0, run"),
)
def flag_needs_value(case: Case) -> Iterator[Hit]:
    """An option that needs a value stands without one.

    Why: llama-server takes the next flag as the value and fails far from the cause; argparse
    refuses to start.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type
        --spec-draft-n-max 2
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --spec-draft-n-max 2
    """
    for found in flags(case):
        if (
            found.value is not None
            or not _NAME.fullmatch(found.raw)  # prose: "--models-preset."
            or found.unresolved
            or found.name in OWN_RULE
            or found.origin != "cli"
        ):
            continue
        option = (
            catalogue(case).find(lookup_spelling(found), catalogued_version(case))
            if found.known
            else None
        )
        if option is not None and option.takes_value and not option.many:
            yield Hit(
                f"{found.raw} needs a value and has none",
                flag=found,
                fix=value_of(case, found),
            )


def value_of(case: Case, found: Flag) -> Fix:
    """The value, where only one can be meant."""
    what = f"Give {found.raw} a value or remove it."
    if found.name == "--spec-type" and "mtp" in model_text(case).lower():
        return replace_fix(case, found, f"{found.raw} draft-mtp", what, safe=False)
    return Fix(text=what)
