"""Texts inside other files: a here-document, a ConfigMap's value, a code block, each by its
form.
"""

from __future__ import annotations

import re

from advisor.domain.nouns import AdvisorError
from advisor.readers.dispatch import form_of, reader
from advisor.readers.forms.scripts import read_shell
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.source import Source
from advisor.readers.syntax.mapped import Mapped, placeholders_to_holes

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
        or re.search(r"spec-type|speculative|vllm|sglang|llama", text.text)
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


def _move_offset(at: int, text: Mapped) -> int:
    return text.pos[at] if 0 <= at < len(text.pos) else -1


def _move(word: Mapped, text: Mapped) -> Mapped:
    return Mapped(word.text, [_move_offset(at, text) for at in word.pos])
