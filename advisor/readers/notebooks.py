"""Jupyter notebooks: `!command` and `%%bash` cells are shell, what is left of all code cells is one Python program."""

from __future__ import annotations

import re

from advisor.readers import read_inside
from advisor.readers.lazy import Lazy
from advisor.readers.mapped import Mapped, join, made
from advisor.readers.reading import Reading
from advisor.readers.yamlnodes import Node, scalar

_SHELL_CELL = Lazy(r"\s*%%(?:bash|sh|script\b[^\n]*|system)[^\n]*\n")
_FILE_CELL = Lazy(r"\s*%%writefile[ \t]+(?:-a[ \t]+)?(\S+)[^\n]*\n")
_LINE = Lazy(r"^[ \t]*!((?:\\\r?\n|[^\n])*)(?:\n|\Z)|^[ \t]*%[^\n]*(?:\n|\Z)", re.M)


def is_notebook(document: Node) -> bool:
    cells = document.get("cells")
    return cells is not None and cells.kind == "seq" and document.get("nbformat") is not None


def read_notebook(document: Node, reading: Reading) -> None:
    """Every code cell in order."""
    cells, program = document.get("cells"), list[Mapped]()
    for cell in cells.items if cells is not None else []:
        kind = cell.get("cell_type")
        if kind is None or kind.text != "code" or not reading.step():
            continue
        text = _source(cell, reading)
        if (whole := _SHELL_CELL.match(text.text)) is not None:
            read_inside(text.part(whole.end(), len(text)), reading, 1, "x.sh")
        elif (whole := _FILE_CELL.match(text.text)) is not None:
            read_inside(text.part(whole.end(), len(text)), reading, 1, whole.group(1))
        else:
            program += [*_python(text, reading), made("\n")]
    read_inside(join(program), reading, 1, "x.py")


def _source(cell: Node, reading: Reading) -> Mapped:
    source = cell.get("source")
    if source is None:
        return made("")
    lines = source.items if source.kind == "seq" else [source]
    text = join([scalar(line, reading.source) for line in lines if line.kind == "scalar"])
    # with gaps in its places no fix edits it: a notebook's text is escaped as JSON, and an edit is not
    return Mapped(text.text, [-1 if number % 2 else at for number, at in enumerate(text.pos)])


def _python(text: Mapped, reading: Reading) -> list[Mapped]:
    """What Python itself runs of a cell; the shell's lines are read on the way, and a `pass` keeps their place."""
    parts: list[Mapped] = []
    done = 0
    for found in _LINE.finditer(text.text):
        if found.group(1) is not None:
            read_inside(text.part(*found.span(1)), reading, 1, "x.sh")
        indent = len(found.group()) - len(found.group().lstrip(" \t"))
        parts += [text.part(done, found.start() + indent), made("pass\n")]
        done = found.end()
    return [*parts, text.part(done, len(text))]
