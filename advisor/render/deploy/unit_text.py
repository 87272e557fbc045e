"""Words in the syntax of systemd's unit files, which Podman's Quadlet shares.

Specifiers (`%`) are written double everywhere, `$` where systemd would expand variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, digits

_PLAIN = frozenset(ascii_letters + digits + "_./:=,+@-")


def word(text: str, *, dollars: bool = True) -> str:
    """One argument in systemd's quoting; `dollars` where variables would be expanded
    (ExecStart).
    """
    if text and set(text) <= _PLAIN:
        return text
    quoted = escape(text).replace("\\", "\\\\").replace('"', '\\"')
    quoted = "".join(
        ch
        if ch.isprintable()
        else "".join(f"\\x{byte:02x}" for byte in ch.encode("utf-8", "replace"))
        for ch in quoted
    )
    return f'"{quoted.replace("$", "$$") if dollars else quoted}"'


def escape(text: str) -> str:
    """Specifiers are off."""
    return text.replace("%", "%%")


def command(units: Sequence[Sequence[str]]) -> str:
    """The words of a command, an option with its values a line."""
    return " \\\n    ".join(" ".join(map(word, unit)) for unit in units if unit)
