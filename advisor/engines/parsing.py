"""The catalogue's stand-in for a real parser: would this release accept these arguments?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from advisor.engines.base import Option
from advisor.engines.catalogue import Catalogue

_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?[kKmMgGtT]?|-1)$")
Check = Callable[[str, str, str], "str | None"]


def problems(catalogue: Catalogue, args: Sequence[str], version: str, check: Check) -> tuple[str, ...]:
    """What the parser would refuse, one sentence each. `args` come without the program's name."""
    return tuple((_llama if catalogue.style == "llama" else _argparse)(catalogue, args, version, check))


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
        option = match.option
        if equals:
            values = [inline]
        else:
            stop = at
            limit = len(args) if option.many else at + (0 if option.takes_value is False and not match.dotted else 1)
            while stop < min(limit, len(args)) and not _looks_like_flag(args[stop]):
                stop += 1
            values, at = list(args[at:stop]), stop
        if option.takes_value is False and equals and not match.dotted:
            found.append(f"{name} takes no value")
        if option.takes_value is True and not values:
            found.append(f"{name} expects a value")
        if not match.dotted:
            found += [problem for value in values for problem in _value(option, value)]
        for value in values:
            wrong = check(option.name + (f".{match.dotted}" if match.dotted else ""), value, version)
            if wrong:
                found.append(wrong)
    if positionals > (1 if catalogue.engine == "vllm" else 0):
        found.append(f"{positionals} positional arguments")
    return found


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
    several = catalogue.candidates(name, version) if catalogue.style == "argparse" and name.startswith("--") else []
    if len(several) > 1:
        return f"{name} is ambiguous in {catalogue.engine} {version}: {', '.join(several[:4])}"
    return f"{catalogue.engine} {version} does not know {name}"


def _value(option: Option, value: str) -> list[str]:
    """Type and choice errors of one value."""
    if option.takes_value is False:
        return []
    wrong = None
    if option.choices and option.name != "--spec-type":
        wrong = None if value in option.choices or _same_number(value, option.choices) else f"not one of {', '.join(option.choices[:8])}"
    elif option.type == "int" and option.env is None and option.flags and not _is(int, value):
        wrong = "not an integer" if option.type == "int" and not _is(float, value) else None
    elif option.type == "float" and not _is(float, value):
        wrong = "not a number"
    elif option.type == "human_readable_int" and not _HUMAN.match(value):
        wrong = "not an integer"
    elif option.type == "human_readable_int_or_auto" and value != "auto" and not _HUMAN.match(value):
        wrong = "not an integer"
    return [f"{option.name} {value}: {wrong}"] if wrong else []


def _same_number(value: str, choices: Sequence[str]) -> bool:
    return _is(float, value) and any(_is(float, choice) and float(choice) == float(value) for choice in choices)


def _is(kind: Callable[[str], object], value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True
