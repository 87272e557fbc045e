"""Whether a JSON value is one that a field of a configuration class takes: the classes are pydantic
dataclasses, whose types and limits the catalogue holds by release. Pydantic reads "2" as 2 and
"true" as true; a list, a mapping or another word it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from advisor.domain.patterns import lazy_re

_NONE = lazy_re(r"^Optional\[(.*)\]$")
_LIMIT = lazy_re(r"(Ge|Gt|Le|Lt)\(\w\w=(-?\d+(?:\.\d+)?)\)")
_INT = lazy_re(r"\s*[+-]?\d+(?:\.0*)?\s*")
_FLOAT = lazy_re(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")
_TRUTHS = frozenset(("true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n"))
SPOKEN = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    "dict": "an object",
}


def wrong_type(kind: str, value: Any) -> str | None:
    """What a field of this type takes, where the value is none of it; None where it is, or where
    the type is one that this does not know.
    """
    if found := _NONE.match(kind):
        kind = f"{found[1]} | None"
    kinds = _alternatives(kind)
    if value is None:
        return None if "None" in kinds or len(kinds) > 1 else _in_words(kinds)
    known = [one for one in kinds if one != "None"]
    if not known or any(_family(one) not in SPOKEN for one in known):
        return None
    return None if any(_fits(one, value) for one in known) else _in_words(known)


def _in_words(kinds: Iterable[str]) -> str | None:
    said = [SPOKEN[_family(one)] for one in kinds if _family(one) in SPOKEN]
    return " or ".join(dict.fromkeys(said)) or None


def _family(kind: str) -> str:
    return re.split(r"\W", kind, maxsplit=1)[0]


def _alternatives(kind: str) -> list[str]:
    parts, depth = [""], 0
    for letter in kind:
        depth += (letter in "[(") - (letter in "])")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _fits(kind: str, value: Any) -> bool:
    family = _family(kind)
    if family == "list":
        if not isinstance(value, list):
            return False
        inner = kind[5:-1] if kind.startswith("list[") else ""
        return not inner or all(wrong_type(inner, one) is None for one in value)
    if family == "dict":
        return isinstance(value, dict)
    if isinstance(value, list | dict):
        return False
    if family == "str":
        return isinstance(value, str)
    if family == "bool":
        return (
            isinstance(value, bool)
            or value in (0, 1)
            or (isinstance(value, str) and value.lower() in _TRUTHS)
        )
    if isinstance(value, str):
        return (_INT if family == "int" else _FLOAT).fullmatch(value) is not None
    return family == "float" or isinstance(value, bool) or float(value).is_integer()


def outside(limits: Iterable[str] | None, value: Any) -> str | None:
    """What the limits of a number ask for, where it lies outside them: "at least 1"."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    for limit in limits or ():
        found = _LIMIT.fullmatch(limit)
        if found is None:
            continue
        bound = float(found[2])
        ok, said = {
            "Ge": (number >= bound, "at least"),
            "Gt": (number > bound, "more than"),
            "Le": (number <= bound, "at most"),
            "Lt": (number < bound, "less than"),
        }[found[1]]
        if not ok:
            return f"{said} {bound:g}"
    return None
