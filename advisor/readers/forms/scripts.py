"""Shell scripts and single command lines."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import engine_by_options
from advisor.readers.dispatch import reader
from advisor.readers.engine_command import EngineCommand, Surroundings
from advisor.readers.images import image_comment
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, literal
from advisor.readers.syntax.shell import parse
from advisor.readers.syntax.words import split_words

_SPACED = lazy_re(r"^[ \t]*export[ \t]+([A-Za-z_]\w*)([ \t]+=[ \t]*|=[ \t]+)(?=[\w\"'/$])", re.M)


def read_script(reading: Reading) -> None:
    """A whole file."""
    read_shell(literal(reading.source.text), reading)


def read_shell(text: Mapped, reading: Reading, depth: int = 0) -> None:
    """A script, or a command; `depth` above 0 where it stands inside another text."""
    reading.form = "shell" if "\n" in text.text.strip() else "command"
    around = None
    said = image_comment(text.text)
    if said is not None:
        around = Surroundings(
            image=literal(said[0], said[1]) if not depth else None, kind="comment"
        )
    reading.shell(text, around=around, depth=depth)
    if "export" in text.text:
        _spaced_exports(text, reading)
    if not reading.found and not depth:
        _bare_options(text, reading)
        if not reading.found and parse(text.text).type == "ERROR":
            reader("text")(reading)  # the grammar does not read it


def _spaced_exports(text: Mapped, reading: Reading) -> None:
    """`export NAME = value`: the shell takes `=` and the value for names, and NAME stays unset."""
    for found in _SPACED.finditer(text.text):
        at, end = text.pos[found.start(2)], text.pos[found.end(2) - 1] + 1
        if end - at == found.end(2) - found.start(2):
            said = f"the shell does not set {found.group(1)}: blanks stand around its ="
            reading.slip(said, at, end, "=", stops=False)


def _bare_options(text: Mapped, reading: Reading) -> None:
    """Arguments without a program: told by whose options they are."""
    if len(text) > 20_000 or ("--" not in text.text and " -" not in text.text):
        return
    words = split_words(text, dollars=False)
    engine = engine_by_options(words) if words and words[0].text.startswith("-") else None
    if engine is not None:
        reading.add(EngineCommand(engine, words, {}, words[0].first(), "command"))
