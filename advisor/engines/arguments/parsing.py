"""Checks arguments as the release's own parser would, from its catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.domain.nouns import AdvisorError, Flag
from advisor.domain.patterns import lazy_re
from advisor.engines.base import Option
from advisor.engines.catalogue import Catalogue
from advisor.engines.writer import ITEM

_HUMAN = lazy_re(r"(\d+(?:\.\d+)?[kKmMgGtT]?|-1)$")
Check = Callable[[str, str, str], "str | None"]


def problems(catalogue: Catalogue, flag: Flag, version: str, check: Check) -> list[str]:
    """What the release's parser would refuse of a flag as it was read, one sentence each."""
    match = catalogue.match(flag.raw, version)
    if match is not None and match.option.removed:
        return [f"{flag.raw} has been removed from {catalogue.engine} {version}"]
    if match is None or not flag.known:
        return [_unknown(catalogue, flag.raw, version)]
    option = match.option
    if not match.dotted and option.takes_value is False:
        return [f"{flag.raw} takes no value"] if flag.value not in (None, "false") else []
    if flag.value is None:
        optional = match.dotted or option.takes_value is None
        return [] if optional else [f"{flag.raw} expects a value"]
    values = ITEM.findall(flag.value) if option.many else [flag.value]
    wrong = [] if match.dotted else [line for value in values for line in _value(option, value)]
    return [*wrong, *(line for value in values if (line := check(flag.name, value, version)))]


def _unknown(catalogue: Catalogue, name: str, version: str) -> str:
    prefix = catalogue.style == "argparse" and name.startswith("--")
    several = catalogue.candidates(name, version) if prefix else []
    if len(several) > 1:
        return f"{name} is ambiguous in {catalogue.engine} {version}: {', '.join(several[:4])}"
    return f"{catalogue.engine} {version} does not know {name}"


def _value(option: Option, value: str) -> list[str]:
    """Type and choice errors of one value."""
    wrong = None
    kind = option.type
    if option.choices and option.name != "--spec-type":
        if value not in option.choices and not _same_number(value, option.choices):
            wrong = f"not one of {', '.join(option.choices[:8])}"
    elif kind == "int" and option.default == "auto" and value in ("auto", "all"):
        pass  # layer counts (-ngl) also take these words
    elif (kind == "int" and not _is(int, value) and not _is(float, value)) or (
        kind.startswith("human_readable_int")
        and not _HUMAN.match(value)
        and not (kind.endswith("auto") and value == "auto")
    ):
        wrong = "not an integer"
    elif kind == "float" and not _is(float, value):
        wrong = "not a number"
    return [f"{option.name} {value}: {wrong}"] if wrong else []


def _same_number(value: str, choices: Sequence[str]) -> bool:
    return _is(float, value) and any(
        _is(float, choice) and float(choice) == float(value) for choice in choices
    )


def _is(kind: Callable[[str], object], value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def refuse_unknown(catalogue: Catalogue, flags: Sequence[Flag], version: str | None) -> None:
    """Raise AdvisorError for an option, or a listed value of one, that the release lacks."""
    plugged = any(flag.name.endswith("-parser-plugin") for flag in flags)
    for flag in flags:
        option = catalogue.find(flag.name, version)
        if option is None or option.removed:
            known = [v for v in catalogue.versions if catalogue.find(flag.name, v) is not None]
            since = f"it is known from {known[0]}" if known else "no catalogued release has it"
            raise AdvisorError(
                f"{catalogue.engine} {version or catalogue.newest} has no {flag.name}: {since}"
            )
        listed = () if plugged else option.values or ()
        if listed and flag.value is not None and flag.value not in listed:
            raise AdvisorError(
                f"{catalogue.engine} {version or catalogue.newest} has no '{flag.value}' for "
                f"{flag.name}: "
                f"it has {', '.join(listed)}"
            )
