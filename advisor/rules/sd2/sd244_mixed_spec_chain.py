from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.releases import defect

DEFECT = defect("llama-spec-chain")


@rule(
    severity="warning",
    engines=("llama-server",),
    speculative=True,
    sources=DEFECT.sources,
)
def mixed_spec_chain(case: Case) -> Iterator[Hit]:
    """Several speculative types in one --spec-type list.

    Why: what the list means changed between builds: the second type was left out, or the server
    died.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type ngram-mod,draft-mtp
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    """
    place = flag(case, "--spec-type")
    kinds = [
        kind
        for kind in ((place.value or "").split(",") if place else ())
        if kind.strip() not in ("", "none")
    ]
    if len(kinds) > 1:
        yield Hit(
            f"{len(kinds)} speculative types in one list ({', '.join(kinds)}): which one drafts "
            f"depends on the build",
            flag=place,
            fix=Fix(text="Name one type; draft-mtp where the GGUF has the head."),
        )
