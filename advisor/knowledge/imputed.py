"""Values for what a question does not say: numbers, and choices in order of preference."""

from functools import cache
from typing import Any

from advisor.domain.nouns import Hardware
from advisor.knowledge.names import architecture_among
from advisor.knowledge.store import index


@cache
def table(name: str, quantity: str | None = None) -> dict[str, float]:
    """Values by word of one table."""
    entries: dict[str, Any] = index()["imputation"][name]
    if quantity is None:
        return {word: float(entry["value"]) for word, entry in entries.items()}
    return {
        word: float(entry[quantity]["value"])
        for word, entry in entries.items()
        if quantity in entry
    }


@cache
def architecture(name: str) -> str:
    """The entry of an accelerator's architecture: sm_90a is sm_90, gfx1151 gfx11, xe2 intel."""
    return architecture_among(index()["imputation"]["architectures"], name)


def first_row(table: str, facts: dict[str, str]) -> dict[str, Any]:
    """The first row of a table of defaults (quant, engine, between ...) that fits these words."""
    rows: list[dict[str, Any]] = index()["defaults"][table]
    # the last row has no condition
    return next(row for row in rows if _matches(row["when"], facts))


def hardware_words(hw: Hardware) -> dict[str, str]:
    """What the conditions ask of the hardware."""
    return {"vendor": hw.vendor, "arch": hw.arch, "hardware_class": hw.hardware_class}


def _matches(when: dict[str, list[str]], facts: dict[str, str]) -> bool:
    pairs = ((name, facts.get(name, ""), allowed) for name, allowed in when.items())
    return all(
        value.startswith(tuple(allowed)) if name == "arch" else value in allowed
        for name, value, allowed in pairs
    )
