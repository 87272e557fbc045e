"""Plain data and words in the syntax of the files that are written: block YAML, in which every
string is double-quoted, and systemd's unit files, which Podman's Quadlet shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters, digits
from textwrap import wrap
from typing import Any

from advisor.domain.printable import is_plain

_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_COMMENT_WIDTH, _LONGEST = 110, 1000
_RESERVED = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


@dataclass(frozen=True)
class NotedValue:
    """A value with a comment for the line above it."""

    value: Any
    comment: str


def quote(text: str) -> str:
    """A double-quoted YAML scalar; what a YAML reader would refuse or change is escaped."""
    return '"' + "".join(_escape(ch) for ch in text) + '"'


def _is_plain(ch: str) -> bool:
    return ch.isprintable() and is_plain(ch)


def _escape(ch: str) -> str:
    if ch in _SHORT:
        return _SHORT[ch]
    code = ord(ch)
    if _is_plain(ch):
        return ch
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def document(data: Mapping[str, Any], head: Sequence[str] = ()) -> str:
    """A whole document; `head` becomes comment lines at the top."""
    return "\n".join([*(comment(line) for line in head), *_mapping(data, "")]) + "\n"


def comment(text: str, indent: str = "") -> str:
    """Comment lines of which none can end the comment; a text without end is cut."""
    line = " ".join("".join(ch if _is_plain(ch) else " " for ch in text[:_LONGEST]).split())
    wrapped = wrap(line, _COMMENT_WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"{indent}# {part}" for part in wrapped or [""])


def _mapping(data: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, held in data.items():
        lines += _entry(f"{indent}{_key(key)}:", _unwrap(held, lines, indent), indent)
    return lines


def _sequence(items: Sequence[Any], indent: str) -> list[str]:
    lines: list[str] = []
    for held in items:
        value = _unwrap(held, lines, indent)
        if isinstance(value, Mapping) and value:
            first, *rest = _mapping(value, indent + "  ")
            lines += [f"{indent}- {first.strip()}", *rest]
        else:
            lines += _entry(f"{indent}-", value, indent)
    return lines


def _entry(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [head, *_mapping(value, indent + "  ")]
    if isinstance(value, list | tuple) and value:
        return [head, *_sequence(value, indent + "  ")]
    return [f"{head} {_scalar(value)}".rstrip()]


def _unwrap(held: Any, lines: list[str], indent: str) -> Any:
    """The bare value; its comment, if it has one, is written to `lines`."""
    if not isinstance(held, NotedValue):
        return held
    if held.comment:
        lines.append(comment(held.comment, indent))
    return held.value


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    return "{}" if isinstance(value, Mapping) else "[]"


def _key(key: str) -> str:
    """Plain words stay bare; one that YAML reads as something else (yes, null) is quoted."""
    word = key.replace("_", "").replace("-", "")
    plain = word.isascii() and word.isalpha() and key[0] != "-" and key.lower() not in _RESERVED
    return key if plain else quote(key)


_PLAIN = frozenset(ascii_letters + digits + "_./:=,+@-")


def word(text: str, *, dollars: bool = True) -> str:
    """One argument in systemd's quoting; `dollars` where variables are expanded (ExecStart)."""
    if text and set(text) <= _PLAIN:
        return text
    quoted = escape(text).replace("\\", "\\\\").replace('"', '\\"')
    quoted = "".join(
        ch if _is_plain(ch) else "".join(f"\\x{byte:02x}" for byte in ch.encode("utf-8", "replace"))
        for ch in quoted
    )
    return f'"{quoted.replace("$", "$$") if dollars else quoted}"'


def escape(text: str) -> str:
    """Specifiers are off."""
    return text.replace("%", "%%")


def command(units: Sequence[Sequence[str]]) -> str:
    """The words of a command, an option with its values a line."""
    return " \\\n    ".join(" ".join(map(word, unit)) for unit in units if unit)
