from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, flags, model_text
from advisor.rules.kit.fixes import add_fix

STARTERS = (
    "--spec-type",
    "--spec-draft-model",
    "--spec-draft-hf",
    "--spec-default",
    "--lookup-cache-static",
    "--lookup-cache-dynamic",
)
NUMBERS = ("--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-min", "--spec-draft-p-split")

WHAT = "Add --spec-type draft-mtp (for a GGUF with the MTP head), or remove the numbers."


@rule(
    severity="warning",
    engines=("llama-server",),
    sources=("llama-server 0.5.0 --help: --spec-type defaults to none",),
)
def spec_numbers_without_type(case: Case) -> Iterator[Hit]:
    """Draft lengths without a speculative type or a draft model.

    Why: --spec-type defaults to none, so nothing is drafted, silently; a benchmark then
    compares two equal servers.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-draft-n-max 2
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --spec-draft-n-max 2
    """
    given = [found for found in flags(case) if found.name in NUMBERS]
    if given and flag(case, *STARTERS) is None:
        yield Hit(
            f"{given[0].raw} without --spec-type or a draft model: nothing is drafted",
            flag=given[0],
            fix=add_fix(case, given[0], "--spec-type", "draft-mtp", WHAT)
            if "mtp" in model_text(case).lower()
            else Fix(text=WHAT),
        )
