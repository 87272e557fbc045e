"""Text that remembers where each character stands in the file, so that a finding names the right
column and a fix edits the right characters. What the file does not set, and marks that another
program replaces, stand as HOLE_OPEN + name + HOLE_CLOSE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.placeholders import ANGLE, BRACES, DOTTED

HOLE_OPEN, HOLE_CLOSE = "\ue000", "\ue001"
HOLE = lazy_re(f"{HOLE_OPEN}[^{HOLE_OPEN}{HOLE_CLOSE}]*{HOLE_CLOSE}")

# what would change how the text around a hole is taken apart
_NOT_IN_A_NAME = lazy_re(f"['\"\\\\{HOLE_OPEN}{HOLE_CLOSE}]")


class Mapped:
    """`text` and the offset of each character in the file (-1: not there). Never changed."""

    __slots__ = ("pos", "text")

    def __init__(self, text: str, pos: Sequence[int]) -> None:
        self.text = text
        self.pos = pos

    def __len__(self) -> int:
        return len(self.text)

    def part(self, start: int, end: int) -> Mapped:
        """Return the text from start to end, with its offsets."""
        return Mapped(self.text[start:end], self.pos[start:end])

    def span(self) -> tuple[int, int] | None:
        """Start and end offsets if the text stands in the file as it is, in one piece."""
        pos = self.pos
        if isinstance(pos, range):
            return (pos.start, pos.stop) if pos else None
        whole = bool(pos) and pos[0] >= 0 and all(at - pos[0] == i for i, at in enumerate(pos))
        return (pos[0], pos[0] + len(pos)) if whole else None

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
    """Text that is not in the file; `at` is its cause, for the line number only."""
    return Mapped(text, [at] + [-1] * (len(text) - 1) if text else [])


def hole(name: str, at: int = -1) -> Mapped:
    """An unknown variable, or a command's output: one atom, whatever its name holds."""
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
    text = "".join(part.text for part in kept)
    pos: list[int] = []
    end = start = kept[0].first()
    touch = True
    for part in kept:
        touch = touch and isinstance(part.pos, range) and part.pos.start == end
        end = part.pos.stop if isinstance(part.pos, range) else end
    if touch:
        return Mapped(text, range(start, end))
    for part in kept:
        pos.extend(part.pos)
    return Mapped(text, pos)


def joined_lines(text: str, remarks: tuple[str, ...], blanks: bool) -> list[Mapped]:
    """The lines without comments, those that end in a backslash (and `blanks`) joined."""
    lines: list[Mapped] = []
    parts: list[Mapped] = []
    at = 0
    for raw in text.splitlines(keepends=True):
        body = raw.rstrip("\r\n")
        start, at = at, at + len(raw)
        if body.lstrip().startswith(remarks):
            continue
        bare = body.rstrip() if blanks else body
        if bare.endswith("\\"):
            parts += (literal(bare[:-1], start), synthetic(" "))
        else:
            lines.append(join((*parts, literal(body, start))))
            parts = []
    return [*lines, join(parts)] if parts else lines


# `{your model directory}`, which is neither a group of commands nor a list of alternatives
_NAMED = r"(?<![$\w{])\{([A-Za-z][\w-]*,?(?: [\w-]+,?){1,6})\}(?!\})"
_FOREIGN = lazy_re(f"{ANGLE}|{BRACES}|{_NAMED}|{DOTTED}")

MAX_TEXT = 100_000  # what the values of one text may come to; those beyond it are not known


def replace_matches(
    text: Mapped, pattern: re.Pattern[str], value: Callable[[re.Match[str], int], Mapped | None]
) -> Mapped:
    """The text with each match replaced by the value for it; None keeps the match."""
    parts: list[Mapped] = []
    done = size = 0
    for found in pattern.finditer(text.text):
        at = text.pos[found.start()]
        new = value(found, at)
        if new is not None:
            size += len(new)
            parts += [text.part(done, found.start()), new if size < MAX_TEXT else hole("...", at)]
            done = found.end()
    return join((*parts, text.part(done, len(text)))) if done else text


def placeholders_to_holes(text: Mapped) -> Mapped:
    """A shell text whose placeholders (`<name>`) and templates (`{{ name }}`) are holes."""
    if "<" not in text.text and "{" not in text.text:
        return text

    return replace_matches(
        text,
        _FOREIGN,
        lambda found, at: hole(next(filter(None, found.groups())).rstrip(" \t-"), at),
    )


_FIELD = lazy_re(r"\{\{|\}\}|\{([A-Za-z_][\w.\[\]]*|\d*)(?:![rsa])?(?::[^{}\n]{0,20})?\}")


def fill_format(text: Mapped, values: list[Mapped], named: dict[str, Mapped]) -> Mapped:
    """As `str.format`: `{name}`, `{0}`, `{}`, and doubled braces for single ones."""
    left = iter(values)

    def value(found: re.Match[str], at: int) -> Mapped | None:
        name = found.group(1)
        if name is None:
            return synthetic(found.group()[0], at)
        if name == "":
            return next(left, hole("...", at))
        if name.isdigit():
            return values[int(name[:4])] if int(name[:4]) < len(values) else hole(name, at)
        given = named.get(name)
        return hole(name, at) if given is None else given

    return replace_matches(text, _FIELD, value)
