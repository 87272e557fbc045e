"""Cells of a measurement table read one by one: numbers, shares, yes or no, release numbers."""

from __future__ import annotations

import math
import re

from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine

NAN = float("nan")
MOST_DRAFTED = sourced(
    256,
    "tokens",
    "Four times the longest measured draft (64, lookups); more is a slip of the pen",
    "chosen",
)


# What people write into a cell that they have no number for
UNKNOWN = {"", "?", "-", "n/a", "na", "none", "null", "unknown", "auto", "default", "nan"}
_TRUE, _FALSE = {"1", "1.0", "on", "true", "yes"}, {"0", "0.0", "off", "false", "no"}


def number(text: object) -> float:
    """A finite float from a cell, else NaN."""
    try:
        value = float(str(text).strip())
    except ValueError:
        return NAN
    return value if math.isfinite(value) else NAN


def positive(text: object) -> float:
    """A number above 0, else NaN."""
    value = number(text)
    return value if value > 0 else NAN


def not_negative(text: object) -> float:
    """Return the number, NaN where it is none or below 0."""
    value = number(text)
    return value if value >= 0 else NAN


def draft_tokens(text: object) -> float:
    """A whole number of drafted tokens, else NaN."""
    value = number(text)
    return value if 0 <= value <= MOST_DRAFTED and value == round(value) else NAN


def at_least_one(text: object) -> float:
    """Return the number, NaN where it is none or below 1."""
    value = number(text)
    return value if value >= 1 else NAN


def boolean(text: object) -> float:
    """Return 1.0 for a true word, 0.0 for a false one, NaN for any other."""
    word = str(text).strip().lower()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else NAN


def fraction(text: object) -> float:
    """Return the number, NaN where it is none or outside 0 to 1."""
    value = number(text)
    return value if 0 <= value <= 1 else NAN


_FIRST_RELEASES, _LATER_RELEASES = sourced(
    (10560.0, 10850.0),
    "llama.cpp build",
    "Builds from which the 0.1, 0.2 and the later tagged releases were cut",
    "assumed",
)


def version_number(engine: str, text: str) -> float:
    """A sortable number from a version text: 0.25.1 -> 2501, b9860 -> 9860, NaN if it does not say.

    llama.cpp counts builds, and since August 2026 releases too: 0.2 is taken as b10560, later ones
    as b10850.
    """
    found = re.match(r"[v~]?(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    if found and not gguf_engine(engine):
        major, minor, patch = (int(part or 0) for part in found.groups())
        return float(major * 10000 + minor * 100 + patch)
    built = re.search(r"\bb(\d{3,6})\b", text)
    if built:
        return float(built.group(1))
    if found and int(found.group(1)) == 0:
        return _FIRST_RELEASES if int(found.group(2)) <= 2 else _LATER_RELEASES
    return NAN


def normal(text: object) -> str:
    """A cell's word: trimmed, in small letters."""
    return str(text or "").strip().lower()
