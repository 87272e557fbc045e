"""Marks that another program replaces before the text is used: `<your-model>`, `{{ model }}`, `${{
inputs.model }}`,
`%(ENV_MODEL)s`, `{model}`, `...`. None of them is a value, so each becomes a hole; where the file
knows the value, that.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import Mapped, hole, join, synthetic

# `cmd <in >out` is a redirection: there the bracket closes after a blank, or with a name behind it
_ANGLE = r"(?<![<&\d])<((?:[A-Za-z]|\d+_)[^<>\n\"'`$|;&(){}\\]{0,60})(?<!\s)>(?!\w|\(|&|/dev/)"
# what is no JSON in doubled braces; blanks and a dash before the end are trimmed from the name
# afterwards
_BRACES = r"\$?\{\{-?[ \t]*([A-Za-z_.$][^{}\n]{0,400})\}\}"
_FOREIGN = lazy_re(f"{_ANGLE}|{_BRACES}")
_LEFT_OPEN = lazy_re(
    rf"{_ANGLE}|{_BRACES}|(?<!\w)__[A-Z][A-Z0-9_]*__(?!\w)|(?<!\$)\{{[A-Za-z_]\w*\}}|%\(\w+\)s|(?<![\w.])\.\.\.(?![\w.])"
)
_PERCENT = lazy_re(r"%\((\w+)\)s|%%")
MAX_TEXT = 100_000  # what the values of one text may come to; those beyond it are not known
_FIELD = lazy_re(r"\{\{|\}\}|\{([A-Za-z_][\w.\[\]]*|\d*)(?:![rsa])?(?::[^{}\n]{0,20})?\}")


def replace_matches(
    text: Mapped, pattern: re.Pattern[str], value: Callable[[re.Match[str], int], Mapped | None]
) -> Mapped:
    """The text with each match replaced by a value, which is asked for the match and its offset in
    the file; None keeps it.
    """
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
    if "<" not in text.text and "{{" not in text.text:
        return text
    return replace_matches(
        text, _FOREIGN, lambda found, at: hole(found.group(1) or found.group(2).rstrip(" \t-"), at)
    )


def left_open(text: str) -> bool:
    """Whether a word still holds a mark that something else is to replace."""
    return (
        any(mark in text for mark in ("<", "{", "%(", "...", "__"))
        and _LEFT_OPEN.search(text) is not None
    )


def fill_supervisor(text: Mapped, known: Callable[[str], Mapped | None]) -> Mapped:
    """supervisord's `%(ENV_NAME)s` and `%%`; `known` gives a variable's value, None where the file
    does not set it.
    """

    def value(found: re.Match[str], at: int) -> Mapped:
        name = found.group(1)
        if name is None:
            return synthetic("%", at)
        given = known(name.removeprefix("ENV_"))
        return hole(name.removeprefix("ENV_"), at) if given is None else given

    return replace_matches(text, _PERCENT, value) if "%" in text.text else text


def fill_format(text: Mapped, values: list[Mapped], named: dict[str, Mapped]) -> Mapped:
    """As Python's `str.format` fills a text: `{name}`, `{0}`, `{}`, and doubled braces for single
    ones.
    """
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
