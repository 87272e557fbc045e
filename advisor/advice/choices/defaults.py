"""Rows of knowledge/defaults.yaml: the first whose conditions hold."""

from __future__ import annotations

from typing import Any

from advisor.domain.nouns import Hardware
from advisor.knowledge import store as knowledge

Row = dict[str, Any]
Default = tuple[str, str, str]  # field, value chosen, why


def _matches(when: dict[str, list[str]], facts: dict[str, str]) -> bool:
    for name, allowed in when.items():
        value = facts.get(name, "")
        fits = any(value.startswith(a) for a in allowed) if name == "arch" else value in allowed
        if not fits:
            return False
    return True


def first_row(table: str, facts: dict[str, str]) -> Row:
    """The first row of a table that holds for these words."""
    rows: list[Row] = knowledge.index()["defaults"][table]
    return next(
        row for row in rows if _matches(row["when"], facts)
    )  # the last row has no condition


def hardware_words(hw: Hardware) -> dict[str, str]:
    """What the conditions ask of the hardware."""
    return {"vendor": hw.vendor, "arch": hw.arch, "hardware_class": hw.hardware_class}
