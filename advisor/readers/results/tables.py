"""Tables of text: CSV as the clients write it and as a spreadsheet saves it again (semicolons or
tabs, commas for decimals), below any lines that a client printed before it.
"""

from __future__ import annotations

import csv
import re

_DELIMITERS = (",", ";", "\t")
_MOST_LINES = 400  # before the header
_DECIMAL_COMMA = re.compile(r"^-?\d+,\d+$")


def has(text: str, needed: set[str]) -> bool:
    """Whether a table with these names in its header is in the text."""
    return _start(text, needed) is not None


def cells(text: str, needed: set[str]) -> list[list[str]]:
    """The rows from the header on that has all `needed` names, blank ones left out; none where
    there is no such header.

    Raises
    ------
    csv.Error
        where a row cannot be split
    """
    found = _start(text, needed)
    if found is None:
        return []
    number, mark = found
    rows = csv.reader(text.splitlines()[number:], delimiter=mark)
    return [[_plain(cell, mark) for cell in row] for row in rows if any(row)]


def _start(text: str, needed: set[str]) -> tuple[int, str] | None:
    """The line of the header and its delimiter."""
    if not all(name in text for name in needed):
        return None
    for number, line in enumerate(text.splitlines()[:_MOST_LINES]):
        for mark in _DELIMITERS:
            if {cell.strip().strip('"') for cell in line.split(mark)} >= needed:
                return number, mark
    return None


def records(text: str, needed: set[str]) -> list[dict[str, str]]:
    """The same as one dictionary a row, by the header's names; short rows lack their last cells."""
    rows = cells(text, needed)
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]] if rows else []


def _plain(cell: str, mark: str) -> str:
    cell = cell.strip()
    if mark != "," and _DECIMAL_COMMA.match(cell):
        return cell.replace(",", ".")
    return cell
