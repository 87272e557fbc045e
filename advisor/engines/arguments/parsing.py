"""Checks arguments as the release's own parser would, from its catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.domain.nouns import AdvisorError, Flag
from advisor.domain.patterns import lazy_re
from advisor.engines.base import Match, Option
from advisor.engines.catalogue import Catalogue

_NEGATIVE = lazy_re(r"-\d+$|-\d*\.\d+$")
_HUMAN = lazy_re(r"(\d+(?:\.\d+)?[kKmMgGtT]?|-1)$")
Check = Callable[[str, str, str], "str | None"]


def problems(
    catalogue: Catalogue, args: Sequence[str], version: str, check: Check
) -> tuple[str, ...]:
    """What the parser would refuse, one sentence each. `args` come without the program's name."""
    return tuple(
        (_llama if catalogue.style == "llama" else _argparse)(catalogue, args, version, check)
    )


def _looks_like_flag(arg: str) -> bool:
    return len(arg) > 1 and arg.startswith("-") and not _NEGATIVE.match(arg) and " " not in arg


def _argparse(catalogue: Catalogue, args: Sequence[str], version: str, check: Check) -> list[str]:
    found: list[str] = []
    at, positionals = 0, 0
    while at < len(args):
        arg = args[at]
        at += 1
        if not _looks_like_flag(arg):
            positionals += 1
            continue
        name, equals, inline = arg.partition("=")
        match = catalogue.match(name, version)
        if match is None:
            found.append(_unknown(catalogue, name, version))
            while at < len(args) and not _looks_like_flag(args[at]):
                at += 1
            continue
        values, at = _values(args, at, match, inline if equals else None)
        found += _match_problems(match, name, bool(equals), values)
        key = match.option.name + (f".{match.dotted}" if match.dotted else "")
        found += [wrong for wrong in (check(key, value, version) for value in values) if wrong]
    if positionals > (1 if catalogue.engine == "vllm" else 0):
        found.append(f"{positionals} positional arguments")
    return found


def _values(
    args: Sequence[str], at: int, match: Match, inline: str | None
) -> tuple[list[str], int]:
    """(the values that belong to an option, where to go on)."""
    if inline is not None:
        return [inline], at
    single = 0 if match.option.takes_value is False and not match.dotted else 1
    limit = len(args) if match.option.many else min(at + single, len(args))
    stop = at
    while stop < limit and not _looks_like_flag(args[stop]):
        stop += 1
    return list(args[at:stop]), stop


def _match_problems(match: Match, name: str, inline: bool, values: Sequence[str]) -> list[str]:
    if match.dotted:
        return []
    if match.option.takes_value is False and inline:
        return [f"{name} takes no value"]
    if match.option.takes_value is True and not values:
        return [f"{name} expects a value"]
    return [problem for value in values for problem in _value(match.option, value)]


def _llama(catalogue: Catalogue, args: Sequence[str], version: str, check: Check) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(args):
        name = args[at]
        at += 1
        match = catalogue.match(name, version) if name.startswith("-") else None
        if match is None:
            found.append(_unknown(catalogue, name, version))
            while at < len(args) and not args[at].startswith("-"):
                at += 1
            continue
        if match.option.removed:
            found.append(f"{name} has been removed from {catalogue.engine} {version}")
        if match.option.takes_value is False:
            continue
        if at >= len(args):
            found.append(f"{name} expects a value")
            continue
        found += _value(match.option, args[at])
        wrong = check(match.option.name, args[at], version)
        if wrong:
            found.append(wrong)
        at += 1
    return found


def _unknown(catalogue: Catalogue, name: str, version: str) -> str:
    several = (
        catalogue.candidates(name, version)
        if catalogue.style == "argparse" and name.startswith("--")
        else []
    )
    if len(several) > 1:
        return f"{name} is ambiguous in {catalogue.engine} {version}: {', '.join(several[:4])}"
    return f"{catalogue.engine} {version} does not know {name}"


def _value(option: Option, value: str) -> list[str]:
    """Type and choice errors of one value."""
    if option.takes_value is False:
        return []
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
