"""Opens what the user names, with guards; offsets count characters without the byte-order mark."""

import re
from bisect import bisect_right
from functools import cached_property

from advisor.domain.files import UnusableFile, number_problem, read_bytes_safely, too_large
from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import printable
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN

MAX_BYTES = 5_000_000
_CONTROL = lazy_re(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HOLES = lazy_re(f"[{HOLE_OPEN}{HOLE_CLOSE}]")


class SourceText:
    """A text with its name, the encoding to write it back in, and its byte-order mark."""

    def __init__(
        self,
        text: str,
        name: str = "-",
        encoding: str = "utf-8",
        bom: bytes = b"",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.text, self.name, self.encoding, self.bom, self.notes = text, name, encoding, bom, notes

    @cached_property
    def starts(self) -> list[int]:
        """Offsets at which the lines begin."""
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column from 1; (0, 0) for an offset that is not in the file."""
        if offset < 0:
            return 0, 0
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """A line, counted from 1, without its newline; "" for one that is not there."""
        if not 1 <= line <= len(self.starts):
            return ""
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[self.starts[line - 1] : end].rstrip("\r\n")


def open_source(path: str) -> SourceText:
    """Read a file. Raises AdvisorError for no regular file, a large or binary one."""
    return decode(read_bytes_safely(path, MAX_BYTES), path)


def decode(data: bytes, name: str) -> SourceText:
    """Bytes to text by their marks, else UTF-8 or Latin-1. Raises AdvisorError if binary."""
    if len(data) > MAX_BYTES:
        raise UnusableFile(printable(name), too_large(len(data), MAX_BYTES))
    notes: tuple[str, ...] = ()
    encoding, bom = _encoding_of(data)
    try:
        text = data[len(bom) :].decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8" or _looks_binary(data[:4096]):
            why = "is not text in UTF-8 or UTF-16; save it as UTF-8"
            raise AdvisorError(f"{printable(name)}: {why}") from None
        encoding, text = "latin-1", data.decode("latin-1")
        notes = ("the file is not UTF-8; it was read as Latin-1",)
    head, problem = text[:4096], number_problem(text)
    if "\x00" in text or (_CONTROL.search(head) and _looks_binary(head.encode("utf-8", "replace"))):
        problem = "is a binary file; name a configuration in text form"
    if problem:
        raise AdvisorError(f"{printable(name)}: {problem}")
    return SourceText(_HOLES.sub("?", text), name, encoding, bom, notes)


def _encoding_of(data: bytes) -> tuple[str, bytes]:
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return encoding, mark
    head = data[:512]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if len(head) >= 8 and max(even, odd) > len(head) // 4 and not min(even, odd):
        return "utf-16-be" if even else "utf-16-le", b""
    return "utf-8", b""


_MARKS = {
    b"\xef\xbb\xbf": "utf-8", b"\xff\xfe\x00\x00": "utf-32-le", b"\x00\x00\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be",
}  # fmt: skip


def _looks_binary(head: bytes) -> bool:
    """Control characters that no configuration has: more than one in fifty."""
    return bool(head) and len(_CONTROL.findall(head.decode("latin-1"))) * 50 > len(head)
