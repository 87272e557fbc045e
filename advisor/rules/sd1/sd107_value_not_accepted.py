from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.engines import Option
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flags
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version, lookup_spelling
from advisor.rules.kit.values import (
    AllowedValues,
    allowed_values,
    expected_number,
    leading_digits,
    likely_number,
    matches_choice,
    nearest,
    slip,
)

_WITH_PORT = lazy_re(r"([A-Za-z0-9.-]+):\d{2,5}")
# read with std::stoi, which throws at a word; others take words too, such as --gpu-layers all
COUNTS = (
    "--ctx-size",
    "--parallel",
    "--batch-size",
    "--ubatch-size",
    "--predict",
    "--threads",
    "--port",
    "--spec-draft-n-max",
    "--spec-draft-n-min",
)
# at least 1: vllm/config (Field(ge=1)), sglang server_args.py
POSITIVE = (
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--tp-size",
    "--pp-size",
    "--dp-size",
    "--max-running-requests",
)
LISTS = ("--spec-type",)  # comma lists, judged by SD113 and SD114


@rule(
    severity="error",
    engines=(*CATALOGUED, "ik_llama.cpp"),
    versioned=True,
    sources=("the engines' own parsers and configuration classes, catalogued by release",),
)
def value_not_accepted(case: Case) -> Iterator[Hit]:
    """A value that the option does not take at this release.

    Why: the server refuses to start; the list of values changes between releases.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype nvfp4
    Good (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    """
    version = catalogued_version(case)
    for found in flags(case):
        if not found.known or found.name in LISTS or found.value is None or found.unresolved:
            continue
        option = catalogue(case).find(lookup_spelling(found), version)
        if option is None or not option.takes_value or "." in found.name:
            continue
        hits = (judge(case, found, option) for judge in (with_port, no_number, off_the_list))
        if (hit := next((one for one in hits if one is not None), None)) is not None:
            yield hit


def with_port(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where an address to listen on has a port."""
    told = _WITH_PORT.fullmatch(found.value or "") if found.name == "--host" else None
    if told is None:
        return None
    return Hit(
        f"{found.raw} takes an address without a port, not '{told[0]}'",
        flag=found,
        fix=set_fix(case, found, told[1], f"Write {told[1]}, and the port behind --port."),
        everywhere=True,
        slip=True,
    )


def no_number(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where the option needs a number and the value is none."""
    value = found.value or ""
    if case.plan.engine in GGUF_ENGINES:  # its types are read off its help
        return number_cut_short(case, found, option)
    kind = expected_number(option, value)
    if kind is None and found.name in POSITIVE and value.strip() == "0":
        return Hit(
            f"{found.raw} takes a number above 0",
            flag=found,
            fix=Fix(text=f"Give {found.raw} a number above 0, or leave it out."),
            everywhere=True,
            slip=True,
        )
    if kind is None:
        return None
    wanted = "a number" if kind == "float" else "a whole number"
    near = likely_number(kind, value)
    return Hit(
        f"{found.raw} takes {wanted}, not '{value}'",
        flag=found,
        fix=set_fix(case, found, near, f"Write {near} if that is meant.")
        if near is not None
        else Fix(text=f"Give {found.raw} {wanted}."),
        everywhere=True,
        slip=True,
    )


def number_cut_short(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where llama.cpp reads a part of the value: std::stoi takes 64k for 64."""
    value = found.value or ""
    if found.name in COUNTS and value.isalpha():
        return Hit(
            f"{found.raw} takes a whole number, not '{value}'",
            flag=found,
            fix=Fix(text=f"Give {found.raw} a whole number."),
            everywhere=True,
            slip=True,
        )
    kept, near = leading_digits(value), likely_number("int", value)
    if option.type != "int" or kept is None or near is None or near == kept:
        return None
    return Hit(
        f"llama-server reads '{value}' as {kept}; {near} is meant",
        flag=found,
        fix=set_fix(case, found, near, f"Write {near}."),
        everywhere=True,
        slip=True,
    )


def off_the_list(case: Case, found: Flag, option: Option) -> Hit | None:
    """Return a hit where the option has a list of values and this is not one of them."""
    allowed = allowed_values(case, found, option)
    if allowed is None:
        return None
    words = (found.value or "").split() if option.many else [found.value or ""]
    wrong = next(
        (word for word in words if not matches_choice(word, allowed.here, option.name)), None
    )
    if wrong is None and option.choices and case.plan.engine not in GGUF_ENGINES:
        wrong = next((word for word in words if word not in option.choices), None)  # FP8 for fp8
    if wrong is None:
        return None
    near = nearest(wrong, allowed.here)
    choices = ", ".join(allowed.here[:12]) + (", ..." if len(allowed.here) > 12 else "")
    never = wrong.lower() not in allowed.ever
    misspelt = never and slip(wrong, near)
    if case.plan.engine not in CATALOGUED and not misspelt:
        return None  # a fork without a catalogue of its own
    return Hit(
        f"{found.raw} does not take '{wrong}'"
        + (f"; did you mean {near}?" if near else f"; it takes {choices}"),
        flag=found,
        fix=set_fix(case, found, near, f"Use {near}; it takes {choices}.")
        if near and not option.many
        else Fix(text=f"Use one of {choices}."),
        severity=None if misspelt else "info" if case.launch.fork else weight(allowed),
        versions=f"the newest catalogued release ({catalogue(case).newest})",
        everywhere=never,
        slip=misspelt,
    )


def weight(allowed: AllowedValues) -> Severity | None:
    """A list that plug-ins may add to is no proof of a mistake."""
    return "warning" if allowed.open else None
