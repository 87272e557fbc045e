"""Texts inside others: fenced blocks of Markdown, here-documents, values of a ConfigMap."""

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
from advisor.readers.source import SourceText
from advisor.readers.syntax.mapped import (
    Mapped,
    literal,
    placeholders_to_holes,
)

_FENCED = lazy_re(r"^([ \t]*)```([\w-]*)[^\n]*\n(.*?)^\1```", re.S | re.M)


_LANGUAGES = (
    "toml html xml css js javascript ts typescript jsx tsx go rust c cpp java diff sql mermaid csv"
)

_SUFFIXES = {"powershell": "ps1", "pwsh": "ps1", "posh": "ps1", "batch": "bat", "dotenv": "env"}

_NO_LAUNCH = frozenset(_LANGUAGES.split())  # what no server is started in


def read_markdown(reading: Reading) -> None:
    """Every fenced block that can start a server. They are examples: none runs beside another."""
    text = literal(reading.source.text)
    for found in _FENCED.finditer(text.text):
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
    """Whether a block names llama-server and nothing that it is to do."""
    return (
        gguf_engine(found.engine)
        and not found.pairs
        and not any(_OPTION.match(word.text) or word.has_hole for word in found.words)
        and not any(name.startswith("LLAMA_ARG_") for name in found.env)
    )


MAX_TEXT, MAX_DEPTH = 300_000, 4


def read_inside(text: Mapped, reading: Reading, depth: int, name: str = "") -> None:
    """Read a text that stands inside another file; `name` is the file that it would be."""
    if depth > MAX_DEPTH or not reading.step():
        return
    if len(text) > MAX_TEXT:
        reading.note(f"a text of {len(text)} characters is not read", text.first(), cut_short=True)
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
    """Read an inner text by a reader of files, and move what it found to its place here."""
    inner = Reading(SourceText(text.text, reading.source.name), reading.redactor)
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
    reading.cut_short = reading.cut_short or inner.cut_short
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
