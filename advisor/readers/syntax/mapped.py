"""Text that remembers where each of its characters stands in the file that was read.

Readers take text apart many times (YAML scalar, shell word, variable, JSON); a `Mapped` keeps the
file offset of every character through all of it, so that a finding names the right column and a fix
edits the right characters. A variable that the file does not set stands in the text as HOLE_OPEN +
name + HOLE_CLOSE: it is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from advisor.domain.patterns import lazy_re

HOLE_OPEN, HOLE_CLOSE = "\ue000", "\ue001"
HOLE = lazy_re(f"{HOLE_OPEN}[^{HOLE_OPEN}{HOLE_CLOSE}]*{HOLE_CLOSE}")
_NOT_IN_A_NAME = lazy_re(
    f"['\"\\\\{HOLE_OPEN}{HOLE_CLOSE}]"
)  # what would change how the text around a hole is taken apart


class Mapped:
    """`text` and, for each character, its offset in the file (-1: not literally there). Immutable
    by convention.
    """

    __slots__ = ("pos", "text")

    def __init__(self, text: str, pos: Sequence[int]) -> None:
        self.text = text
        self.pos = pos

    def __len__(self) -> int:
        return len(self.text)

    def __repr__(self) -> str:
        return f"Mapped({self.text!r}, {self.span()})"

    def part(self, start: int, end: int) -> Mapped:
        """Return the text from start to end, with its offsets."""
        return Mapped(self.text[start:end], self.pos[start:end])

    def span(self) -> tuple[int, int] | None:
        """Start and end offsets if the text stands in the file as it is, in one piece."""
        pos = self.pos
        if not pos:
            return None
        if isinstance(pos, range):
            return pos.start, pos.stop
        first = pos[0]
        if (
            first < 0
            or pos[-1] - first != len(pos) - 1
            or any(at - first != i for i, at in enumerate(pos))
        ):
            return None
        return first, first + len(pos)

    def first(self) -> int:
        """Offset of the first character that stands in the file, or -1."""
        pos = self.pos
        if isinstance(pos, range):
            return pos.start if pos else -1
        return next((at for at in pos if at >= 0), -1)

    @property
    def has_hole(self) -> bool:
        """Whether the text contains a variable of unknown value."""
        return HOLE_OPEN in self.text

    def display(self) -> str:
        """The text for people: holes as ${NAME}."""
        return show(self.text)


def show(text: str) -> str:
    """Return the text with unknown variables written as `${NAME}`."""
    return text.replace(HOLE_OPEN, "${").replace(HOLE_CLOSE, "}") if HOLE_OPEN in text else text


def literal(text: str, start: int = 0) -> Mapped:
    """Text that stands in the file at `start`."""
    return Mapped(text, range(start, start + len(text)))


def synthetic(text: str, at: int = -1) -> Mapped:
    """Text that does not stand in the file; `at` is where its cause stands (for the line number
    only).
    """
    return Mapped(text, [at] + [-1] * (len(text) - 1) if text else [])


def hole(name: str, at: int = -1) -> Mapped:
    """A variable, or a command's output, whose value is not known: one atom, whatever stands in its
    name.
    """
    name = " ".join(_NOT_IN_A_NAME.sub("", name).split())
    return synthetic(f"{HOLE_OPEN}{name}{HOLE_CLOSE}", at)


EMPTY = Mapped("", range(0))


def join(parts: Iterable[Mapped]) -> Mapped:
    """Concatenation; stays a cheap range where the parts touch in the file."""
    kept = [part for part in parts if part.text]
    if not kept:
        return EMPTY
    if len(kept) == 1:
        return kept[0]
    first, last = kept[0].pos, kept[-1].pos
    text = "".join(part.text for part in kept)
    if (
        isinstance(first, range)
        and isinstance(last, range)
        and last.stop - first.start == len(text)
    ):
        end = first.start
        for part in kept:
            if not isinstance(part.pos, range) or part.pos.start != end:
                break
            end = part.pos.stop
        else:
            return Mapped(text, range(first.start, end))
    pos: list[int] = []
    for part in kept:
        pos.extend(part.pos)
    return Mapped(text, pos)
