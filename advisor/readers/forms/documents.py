"""Documents with code in them, each block read by its own form: Markdown and reStructuredText, and
Jupyter notebooks, where `!command` and `%%bash` cells are shell, what is left of all code cells is
one Python program, and the code blocks of the text are read as those of a document. Texts inside
other files too: a here-document, a ConfigMap's value.
"""

from __future__ import annotations

import re

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.engines.traits import gguf_engine
from advisor.readers.dispatch import form_of, reader
from advisor.readers.engine_command import EngineCommand
from advisor.readers.forms.scripts import read_shell
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.source import Source
from advisor.readers.syntax.mapped import (
    HOLE_CLOSE,
    HOLE_OPEN,
    Mapped,
    join,
    literal,
    placeholders_to_holes,
    synthetic,
)
from advisor.readers.syntax.yamlnodes import Node, scalar

_FENCED = lazy_re(r"^([ \t]*)```([\w-]*)[^\n]*\n(.*?)^\1```", re.S | re.M)

_DIRECTIVE = lazy_re(
    r"^([ \t]*)\.\. (?:code|code-block|sourcecode)::[ \t]*([\w-]*)[ \t]*\n(?:\1[ \t]+:[^\n]*\n)*"
    r"((?:\1[ \t]+[^\n]*(?:\n|$)|[ \t]*\n)+)",
    re.M,
)

_LANGUAGES = (
    "toml html xml css js javascript ts typescript jsx tsx go rust c cpp java diff sql mermaid csv"
)

_SUFFIXES = {"powershell": "ps1", "pwsh": "ps1", "posh": "ps1", "batch": "bat", "dotenv": "env"}

_NO_LAUNCH = frozenset(_LANGUAGES.split())  # what no server is started in


def read_markdown(reading: Reading) -> None:
    """The fenced blocks."""
    _read_blocks(reading, "markdown")


def read_rst(reading: Reading) -> None:
    """The code directives."""
    _read_blocks(reading, "rst")


def _read_blocks(reading: Reading, form: str) -> None:
    """Every block that can start a server. They are examples: none runs beside another."""
    text = literal(reading.source.text)
    for found in (_FENCED if form == "markdown" else _DIRECTIVE).finditer(text.text):
        if found.group(2).lower() in _NO_LAUNCH:
            continue
        known = len(reading.found)
        language = found.group(2).lower() or "sh"
        reading.inside(
            text.part(found.start(3), found.end(3)), 1, "x." + _SUFFIXES.get(language, language)
        )
        for one in reading.found[known:]:
            one.form = "document"
        reading.found[known:] = [one for one in reading.found[known:] if not _is_named_only(one)]


_OPTION = lazy_re(r"--?[A-Za-z]")


def _is_named_only(found: EngineCommand) -> bool:
    """Whether a block, such as a diagram or a list of files, names llama-server and nothing that it
    is to do.
    """
    return (
        gguf_engine(found.engine)
        and not found.pairs
        and not any(_OPTION.match(word.text) or word.has_hole for word in found.words)
        and not any(name.startswith("LLAMA_ARG_") for name in found.env)
    )


_SHELL_CELL = lazy_re(r"\s*%%(?:bash|sh|script\b[^\n]*|system)[^\n]*\n")

_FILE_CELL = lazy_re(r"\s*%%writefile[ \t]+(?:-a[ \t]+)?(\S+)[^\n]*\n")

_ASSIGNED = lazy_re(
    r"^([A-Za-z_]\w*)[ \t]*=[ \t]*(?:\"([^\"\\\n]*)\"|'([^'\\\n]*)'|(\d[\d.]*))[ "
    r"\t]*(?:#[^\n]*)?\r?$",
    re.M,
)

_NAMED = lazy_re(
    r"\{([A-Za-z_]\w*)\}"
)  # IPython puts a variable's value there; anything else in braces stays

_LINE = lazy_re(r"^[ \t]*!((?:\\\r?\n|[^\n])*)(?:\n|\Z)|^[ \t]*%%?[A-Za-z][^\n]*(?:\n|\Z)", re.M)


def is_notebook(document: Node) -> bool:
    """Whether the document is a Jupyter notebook."""
    cells = document.get("cells")
    return cells is not None and cells.kind == "seq" and document.get("nbformat") is not None


def read_notebook(document: Node, reading: Reading) -> None:
    """Every code cell in order."""
    cells, program = document.get("cells"), list[Mapped]()
    every = cells.items if cells is not None else []
    texts = [_source(cell, reading) for cell in every if _is(cell, "code")]
    reading.values = _assignments(texts)
    for text in texts:
        if not reading.step():
            break
        if (whole := _SHELL_CELL.match(text.text)) is not None:
            reading.inside(text.part(whole.end(), len(text)), 1, "x.sh")
        elif (whole := _FILE_CELL.match(text.text)) is not None:
            reading.inside(text.part(whole.end(), len(text)), 1, whole.group(1))
        else:
            program += [*_python(text, reading), synthetic("\n")]
    reading.inside(join(program), 1, "x.py")
    for cell in every:
        if _is(cell, "markdown") and reading.step():
            reading.inside(_source(cell, reading), 1, "x.md")


def _is(cell: Node, wanted: str) -> bool:
    kind = cell.get("cell_type")
    return kind is not None and kind.text == wanted


def _assignments(texts: list[Mapped]) -> dict[str, Mapped]:
    """What the cells set to one text or number each, which `!` lines may name."""
    values: dict[str, set[str]] = {}
    for text in texts:
        for found in _ASSIGNED.finditer(text.text):
            values.setdefault(found.group(1), set()).add(
                found.group(2) or found.group(3) or found.group(4) or ""
            )
    return {
        name: synthetic(one)
        for name, given in values.items()
        if len(given) == 1 and (one := next(iter(given)))
    }


def _source(cell: Node, reading: Reading) -> Mapped:
    source = cell.get("source")
    if source is None:
        return synthetic("")
    lines = source.items if source.kind == "seq" else [source]
    text = join([scalar(line, reading.source) for line in lines if line.kind == "scalar"])
    # with gaps in its places no fix edits it: a notebook's text is escaped as JSON, and an edit is
    # not
    return Mapped(text.text, [-1 if number % 2 else at for number, at in enumerate(text.pos)])


def _python(text: Mapped, reading: Reading) -> list[Mapped]:
    """What Python itself runs of a cell; the shell's lines are read on the way, and a `pass` keeps
    their place.
    """
    parts: list[Mapped] = []
    done = 0
    for found in _LINE.finditer(text.text):
        if found.group(1) is not None:
            line = text.part(*found.span(1))
            named = _NAMED.sub(lambda one: f"{HOLE_OPEN}{one.group(1)}{HOLE_CLOSE}", line.text)
            reading.inside(Mapped(named, line.pos), 1, "x.sh")
        indent = len(found.group()) - len(found.group().lstrip(" \t"))
        parts += [text.part(done, found.start() + indent), synthetic("pass\n")]
        done = found.end()
    return [*parts, text.part(done, len(text))]


MAX_TEXT, MAX_DEPTH = 300_000, 4


def read_inside(text: Mapped, reading: Reading, depth: int, name: str = "") -> None:
    """Read a text that stands inside another file; `name` is the file that it would be."""
    if depth > MAX_DEPTH or not reading.step():
        return
    if len(text) > MAX_TEXT:
        reading.note(f"a text of {len(text)} characters is not read", text.first())
        return
    if not (
        ENGINE_TEXT.search(text.text)
        or re.search(r"spec-type|speculative|vllm|sglang|llama|llm_configs", text.text)
    ):
        return
    text = placeholders_to_holes(text)
    form = form_of(name, text.text)
    kept = reading.form
    if form == "script":
        if ENGINE_TEXT.search(text.text):
            read_shell(text, reading, depth)
    else:
        _read_copy(form, text, reading)
    reading.form = kept


def _read_copy(form: str, text: Mapped, reading: Reading) -> None:
    """Read an inner text by a reader that takes whole files, then move what it found to its place
    in this file.
    """
    inner = Reading(Source(text.text, reading.source.name), reading.redactor)
    inner.steps = reading.steps
    try:
        reader(form)(inner)
    except AdvisorError as error:
        reading.note(str(error), text.first())
        return
    reading.steps = inner.steps
    for found in inner.found:
        found.words = [_move(word, text) for word in found.words]
        found.pairs = [
            (_move(key, text), None if value is None else _move(value, text))
            for key, value in found.pairs
        ]
        found.env = {
            name: item._replace(
                value=_move(item.value, text) if item.value is not None else None,
                at=_move_offset(item.at, text),
            )
            for name, item in found.env.items()
        }
        found.at = _move_offset(found.at, text)
        if found.around is not None:
            for name in ("image", "tag"):
                value = getattr(found.around, name)
                setattr(found.around, name, _move(value, text) if value is not None else None)
        reading.add(found)
    for note in inner.notes:
        reading.note(note)
    for slip in inner.slips:
        if slip.span is None:
            continue
        start, end = (_move_offset(at, text) for at in (slip.span.start, slip.span.end - 1))
        whole = end - start == slip.span.end - 1 - slip.span.start
        reading.slip(slip.message, start, end + 1 if whole else None, slip.text, slip.stops)


def _move_offset(at: int, text: Mapped) -> int:
    return text.pos[at] if 0 <= at < len(text.pos) else -1


def _move(word: Mapped, text: Mapped) -> Mapped:
    return Mapped(word.text, [_move_offset(at, text) for at in word.pos])
