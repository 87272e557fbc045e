"""Markdown and reStructuredText: the code blocks of a document, each by its own form."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import literal

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
