r"""Words for a POSIX shell: what a terminal does not draw stands as `\x1b` in `$'...'`."""

import shlex
from collections.abc import Iterable

from advisor.domain.printable import printable_lines


def shell_word(text: str) -> str:
    """One word, quoted where it has to be."""
    if printable_lines(text) == text:
        return shlex.quote(text)
    path = all(not "\ud800" <= ch <= "\udfff" or "\udc80" <= ch <= "\udcff" for ch in text)
    data = text.encode("utf-8", "surrogateescape" if path else "replace")
    return "$'" + "".join(map(_escape, data)) + "'"


def shell_words(words: Iterable[str]) -> str:
    """The words of a command, as `shlex.join`."""
    return " ".join(map(shell_word, words))


def is_utf8(text: str) -> bool:
    """Whether a text can be written to a file in UTF-8: a path of other bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escape(byte: int) -> str:
    ch = chr(byte)
    if ch in "\\'":
        return f"\\{ch}"
    return ch if " " <= ch <= "~" else f"\\x{byte:02x}"
