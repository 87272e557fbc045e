from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.engines import Option
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, nearest, written

LISTS = ("--spec-type",)  # comma lists, judged by SD113 and SD114


@rule(
    severity="error",
    engines=CATALOGUED,
    versioned=True,
    sources=("the engines' own parsers, catalogued by release",),
)
def value_not_accepted(case: Case) -> Iterator[Hit]:
    """A value that the option does not take at this release.

    Why: the server refuses to start; the list of values changes between releases.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype nvfp4
    Good (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    """
    version = catalogued_version(case)
    for found in flags(case):
        option = (
            catalogue(case).find(written(found), version)
            if found.known and found.name not in LISTS
            else None
        )
        allowed = accepted(case, option)
        if (
            option is None
            or not allowed
            or found.value is None
            or found.unresolved
            or not option.takes_value
        ):
            continue
        words = found.value.split() if option.many else [found.value]
        wrong = [word for word in words if not taken(word, allowed, case)]
        if not wrong:
            continue
        near = nearest(wrong[0], allowed)
        choices = ", ".join(allowed[:12]) + (", ..." if len(allowed) > 12 else "")
        yield Hit(
            f"{found.raw} does not take '{wrong[0]}'"
            + (f"; did you mean {near}?" if near else f"; it takes {choices}"),
            flag=found,
            fix=set_fix(case, found, near, f"Use {near}; it takes {choices}.")
            if near and not option.many
            else Fix(text=f"Use one of {choices}."),
            severity="info" if case.launch.fork else None,
            versions=f"the newest catalogued release ({catalogue(case).newest})",
        )


def accepted(case: Case, option: Option | None) -> tuple[str, ...]:
    """The values an option takes: those of its parser, else the names that the release registers,
    to which a plug-in may add.
    """
    if option is None:
        return ()
    plugged = any(flag.name.endswith("-parser-plugin") for flag in flags(case))
    return option.choices or (() if plugged else option.values) or ()


def taken(word: str, choices: tuple[str, ...], case: Case) -> bool:
    """vLLM and llama.cpp fold case and truth words for some options; a difference in case alone is
    not reported.
    """
    truths = {"on", "off", "auto"} & set(choices) and word.lower() in (
        "1",
        "0",
        "true",
        "false",
        "enabled",
        "disabled",
    )
    return word.lower() in {choice.lower() for choice in choices} or bool(truths)
