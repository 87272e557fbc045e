"""Helm's and Jinja's marks in a YAML text, replaced by text of the same length."""

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN

VANISHED = "\ue002"  # what a control line leaves of itself inside a block of text: nothing
_LINE = lazy_re(r"^([ \t]*)\{\{(?![ \t]*\"\w+\"[ \t]*:)[^\n]*\}\}[ \t]*\r?$", re.M)
_JINJA_LINE = lazy_re(r"^([ \t]*)\{%(?:[^%\n]|%(?!\}))*%\}[ \t]*\r?$", re.M)
_TEMPLATE = lazy_re(r"\$?\{\{(?!\s*\"\w+\"\s*:).*?\}\}")  # no JSON in doubled braces
# a choice between two texts, or a mark around one that may be left out
_STATEMENT = lazy_re(
    r"\{%-?\s*if\b(?:(?!\{%-?\s*endif).){0,300}?\{%-?\s*el(?:se|if)\b.{0,300}?\{%-?\s*endif\s*-?%\}"
    r"|\{%.*?%\}"
)
_CONTROL = lazy_re(
    r"\s*(?:\{%|\{\{-?\s*(?:/\*|\$\w+\s*:?=|(?:if|else|end|range|with|define|block|break"
    r"|continue)\b))"
)
# `key: |`, `- >-`, `- key: |2 # comment`
_HEADER = lazy_re(
    r"([ \t]*(?:-[ \t]+)*)([^\s#][^\n]*?:[ \t]+)?(?:[&!][^\s]*[ \t]+){0,2}([|>])[-+1-9]{0,2}[ "
    r"\t]*(?:[ \t]#[^\n]*)?\r?"
)
MAX_HEADER = 200


def without_templates(text: str) -> str:
    """Template lines vanish or become comments; expressions inside values are holes."""
    text = _JINJA_LINE.sub(_comment, _in_blocks(text))
    return _holes(_LINE.sub(_comment, text))


def _comment(found: re.Match[str]) -> str:
    return found.group(1) + "#" + found.group()[len(found.group(1)) + 1 :]


def _holes(text: str) -> str:
    """Only up to the last end of each line: behind it every begin would look for its end again."""
    lines = text.split("\n")
    for begin, close, pattern in (("{{", "}}", _TEMPLATE), ("{%", "%}", _STATEMENT)):
        for number, line in enumerate(lines):
            end = line.rfind(close) + 2
            if end >= 4 and begin in line:
                lines[number] = pattern.sub(_hole, line[:end]) + line[end:]
    return "\n".join(lines)


def _hole(found: re.Match[str]) -> str:
    said = found.group()
    if said.startswith("{%") and not re.search(r"\bel(se|if)\b", said):
        return VANISHED * len(said)  # what a condition adds is read
    return HOLE_OPEN + re.sub(r"[^\w.]", "_", said[1:-1]) + HOLE_CLOSE


def _in_blocks(text: str) -> str:
    """Take control lines out of `|` and `>` blocks: a comment would end the command."""
    lines = text.split("\n")
    breaks = ["\n"] * len(lines)  # what stands before each line
    alone = [bool(_LINE.fullmatch(line) or _JINJA_LINE.fullmatch(line)) for line in lines]
    below = _indents_below(lines, alone)
    # the indentation that a block's lines exceed (-1: none), where it begins
    block, header, folded, kept = -1, -1, False, 0
    for number, line in enumerate(lines):
        if block >= 0 and alone[number]:
            continues = folded or lines[kept].rstrip(" \t\r").endswith("\\")
            if continues and _indent(line) > block and not _CONTROL.match(line):
                lines[number] = _holes(line)
            elif below[number] > block:  # joined to the line above, where nothing is left of it
                lead = " #" if kept == header and number == kept + 1 else VANISHED * 2
                if breaks[number - 1] and lines[number - 1].endswith("\r"):
                    lines[number - 1] = lines[number - 1][:-1] + (" " if lead == " #" else VANISHED)
                end = "\r" if line.endswith("\r") else ""
                breaks[number] = lead[0]
                lines[number] = lead[1] + VANISHED * (len(line) - len(end) - 1) + end
                continue
        elif block >= 0 and line.strip() and _indent(line) <= block:
            block = -1
        if block < 0 and len(line) < MAX_HEADER and (found := _HEADER.fullmatch(line)) is not None:
            before, key, style = found.groups()
            if key or "-" in before:
                block, folded = len(before) if key else before.rindex("-"), style == ">"
                header = number
        kept = number
    return lines[0] + "".join(map("".join, zip(breaks[1:], lines[1:], strict=True)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _indents_below(lines: list[str], alone: list[bool]) -> list[int]:
    """The indentation of the next line with text, for each line; -1 without one."""
    below = [-1] * len(lines)
    for number in range(len(lines) - 2, -1, -1):
        following = lines[number + 1]
        plain = following.strip() and not alone[number + 1]
        below[number] = _indent(following) if plain else below[number + 1]
    return below
