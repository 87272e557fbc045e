"""The texts of HashiCorp's language: quoted ones with escapes and `${...}`, and here-documents."""

from __future__ import annotations

import re

from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN
from advisor.readers.syntax.yamlnodes import Node

_QUOTED = Lazy(r'"((?:\\.|\$\{[^{}\n]*\}|[^"\\\n])*)"?')
_HEREDOC = Lazy(r"<<(-?)([A-Za-z_]\w*)[ \t]*\r?\n")
_EXPRESSION = Lazy(r"(?<!\$)\$\{([^{}\n]*)\}")
# the same in a script, where `${NAME}` may be the shell's
COMPUTED = Lazy(r"(?<!\$)\$\{(?![A-Za-z_]\w*\})([^{}\n]*)\}")
_REFERENCE = Lazy(r"\s*((?:local|var)\.[\w-]+)\s*")
_ESCAPE = Lazy(r"\\(.)")
MAX_VALUE = 300  # of a local inside a text: texts that hold one another would grow without end
_PLAIN = {"n": "\n", "t": "\t", "r": "\r"}


def with_holes(text: str, expression: Lazy = _EXPRESSION) -> str:
    """The whole text with a hole of the same length for every expression."""
    return expression.sub(lambda one: _hole(one.group()), text)


def quoted(text: str, at: int, known: dict[str, Node], parsed: str) -> tuple[Node, int]:
    """The quoted text at an index, and the index behind it. An expression that the file does not
    answer is a hole.

    `parsed` is the file's text with holes, by which the characters around them are found again.
    """
    node = Node("scalar", at)
    found = _QUOTED.match(text, at)
    if found is None:
        return node, at + 1
    raw, end = found.group(1), found.end()
    filled = _EXPRESSION.sub(lambda one: _value(one, known), raw)
    node.text = _ESCAPE.sub(lambda one: _PLAIN.get(one.group(1), one.group(1)), filled)
    if filled == raw:
        node.style, node.end = '"', end
    elif not any(one for one in _EXPRESSION.finditer(raw) if _known(one, known) is not None):
        node.style, node.end, node.parsed = '"', end, parsed
    else:
        node.style, node.end = None, at  # put together: it stands nowhere as it is
    return node, end


def _known(found: re.Match[str], known: dict[str, Node]) -> str | None:
    name = _REFERENCE.fullmatch(found.group(1))
    value = known.get(name.group(1)) if name is not None else None
    known_text = value.text if value is not None and value.kind == "scalar" else HOLE_OPEN
    return None if HOLE_OPEN in known_text or len(known_text) > MAX_VALUE else known_text


def _value(found: re.Match[str], known: dict[str, Node]) -> str:
    """The file's own value, else a hole of the same length: every other character stays in its
    place.
    """
    value = _known(found, known)
    return value if value is not None else _hole(found.group())


def _hole(expression: str) -> str:
    return HOLE_OPEN + hole_name(expression[1:-1]) + HOLE_CLOSE


def hole_name(expression: str) -> str:
    return re.sub(r"[^\w.]", "_", expression)


def heredoc(text: str, at: int, scripts: str) -> tuple[Node, int] | None:
    """The here-document that begins at an index, and the index behind its end. `scripts`: the
    file's text with a hole for every expression that no shell would take for a variable of its
    own.
    """
    found = _HEREDOC.match(text, at)
    if found is None:
        return None
    close = re.compile(rf"^[ \t]*{found.group(2)}[ \t]*\r?$", re.M).search(text, found.end())
    end = close.start() if close else len(text)
    node = Node("scalar", found.end())
    node.text, node.end, node.parsed = scripts[found.end() : end], end, scripts
    return node, close.end() if close else len(text)
