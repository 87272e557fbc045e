"""How a noun of a Plan stands on a command line: the text of an option to a value, and back."""

import math
import re
from collections.abc import Callable
from typing import Any

from advisor.domain.nouns import Flag
from advisor.domain.question import LIMITS
from advisor.domain.records import NamedTuple

Value = Any
Nouns = dict[str, Value]  # fields of a plan
Extras = list[tuple[str, str | None]]
Bounds = tuple[float, float]

# What a plan holds of a number. Beyond it no server starts, and none of what is computed from a
# plan has to ask again: nothing divides by zero, overflows or counts for minutes.
RANKS: Bounds = LIMITS["gpus"]
COUNT: Bounds = (1, 2**31 - 1)  # the engines' own counts are integers of 32 bits
DEPTH: Bounds = (0, COUNT[1])
SHARE: Bounds = (math.ulp(0.0), 1.0)


class Field(NamedTuple):
    """How one noun of a Plan stands on the command line."""

    noun: str
    parse: Callable[[str | None], Value]  # raises ValueError if the text has no such value
    write: Callable[[Value], str | None] = str
    skip: Value = None  # a value that is not written (tp 1)
    bounds: Bounds | None = None  # of a number

    def read(self, value: str | None) -> Value:
        """The noun's value. Raises ValueError if the text has none, or none that a plan holds."""
        parsed = self.parse(value)
        if self.bounds is not None and not within(parsed, self.bounds):
            raise ValueError(value)
        return parsed


def within(value: float, bounds: Bounds) -> bool:
    """Whether a number lies within the bounds, both included; nan lies nowhere."""
    return bounds[0] <= value <= bounds[1]


def text(value: str | None) -> str:
    """Return the value. Raises ValueError where there is none."""
    if value is None:
        raise ValueError("no value")
    return value


def integer(value: str | None) -> int:
    """Return the value as an int. Raises ValueError where it is none."""
    return int(text(value))


def human_integer(value: str | None) -> int:
    """128k is 128000, 128K is 131072, 1.5m is 1500000: as vLLM reads them."""
    parsed = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text(value).strip())
    if parsed is None:
        raise ValueError(value)
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}[
        parsed[2]
    ]
    whole, _, part = parsed[1].partition(".")
    return int(scale * int(whole + part) // 10 ** len(part))


def number(value: str | None) -> float:
    """Return the value as a float. Raises ValueError where it is none."""
    return float(text(value))


def switch(value: str | None) -> bool:
    """Return True for a switch that is on. Raises ValueError where the switch has a value."""
    if value not in (None, "false"):
        raise ValueError(value)
    return value is None


def write_switch(value: bool) -> str | None:
    """Return the flag's value for a switch: None for on, "false" for off."""
    return None if value else "false"


def write_number(value: float) -> str:
    """Return the shortest text of the number."""
    return f"{value:g}"


def flag_of(name: str, value: str | None) -> Flag:
    """An option as it is written under its canonical name."""
    return Flag(name=name, raw=name, value=value)


def last(extra: Extras, name: str) -> str | None:
    """The value that counts where an option stands several times."""
    return next(
        (value for key, value in reversed(extra) if key == name and value is not None), None
    )


def drop(extra: Extras, *names: str) -> None:
    """Take options out of `extra`, in place."""
    extra[:] = [row for row in extra if row[0] not in names]


def drop_if(extra: Extras, name: str, test: Callable[[str | None], bool]) -> None:
    """Take an option out of `extra` where its last value passes the test."""
    rows = [value for key, value in extra if key == name]
    if rows and test(rows[-1]):
        drop(extra, name)


def whole(value: str | None) -> int | None:
    """A whole number, or None where the text is none, or one that no server counts to."""
    try:
        parsed = int(value) if value is not None else None
    except ValueError:
        return None
    return parsed if parsed is None or abs(parsed) <= COUNT[1] else None


def depth(value: str | None) -> int | None:
    """A number of draft tokens, or None where the text is none."""
    parsed = whole(value)
    return parsed if parsed is None or parsed >= DEPTH[0] else None
