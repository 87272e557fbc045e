"""What a shell's `$(...)` and here-documents come to, as far as nothing has to run for it."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import Mapped, hole, join, synthetic
from advisor.readers.syntax.scope import Scope, interpolate
from advisor.readers.syntax.words import split_words

_IN_HERE_TEXT = lazy_re(r"\$(\([^()\n]*\))|\\([\\$`\n])")


def output_of(body: Mapped, scope: Scope) -> Mapped | None:
    """What `$(...)` prints, for echo, printf '%s' and a here-document through cat; None if not
    known.
    """
    text = body.text.strip()
    if text.startswith("cat <<"):
        found = re.match(
            r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[^\n]*\n(.*?)\n[ \t]*\2\s*$", body.text, re.S
        )
        if found:
            inside = body.part(found.start(3), found.end(3))
            return inside if found.group(1) else here_text(inside, scope)
    found = re.match(r"\s*(echo(?:\s+-[neE]+)?|printf(?:\s+--)?)\s+(.*)$", body.text, re.S)
    if not found or re.search(
        r"[|;&<>]", re.sub(r"'[^']*'|\"(?:\\.|[^\"])*\"", "", found.group(2))
    ):
        return None
    words = split_words(body.part(found.start(2), len(body.text.rstrip())), scope)
    if found.group(1).startswith("echo"):
        return join([part for word in words for part in (synthetic(" "), word)][1:])
    return _printf(words) if words else None


def here_text(text: Mapped, scope: Scope) -> Mapped:
    r"""An unquoted here-document: variables, `\\`, `\$` and joined lines; what a substitution
    prints is not known.
    """
    parts: list[Mapped] = []
    done = 0
    for found in _IN_HERE_TEXT.finditer(text.text):
        parts.append(interpolate(text.part(done, found.start()), scope))
        done = found.end()
        if found.group(1) is not None:
            parts.append(hole(found.group(1)[:40], text.pos[found.start()]))
        elif found.group(2) != "\n":
            parts.append(text.part(done - 1, done))
    return join((*parts, interpolate(text.part(done, len(text)), scope)))


def _printf(words: list[Mapped]) -> Mapped | None:
    """What printf prints for %s and %d; None for other formats."""
    parts: list[Mapped] = []
    left = words[1:]
    done = 0
    for found in re.finditer(r"%(.)|\\n", words[0].text):
        parts.append(words[0].part(done, found.start()))
        done = found.end()
        if found.group(1) in ("s", "d", "i"):
            parts += left[:1]
            left = left[1:]
        elif found.group(1) == "%":
            parts.append(synthetic("%"))
        elif found.group(1) is not None:
            return None
    return join((*parts, words[0].part(done, len(words[0]))))
