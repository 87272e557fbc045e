import re
import shlex
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags, rename_fix, replace_fix
from advisor.rules.kit.fixes import drop_fix, is_release_pinned
from advisor.rules.kit.flags import (
    CATALOGUED,
    catalogue,
    catalogued_version,
    lookup_spelling,
    option_at_release,
)
from advisor.rules.kit.values import slip

PLUGINS = ("--omni",)  # vllm-omni takes vLLM's command line and many options beside
_LEAD = re.compile(r"^--(?:no-)?(?:enable|disable|use)-|^-+")


@rule(
    severity="error",
    engines=(*CATALOGUED, "ik_llama.cpp"),
    versioned=True,
    sources=(
        "the engines' own parsers, catalogued by release",
        "nikolatesla20 HALLUCINATED_FLAGS",
        "PortOS#4653",
    ),
)
def unknown_flag(case: Case) -> Iterator[Hit]:
    """A flag that no catalogued release of the engine knows.

    Why: the server refuses to start; such flags often come from another engine, a guess or a typo.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --decode-threshold 4
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    """
    if any(found.raw in PLUGINS for found in flags(case)):
        return  # the options of an extension are not catalogued
    for found in flags(case):
        if option_at_release(case, found) != "unknown":
            continue
        if catalogue(case).find(lookup_spelling(found), catalogued_version(case)) is not None:
            yield join_value(case, found)
            continue
        near = nearest_option(case, lookup_spelling(found))
        near = near if near and close(lookup_spelling(found), near) else None
        misspelt = slip(lookup_spelling(found), near)
        if case.plan.engine not in CATALOGUED and not misspelt:
            continue  # a fork without a catalogue of its own
        hint = f"; the nearest is {near}" if near else ""
        yield Hit(
            f"{case.plan.engine} has no option {found.raw}{hint}",
            flag=found,
            fix=mend(case, found, near, misspelt),
            severity="info" if case.launch.fork and not misspelt else None,
            versions="all catalogued releases",
            everywhere=True,
            slip=misspelt,
        )


def join_value(case: Case, found: Flag) -> Hit:
    """`--flag=value` where the engine takes the value as an argument of its own."""
    value = found.value or ""
    text = f"{found.raw} {value if found.unresolved else shlex.quote(value)}"
    what = f"Write {text}."
    return Hit(
        f"{case.plan.engine} does not read {found.raw}=VALUE: pass the value as a separate "
        "argument",
        flag=found,
        fix=replace_fix(case, found, text, what, safe=is_release_pinned(case))
        if not found.unresolved
        else Fix(text=what),
        everywhere=True,
        slip=True,
    )


def mend(case: Case, found: Flag, near: str | None, misspelt: bool) -> Fix:
    """The option that was meant, where it can hardly be another; else the option taken away."""
    if near is None:
        return drop_fix(case, found, f"Remove {found.raw}.")
    what = f"Use {near} if that is meant."
    if misspelt and found.origin != "env":
        return rename_fix(case, found, near, what, safe=False)
    return Fix(text=what)


def nearest_option(case: Case, word: str) -> str | None:
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
