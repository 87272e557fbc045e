"""Tables within a text: CSV, also as a spreadsheet saves it again, and Markdown."""

import csv
import re
from collections.abc import Iterator

_DELIMITERS = (",", ";", "\t")
_MOST_LINES = 400  # before the header of a table
_DECIMAL_COMMA = re.compile(r"^-?\d+,\d+$")


def has_table(text: str, needed: set[str]) -> bool:
    """Whether a table with these names in its header is in the text."""
    return _start(text, needed) is not None


def _start(text: str, needed: set[str]) -> tuple[int, str] | None:
    """The line of the header and its delimiter."""
    if not all(name in text for name in needed):
        return None
    for number, line in enumerate(text.splitlines()[:_MOST_LINES]):
        for mark in _DELIMITERS:
            if {cell.strip().strip('"') for cell in line.split(mark)} >= needed:
                return number, mark
    return None


def table_records(text: str, needed: set[str]) -> list[dict[str, str]]:
    """The rows below the header with all `needed` names, by name. Raises csv.Error."""
    start = _start(text, needed)
    if start is None:
        return []
    number, mark = start
    rows = csv.reader(text.splitlines()[number:], delimiter=mark)
    cells = [[plain_cell(cell, mark) for cell in row] for row in rows if any(row)]
    return [dict(zip(cells[0], row, strict=False)) for row in cells[1:]]


def plain_cell(cell: str, mark: str) -> str:
    """A cell of a table with this delimiter, with a point for decimals."""
    cell = cell.strip()
    return cell.replace(",", ".") if mark != "," and _DECIMAL_COMMA.match(cell) else cell


def bare_cell(cell: str) -> str:
    """A cell without marks of bold and code, and commas of thousands; a dash is blank."""
    text = re.sub(r"[*`]", "", cell).strip()
    if re.fullmatch(r"[-\u2013\u2014]|N/A", text):
        return ""
    return re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text)


def pieces(text: str, head: re.Pattern[str]) -> list[tuple[re.Match[str], str]]:
    """Each match with the text from its end to the next."""
    heads = list(head.finditer(text))
    ends = [*(match.start() for match in heads), len(text)][1:]
    return [(match, text[match.end() : end]) for match, end in zip(heads, ends, strict=True)]


def tables_under(text: str, head: re.Pattern[str]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Below each header of a Markdown table: the text to the next, and the rows by name."""
    for match, below in pieces(text, head):
        columns = [cell.strip() for cell in match[0].strip("> |\r").split("|")]
        rows = (
            [bare_cell(cell) for cell in line.strip("> ").strip("|").split("|")]
            for line in below.splitlines()
            if line.strip(" |:->")
        )
        yield below, [dict(zip(columns, r, strict=True)) for r in rows if len(r) == len(columns)]
