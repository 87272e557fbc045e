"""Texts inside others: fenced blocks of Markdown, here-documents, values of a ConfigMap."""

import re
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.engines.traits import gguf_engine
from advisor.readers.dispatch import form_of, reader
from advisor.readers.engine_command import EngineCommand, EnvItem
from advisor.readers.forms.scripts import read_shell
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.source import SourceText
from advisor.readers.syntax.mapped import (
    EMPTY,
    Mapped,
    join,
    literal,
    placeholders_to_holes,
    replace_matches,
)

_FENCED = lazy_re(r"^([ \t]*)```([\w-]*)[^\n]*\n(.*?)^\1```", re.S | re.M)
# what is typed in a session, without what is printed; and the sign of a line that goes on
_TYPED = lazy_re(r"^[ \t]*\$[ \t]+((?:[^\n]*\\\r?\n)*[^\n]*\n)", re.M)
_GOES_ON = lazy_re(r"(?<=\n)[ \t]*>[ \t]")
_SUFFIXES = {"powershell": "ps1", "pwsh": "ps1", "posh": "ps1", "batch": "bat", "dotenv": "env"}
# what no server is started in
_OTHERS = "toml html xml css js javascript ts typescript jsx tsx go rust c cpp java diff sql csv"
_NO_LAUNCH = frozenset((*_OTHERS.split(), "mermaid"))


def read_markdown(reading: Reading) -> None:
    """Every fenced block that can start a server. They are examples: none runs beside another."""
    text = replace_matches(  # a page is shown without carriage returns
        literal(reading.source.text), lazy_re(r"\r(?=\n)"), lambda *_: EMPTY
    )
    for found in _FENCED.finditer(text.text):
        known, language = len(reading.found), found[2].lower() or "sh"
        if language in _NO_LAUNCH:
            continue
        block = text.part(*found.span(3))
        if typed := list(_TYPED.finditer(block.text)):
            block = join(block.part(*line.span(1)) for line in typed)
            block = replace_matches(block, _GOES_ON, lambda *_: EMPTY)
        reading.inside(block, 1, "x." + _SUFFIXES.get(language, language))
        for one in reading.found[known:]:
            one.form = "document"
        reading.found[known:] = [one for one in reading.found[known:] if not _is_named_only(one)]


_OPTION = lazy_re(r"--?[A-Za-z]")


def _is_named_only(found: EngineCommand) -> bool:
    """Whether a block names llama-server and nothing that it is to do."""
    return (
        gguf_engine(found.engine)
        and not found.pairs
        and not any(_OPTION.match(word.text) or word.has_hole for word in found.words)
        and not any(name.startswith("LLAMA_ARG_") for name in found.env)
    )


_SIGNS = lazy_re(r"spec-type|speculative|vllm|sglang|llama|llm_configs")
MAX_TEXT, MAX_DEPTH = 300_000, 4


def read_inside(text: Mapped, reading: Reading, depth: int, name: str = "") -> None:
    """Read a text that stands inside another file; `name` is the file that it would be."""
    if depth > MAX_DEPTH or not reading.step():
        return
    if len(text) > MAX_TEXT:
        reading.note(f"a text of {len(text)} characters is not read", text.first(), cut_short=True)
        return
    starts = ENGINE_TEXT.search(text.text) is not None
    if not starts and not _SIGNS.search(text.text):
        return
    text = placeholders_to_holes(text)
    form, kept = form_of(name, text.text), reading.form
    if form != "script":
        _read_copy(form, text, reading)
    elif starts:
        read_shell(text, reading, depth)
    reading.form = kept


def _read_copy(form: str, text: Mapped, reading: Reading) -> None:
    """Read an inner text by a reader of files, and move what it found to its place here."""
    inner = Reading(SourceText(text.text, reading.source.name), reading.redactor)
    inner.steps = reading.steps
    try:
        reader(form)(inner)
    except AdvisorError as error:
        reading.note(str(error), text.first())
        return
    reading.steps = inner.steps

    def offset(at: int) -> int:
        return text.pos[at] if 0 <= at < len(text.pos) else -1

    def move(word: Mapped | None) -> Any:
        return None if word is None else Mapped(word.text, [offset(at) for at in word.pos])

    for found in inner.found:
        found.words = [move(word) for word in found.words]
        found.pairs = [(move(key), move(value)) for key, value in found.pairs]
        moved = ((name, move(item.value), offset(item.at)) for name, item in found.env.items())
        found.env = {name: EnvItem(value, at) for name, value, at in moved}
        found.at = offset(found.at)
        if (around := found.around) is not None:
            around.image, around.tag = move(around.image), move(around.tag)
        reading.add(found)
    for note in inner.notes:
        reading.note(note)
    reading.cut_short = reading.cut_short or inner.cut_short
    for slip in inner.slips:
        if (span := slip.span) is not None:
            start, end = offset(span.start), offset(span.end - 1)
            whole = end - start == span.end - 1 - span.start
            reading.slip(slip.message, start, end + 1 if whole else None, slip.text, slip.stops)
