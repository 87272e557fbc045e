from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, flags, model_text
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.flags import catalogue
from advisor.rules.kit.releases import is_newest

STARTERS = (
    "--spec-type",
    "--spec-draft-model",
    "--spec-draft-hf",
    "--spec-default",
    "--lookup-cache-static",
    "--lookup-cache-dynamic",
)
NUMBERS = ("--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-min", "--spec-draft-p-split")

DRAFT = "Add --spec-type draft-simple (draft-eagle3 or draft-dflash for such a drafter)."
WHAT = "Add --spec-type draft-mtp (for a GGUF with the MTP head), or remove the numbers."


@rule(
    severity="warning",
    engines=("llama-server",),
    sources=(
        "llama-server 0.5.0 --help: --spec-type defaults to none",
        "ggml-org/llama.cpp#25345",
    ),
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
    draft = flag(case, "--spec-draft-model", "--spec-draft-hf")
    kind = flag(case, "--spec-type", "--spec-default")
    if draft is not None and (kind is None or kind.value == "none") and not drafts_alone(case):
        yield Hit(
            f"{draft.raw} without --spec-type: the draft model is loaded and nothing is drafted",
            flag=draft,
            severity=None if is_recent(case) else "info",
            fix=add_fix(case, draft, "--spec-type", "draft-simple", DRAFT)
            if kind is None
            else set_fix(case, kind, "draft-simple", DRAFT),
        )
    elif given and flag(case, *STARTERS) is None:
        yield Hit(
            f"{given[0].raw} without --spec-type or a draft model: nothing is drafted",
            flag=given[0],
            fix=add_fix(case, given[0], "--spec-type", "draft-mtp", WHAT)
            if "mtp" in model_text(case).lower()
            else Fix(text=WHAT),
        )


def drafts_alone(case: Case) -> bool:
    """Whether a draft model alone starts speculation, as it did in older builds; so it may be where
    a file says nothing of the build and gives options of that time.
    """
    version = case.launch.engine_version
    known = catalogue(case)
    return bool(known.behaviour("draft_model_alone_drafts", version)) or (
        version is None and any(found.name.startswith("--draft") for found in flags(case))
    )


def is_recent(case: Case) -> bool:
    """Whether the build is known, newest by its image, or has options of the newer ones."""
    known = case.launch.engine_version is not None or is_newest(case)
    return known or any(found.raw.startswith("--spec-") for found in flags(case))
