"""A number of the code with where it comes from."""

from __future__ import annotations

from typing import Literal, TypeVar

Value = TypeVar("Value")
Status = Literal["read", "measured", "derived", "assumed", "chosen"]


def sourced(value: Value, unit: str, source: str, status: Status) -> Value:
    """Return `value` as it is; the rest is for its readers and for tests/package/test_sources.py.
    `unit` is that of every number in it, "" for a pure number. `source` is where it was read or
    measured, or how it follows from such a place. `status` is "read" in a source, "measured" by us,
    "derived" from such numbers, "assumed", or "chosen": a policy that no measurement could
    contradict.
    """
    del unit, source, status
    return value
