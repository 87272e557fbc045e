from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.domain.patterns import is_only_near
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import build_order, release, version_label
from advisor.rules.kit.values import nearest, slip
from advisor.rules.sd1.sd113_spec_type_mtp import RENAMED

SINCE = table("compatibility")["spec_types_since"]


@rule(
    severity="error",
    engines=("llama-server",),
    versioned=True,
    sources=tuple(SINCE["sources"]),
)
def spec_type_too_new(case: Case) -> Iterator[Hit]:
    """A speculative type that the llama.cpp build does not have, or that none has.

    Why: llama-server exits on an unknown type.
    Bad (version=b9010): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    Good (version=b9518): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    """
    found = flag(case, "--spec-type")
    if found is None or not found.value or found.unresolved:
        return
    at = release(case)
    for word in (part.strip() for part in found.value.split(",")):
        since = SINCE.get(word) if word != "sources" else None
        lowest = build_order(since)
        if since is not None and at is not None and lowest is not None and at < lowest:
            yield Hit(
                f"llama.cpp {version_label(case)} has no speculative type '{word}'; it is in "
                f"{since} and later",
                flag=found,
                fix=Fix(text=f"Use llama.cpp {since} or newer."),
            )
        elif since is None and word not in KNOWN and word not in RENAMED:
            near = nearest(word, sorted(KNOWN))
            what = f"Use {near}." if near else "Use draft-mtp for a model with its own MTP head."
            yield Hit(
                f"llama.cpp has no speculative type '{word}'; "
                + (f"did you mean {near}?" if near else f"there are {', '.join(sorted(KNOWN))}"),
                flag=found,
                fix=set_fix(case, found, found.value.replace(word, near), what)
                if near
                else Fix(text=what),
                versions="all catalogued builds",
                everywhere=True,
                slip=slip(word, near),
                sole=is_only_near(word, near, KNOWN),
            )


KNOWN = frozenset(SINCE.keys() - {"sources"}) | {
    "none",
    "draft-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
}
