"""Tables within a text: CSV as the clients write it or as a spreadsheet saves it again (semicolons
or tabs, commas for decimals), below any lines that a client printed before it; tables drawn with
box characters; tables of `|` whose header has several rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

_DELIMITERS = (",", ";", "\t")
_MOST_LINES = 400  # before the header of a table
_DECIMAL_COMMA = re.compile(r"^-?\d+,\d+$")
_HEADER_ROWS = 3
_MOST_HEAD = 8  # lines above a rule among which the header is: log lines stand between its rows
_MOST_NAME = 200  # characters of a cell that goes on over lines
_RULE = re.compile(r"[|: -]+")
_BORDER = re.compile(r"\|?={3,}(?:\|={3,})*\|?")
_BOX = str.maketrans("┃│║", "|||")
Name = tuple[str, ...]


def has_table(text: str, needed: set[str]) -> bool:
    """Whether a table with these names in its header is in the text."""
    return _start(text, needed) is not None


def table_cells(text: str, needed: set[str]) -> list[list[str]]:
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
    return [[plain_cell(cell, mark) for cell in row] for row in rows if any(row)]


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
    """The same as one dictionary a row, by the header's names; short rows lack their last cells."""
    rows = table_cells(text, needed)
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]] if rows else []


def plain_cell(cell: str, mark: str) -> str:
    """A cell of a table with this delimiter, with a point for decimals."""
    cell = cell.strip()
    if mark != "," and _DECIMAL_COMMA.match(cell):
        return cell.replace(",", ".")
    return cell


def box_rows(text: str) -> Iterator[list[str]]:
    """The rows of all tables that are drawn with box characters, cells stripped; what a cell
    continues on the next line (where all others are blank) is joined to it.
    """
    last: list[str] | None = None
    for line in text.splitlines():
        bare = line.strip(" \t>").translate(_BOX)
        if not bare.startswith("|") or not bare.endswith("|") or "|" not in bare[1:-1]:
            if last is not None:
                yield last
            last = None
            continue
        cells = [cell.strip() for cell in bare[1:-1].split("|")]
        goes_on = last is not None and len(cells) == len(last) and len(last[0]) < _MOST_NAME
        if last is not None and goes_on and cells[0] and not any(cells[1:]):
            last = [f"{last[0]} {cells[0]}", *last[1:]]
            continue
        if last is not None:
            yield last
        last = cells
    if last is not None:
        yield last


def grid_tables(text: str) -> Iterator[list[dict[Name, str]]]:
    """The tables of `|`: up to three header rows, a rule, rows of as many cells. A column's name is
    what stands above each other, in lower case; a cell without even a space continues the one to
    its left.
    """
    header: list[list[str]] = []
    columns: list[Name] = []
    rows: list[dict[Name, str]] = []
    for line in [*(full.strip(" \t>") for full in text.splitlines()), ""]:
        cells = _grid_cells(line) if "|" in line and not _BORDER.fullmatch(line) else []
        if header and cells and "-" in line and _RULE.fullmatch(line):
            above = [row for row in header if len(row) == len(cells)]  # not a log line between them
            columns, header = _header_names(above[-_HEADER_ROWS:]) if above else [], []
        elif columns and len(cells) == len(columns):
            rows.append(dict(zip(columns, (cell.strip() for cell in cells), strict=True)))
        elif not (columns and cells):
            if rows:
                yield rows
            columns, rows = [], []
            header = [*header, cells][-_MOST_HEAD:] if cells else []


def _grid_cells(line: str) -> list[str]:
    if line.startswith("|"):
        line = line[1:].removesuffix("|")
    return line.split("|")


def _header_names(header: list[list[str]]) -> list[Name]:
    """The name of each column from the rows of a header, blank cells left out."""
    full = []
    for cells in header:
        row: list[str] = []
        for cell in cells:
            row.append(row[-1] if cell == "" and row else cell.strip().lower())
        full.append(row)
    return [tuple(word for word in column if word) for column in zip(*full, strict=True)]


def bare_cell(cell: str) -> str:
    """A cell without the marks of bold or code and without commas between thousands; a dash is
    blank.
    """
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
    """Below each header of a Markdown table: the text down to the next one, and the table's rows by
    the header's names; other lines may stand between them.
    """
    for match, below in pieces(text, head):
        columns = [cell.strip() for cell in match[0].strip("> |\r").split("|")]
        rows = (
            [bare_cell(cell) for cell in line.strip("> ").strip("|").split("|")]
            for line in below.splitlines()
        )
        yield below, [dict(zip(columns, r, strict=True)) for r in rows if len(r) == len(columns)]
