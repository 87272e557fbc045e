import re
import shlex
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags, rename_fix, replace_fix
from advisor.rules.kit.fixes import pinned
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, standing, written

_LEAD = re.compile(r"^--(?:no-)?(?:enable|disable|use)-|^-+")


@rule(
    severity="error",
    engines=CATALOGUED,
    versioned=True,
    sources=(
        "the engines' own parsers, catalogued by release",
        "nikolatesla20 HALLUCINATED_FLAGS",
        "PortOS#4653",
    ),
)
def unknown_flag(case: Case) -> Iterator[Hit]:
    """A flag that no catalogued release of the engine knows.

    Why: the server refuses to start; many such flags come from a neighbour engine, a guess or a
    typo.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --decode-threshold 4
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    """
    for found in flags(case):
        if standing(case, found) != "unknown":
            continue
        if catalogue(case).find(written(found), catalogued_version(case)) is not None:
            yield Hit(
                f"{case.plan.engine} does not read {found.raw}=VALUE: the value is an argument "
                f"of its own",
                flag=found,
                fix=replace_fix(
                    case,
                    found,
                    f"{found.raw} {shlex.quote(found.value or '')}",
                    f"Write {found.raw} {found.value}.",
                    safe=pinned(case),
                )
                if not found.unresolved
                else Fix(text=f"Write {found.raw} {found.value}."),
            )
            continue
        near = meant(case, written(found))
        near = near if near and close(written(found), near) else None
        hint = f"; the nearest is {near}" if near else ""
        yield Hit(
            f"{case.plan.engine} has no option {found.raw}{hint}",
            flag=found,
            fix=rename_fix(case, found, near, f"Use {near} if that is meant.", safe=False)
            if near and found.origin == "cli" and alike(written(found), near)
            else Fix(text=f"Use {near} if that is meant." if near else f"Remove {found.raw}."),
            severity="info" if case.launch.fork else None,
            versions="all catalogued releases",
        )


def meant(case: Case, word: str) -> str | None:
    """The nearest option, never the one that says the opposite: of `--no-disable-x` that is
    `--enable-x`.
    """
    known, version = catalogue(case), catalogued_version(case)
    near = known.nearest(word, version)
    if near is None or word.replace("--no-", "--") != near.replace("--no-", "--"):
        return near
    other = word.replace("--no-disable-", "--enable-").replace("--no-enable-", "--disable-")
    return (
        other if other != word and known.find(other, version or known.newest) is not None else None
    )


def close(word: str, near: str) -> bool:
    """Whether two options share more than the word that they begin with: not `--enable-beta-spec`
    and `--enable-trace`.
    """
    from difflib import SequenceMatcher

    return SequenceMatcher(None, _LEAD.sub("", word), _LEAD.sub("", near)).ratio() >= 0.6


def alike(word: str, near: str) -> bool:
    """Whether a spelling is close enough to be a slip, not another thing."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, word, near).ratio() >= 0.85
