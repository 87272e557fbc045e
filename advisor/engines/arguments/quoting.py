"""Words of a launch for a shell: literal text is dead, and a variable that the file does not set
stays one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from advisor.domain.patterns import lazy_re

_VARIABLE = lazy_re(r"\$\{[A-Za-z_]\w*\}")


def join(words: Sequence[str], live: bool) -> str:
    """Shell words; with `live` the one that holds the variable is written so that the shell expands
    it.
    """
    return " ".join(
        _live(word) if live and _VARIABLE.search(word) else shlex.quote(word) for word in words
    )


def write_file(name: str, text: str) -> str:
    """The shell command that writes a small file of whole lines."""
    lines = " ".join(shlex.quote(line) for line in text.splitlines())
    return f"printf '%s\\n' {lines} > {shlex.quote(name)}"


def is_live(value: str | None, unresolved: bool) -> bool:
    """Whether a value's only dollar is that of its unset variable.

    Of several dollars nothing tells which ones stood in single quotes, so that all of them stay
    dead; the same for what is no plain variable, and for `!`, which an interactive shell would
    expand.
    """
    if not unresolved or value is None or value.count("$") != 1 or "!" in value:
        return False
    return _VARIABLE.search(value) is not None


def _live(word: str) -> str:
    return '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'
