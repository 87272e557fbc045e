r"""Text from outside made fit to be shown: what draws nothing or moves the line becomes a visible
escape such as `\x1b`, and long values are cut.
"""

import json
import re
from typing import Any

from advisor.domain.patterns import lazy_re

LIMIT = 1_000  # characters of one value; a longer one is cut in the middle

# Of what `str.isprintable` lets pass: fillers, joiners and variation selectors, which draw nothing.
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164"
    "\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
# The quick test that most texts pass: everything but plain ASCII, and of that the controls.
_SUSPECT = lazy_re(r"[^\n\x20-\x7e]")
_SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_HIDDEN = lazy_re(f"[{_BLANK}]")
# More marks than any script puts on one letter: they run over the lines above and below.
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_STACKED = lazy_re(f"({_MARK}{{4}}){_MARK}+")
_LINE_ENDS = lazy_re(r"[\t\r\n\v\f\x85\u2028\u2029]+")


def is_plain(ch: str) -> bool:
    """Whether a character is drawn as itself: neither a control nor without width."""
    return (ch.isprintable() or ch in _SPACES) and not _HIDDEN.match(ch)


def printable(text: str, limit: int = LIMIT) -> str:
    """One value for one line, cut in the middle above `limit` characters."""
    return printable_lines(_LINE_ENDS.sub(" ", cut(text, limit)))


def excerpt(value: object, limit: int = 80) -> str:
    """A value in a sentence: one line of at most `limit` characters."""
    return printable(str(value), limit)


def printable_lines(text: str) -> str:
    """A text of several lines: line feeds and tabs stay, what cannot be seen becomes an escape."""
    if not _SUSPECT.search(text):
        return text
    return _SUSPECT.sub(_escape, _STACKED.sub(r"\1", text.replace("\r\n", "\n")))


def _escape(found: re.Match[str]) -> str:
    ch = found.group()
    # \u007f is what JSON takes, too: the one control that `json.dumps` leaves as it is
    return ch if ch == "\t" or is_plain(ch) else "\\u007f" if ch == "\x7f" else ascii(ch)[1:-1]


def cut(text: str, limit: int = LIMIT) -> str:
    """At most `limit` characters, by leaving out the middle."""
    if len(text) <= limit:
        return text
    head = max(0, (limit - 5) * 2 // 3)
    tail = max(0, limit - 5 - head)
    return f"{text[:head]} ... {text[len(text) - tail :]}"


def printable_data(data: Any, limit: int = 100 * LIMIT) -> Any:
    """Plain data (dicts, lists, texts, numbers) with every text in it fit to be shown."""
    if isinstance(data, str):
        return printable_lines(cut(data, limit))
    if isinstance(data, dict):
        return {
            printable(key) if isinstance(key, str) else key: printable_data(value, limit)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [printable_data(item, limit) for item in data]
    return data


def json_text(data: Any) -> str:
    """Indented JSON of plain data, in which nothing stands that a terminal could obey."""
    text = json.dumps(printable_data(data), indent=2, ensure_ascii=False)
    return _SUSPECT.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    ch = found.group()
    return ch if is_plain(ch) else json.dumps(ch)[1:-1] if ch != "\x7f" else "\\u007f"


# What a spreadsheet computes when a cell begins with it; a number such as -1.5 or +3 is none.
_FORMULA = lazy_re(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_NUMBER = lazy_re(
    r"[+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?|[+-]?(?:inf|nan|infinity)", re.I
)


def csv_cell(text: str) -> str:
    """A cell of a CSV that no spreadsheet takes for a formula (a quote is put before it)."""
    text = printable_lines(text)
    if text[:1] not in ("\t", "\r", "\n") and not _FORMULA.match(text):
        return text
    return text if _NUMBER.fullmatch(text.strip()) or text.strip() == "-" else f"'{text}"
