"""A file as the readers see it: bounded text, and its JSON where it is JSON or JSON lines.

Raises `Unreadable` in one sentence for what no reader could use: too large, cut off, not text.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.domain.facts import AdvisorError
from advisor.domain.files import read_bytes_safely
from advisor.domain.printable import printable
from advisor.readers.results.parts import plain

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
_JSON_LINE = re.compile(r"^(?:\{\s*\"|\[\s*\{)", re.M)


class Unreadable(AdvisorError):
    """A benchmark file that cannot be read, with the reason in one sentence."""


@dataclass(frozen=True)
class Document:
    """One file. `values` holds its JSON values (one, or one a line); empty where it is no JSON."""

    name: str
    text: str
    sha256: str = ""
    values: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """The JSON values if all are objects, else none."""
        rows = tuple(v for v in self.values if isinstance(v, dict))
        return rows if len(rows) == len(self.values) else ()

    @property
    def object(self) -> dict[str, Any]:
        """The single JSON object of the file, else an empty one."""
        return self.objects[0] if len(self.objects) == 1 else {}


def load(path: Path) -> Document:
    """Read a regular file. Raises Unreadable."""
    name = printable(path.name, 80)
    try:
        data = read_bytes_safely(path, MAX_BYTES)
    except AdvisorError as error:
        raise Unreadable(
            f"{name}: {str(error).removeprefix(f'{printable(str(path))}: ')}"
        ) from None
    return parse(name, data)


def parse(name: str, data: bytes) -> Document:
    """Bytes -> Document. Raises Unreadable where they are no text, or JSON that is cut off or
    broken.
    """
    if not data.strip():
        raise Unreadable(f"{name}: the file is empty")
    try:
        text = plain.text_of(data, MAX_BYTES)
    except ValueError as error:
        raise Unreadable(f"{name}: {error}") from error
    digest = hashlib.sha256(data).hexdigest()
    bare = plain.without_prefixes(text)
    return Document(name, bare, digest, _json_values(name, bare))


def find_inside(doc: Document) -> Document | None:
    """The result within a page or a log: what its code fences hold, else its JSON that starts on a
    line of its own. None where it has neither, or that is broken.
    """
    fenced = plain.in_fences(doc.text) if not doc.values else ""
    found = _JSON_LINE.search(doc.text) if not doc.values else None
    parts = [fenced] if fenced else [doc.text[found.start() :]] if found else []
    for text in parts:
        try:
            return Document(doc.name, text, doc.sha256, _json_values(doc.name, text, tail=True))
        except Unreadable:
            return None
    return None


def _json_values(name: str, text: str, tail: bool = False) -> tuple[Any, ...]:
    """The JSON values of a text that is JSON; `tail` allows other text after them."""
    start = text.lstrip()
    if not start.startswith(("{", "[{", "[\n", "[ ", "[\r")):
        return ()
    if _too_deep(start):
        raise Unreadable(f"{name}: JSON nested deeper than {MAX_DEPTH} levels")
    decoder = json.JSONDecoder()
    values: list[Any] = []
    at = 0
    while at < len(start):
        try:
            value, at = decoder.raw_decode(start, at)
        except (json.JSONDecodeError, RecursionError) as error:
            if tail and values:
                break
            if not values and not start.startswith(('{"', "{\n", "{ ", "{}", "{\r", "[")):
                return ()  # a log line that begins with a brace
            raise Unreadable(f"{name}: {_json_problem(start, error)}") from error
        values.append(value)
        while at < len(start) and start[at] in " \t\r\n":
            at += 1
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], list) else tuple(values)


def _json_problem(text: str, error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "JSON nested too deeply"
    cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
    where = f"line {error.lineno}, column {error.colno}"
    return (
        f"the JSON is cut off at {where}; was the benchmark stopped?"
        if cut
        else f"broken JSON at {where}"
    )


def _too_deep(text: str) -> bool:
    depth = 0
    quoted = escaped = False
    for ch in text:
        if quoted:
            escaped, quoted = (ch == "\\" and not escaped), not (ch == '"' and not escaped)
        elif ch == '"':
            quoted = True
        elif ch in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif ch in "]}":
            depth -= 1
    return False
