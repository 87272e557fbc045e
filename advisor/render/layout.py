"""Plain-text layout: wrapping, tables, shell words packed into lines, colour, ASCII fallback."""

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from math import isfinite

from advisor.advice.explore.values import Bound, Within
from advisor.domain.nouns import LaunchText
from advisor.domain.printable import printable_lines
from advisor.domain.shell import shell_word, shell_words
from advisor.engines.writer import write_file

MIN_WIDTH = 40
_SIGNS = "– - — - − - ‑ - × x → -> ≥ >= ≤ <= ≈ ~ ± +- … ... · . • * ‘ ' ’ ' “ \" ” \" µ u"
_SPACES = dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}", " ")
_WORDS = _SIGNS.split()
_ASCII = str.maketrans(dict(zip(_WORDS[::2], _WORDS[1::2], strict=True)) | _SPACES)


class StyledLine(str):
    """A line that carries colour, written after `safe`, so that no other text brings its own."""

    color: str | None = None


def heading(text: str, color: str | None = None) -> StyledLine:
    """A bold line, in a colour if one is named."""
    line = StyledLine(text)
    line.color = color
    return line


class Paper:
    """What is written on: `width` (40 characters or more), colours, more than ASCII."""

    def __init__(self, width: int = 80, color: bool = False, unicode: bool = True) -> None:
        self.width, self.color, self.unicode = max(width, MIN_WIDTH), color, unicode

    def text(self, lines: Iterable[str]) -> str:
        """The lines as text that ends in a line feed: made safe for the output, then styled."""
        done = []
        for line in lines:
            text = safe(line, unicode=self.unicode)
            if self.color and isinstance(line, StyledLine) and text:
                from click import style

                text = style(text, fg=line.color, bold=True)
            done.append(text)
        return "\n".join(done) + "\n"

    def wrap(self, text: str, first: str = "", rest: str | None = None) -> list[str]:
        """Lines of at most `width` characters, indented by `first` and `rest` (None: as first)."""
        return textwrap.wrap(
            " ".join(text.split()),
            self.width,
            initial_indent=first,
            subsequent_indent=" " * len(first) if rest is None else rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]

    def item(self, text: str, sources: Sequence[str] = (), mark: str = "- ") -> list[str]:
        """A list item with its sources in brackets."""
        return self.wrap(text + source_tag(sources), mark)


PAGE = Paper()


def source_tag(sources: Sequence[str]) -> str:
    """Return the sources in brackets, "" where there are none."""
    return f" [{', '.join(sources)}]" if sources else ""


def pack_launch(launch: LaunchText, width: int, indent: str = "  ") -> list[str]:
    """The launch as one shell command, an option never parted from its value and no word broken,
    since a broken quote could not be pasted; before it a command for each file that it names.
    """
    before = [indent + write_file(name, text) for name, text in launch.files.items()]
    units = [f"{name}={shell_word(value)}" for name, value in launch.env.items()]
    units += [shell_words(unit) for unit in option_units(launch.argv)]
    lines: list[str] = []
    line = ""
    for unit in units:
        candidate = f"{line} {unit}" if line else indent + unit
        if line and len(candidate) > width - 2:
            lines.append(f"{line} \\")
            line = indent + "  " + unit
        else:
            line = candidate
    return [*before, *lines, line] if line else before + lines


def pack_command(command: str, width: int, indent: str = "  ") -> list[str]:
    """A simple command packed like a launch; several, or with shell operators, as it is."""
    joined = command.replace("\\\n", " ").strip()
    if set(joined) & set("|&;<>$`#()\n"):
        return [indent + line for line in command.splitlines()]
    return pack_launch(LaunchText(argv=tuple(shlex.split(joined))), width, indent)


def option_units(argv: Sequence[str]) -> list[tuple[str, ...]]:
    """An argument list as the program with its positionals, and each option with its values."""
    units: list[tuple[str, ...]] = []
    for word in argv:
        option = word.startswith("--") or (word[:1] == "-" and word[1:2].isalpha())  # "-1" is none
        if units and not option:
            units[-1] = (*units[-1], word)
        else:
            units.append((word,))
    return units


def safe(text: str, *, unicode: bool = True) -> str:
    """Text fit for a terminal: control characters as escapes; ASCII where that is all it takes."""
    told = printable_lines(text)
    return told if unicode else told.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def number(value: float, digits: int = 3) -> str:
    """A number for people: thousands separated, about `digits` significant digits."""
    if not isfinite(value):
        return "unknown"
    size = abs(value)
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{max(0, digits - len(str(int(size))))}f}"


def percent(ratio: float) -> str:
    """A speed-up as a gain: "+24 %"."""
    return f"{100 * (ratio - 1):+.0f} %"


Rows = list[tuple[str, ...]]


def within_lines(within: Sequence[Within], paper: Paper) -> list[str]:
    """Users within the objectives: a line an arm, and the answer in a sentence."""
    rows: Rows = [("arm", "users", "P", "with 90 %")]
    for one in within:
        chance = f"{one.p:.2f}" if one.p is not None else "-"
        likely = users_words(one.likely, one.likely_bound)
        rows.append((one.words, likely, chance, users_words(one.sure, one.sure_bound)))
    lines = columns(rows, paper)
    for sentence in _within_sentences(within):
        lines += paper.item(sentence)
    return lines


def users_words(count: int | None, bound: Bound) -> str:
    """A count of users; the end of the search is none."""
    if count is not None:
        return number(count)
    return "all tried" if bound == "search" else "0"


def users_size(count: int | None, bound: Bound) -> float:
    """The same to compare arms by: a search without an end beats every count."""
    return float("inf") if bound == "search" else float(count or 0)


def _within_sentences(within: Sequence[Within]) -> list[str]:
    """The answer, and what the counts leave out."""

    def size(one: Within) -> tuple[float, float, int]:
        likely = users_size(one.likely, one.likely_bound)
        return users_size(one.sure, one.sure_bound), likely, -one.k

    best = max(within, key=size)
    others = [one for one in within if one is not best]
    told = "".join(f", {o.words} {users_words(o.sure, o.sure_bound)}" for o in others)
    if best.sure is None and best.sure_bound == "objectives":
        first = "Not even one user is served with 90 %."
    elif best.sure_bound == "search":
        first = f"{best.words} serves users at every load tried with 90 %{told}."
    else:
        first = f"{best.words} serves {number(best.sure or 0)} users with 90 %{told}."
    waits = [f"{one.words}: {number(one.slots)}" for one in within if one.slots is not None]
    if not waits:
        return [first]
    return [
        first,
        f"Beyond its count TPOT holds only because so many run at once ({', '.join(waits)}) and "
        "the others wait: to count those too, give a limit for their wait as well, ttft=...",
    ]


def columns(rows: Sequence[Sequence[str]], paper: Paper, indent: str = "") -> list[str]:
    """Columns of equal width where they fit, the last one of what is left, cells wrapped within."""
    if not rows:
        return []
    count = len(rows[0])
    first = max(len(row[0]) for row in rows)
    whole = paper.width - len(indent) - first - 2 * (count - 1)
    widths = [max(len(row[i]) for row in rows) for i in range(1, count)]
    if sum(widths) > whole:
        widths = [min(width, max(whole // (count - 1), 12)) for width in widths]
    widths[-1] = max(whole - sum(widths[:-1]), 12)
    lines = []
    for row in rows:
        cells = [Paper(width=MIN_WIDTH).wrap(row[0])]
        pairs = zip(row[1:], widths, strict=True)  # long words are cut: nothing here is pasted
        cells += [textwrap.wrap(cell, width) or [""] for cell, width in pairs]
        for at in range(max(len(cell) for cell in cells)):
            parts = [cell[at] if at < len(cell) else "" for cell in cells]
            line = indent + parts[0].ljust(first)
            line += "".join("  " + p.ljust(w) for p, w in zip(parts[1:], widths, strict=True))
            lines.append(line.rstrip())
    return lines
