"""Names that a file gives one value: holes of these names are filled with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import HOLE, Mapped, join, literal
from advisor.readers.syntax.words import split_words

if TYPE_CHECKING:
    from advisor.readers.engine_command import EngineCommand

MAX_VALUE, MAX_WORD, MAX_NAMES = 2_000, 20_000, 2_000
# NAME = value, NAME := value, $name = "value", name: value, [string]$name = 'value'
_SET = lazy_re(
    r"^[ \t]{0,99}(?:-[ \t]{1,9})?(?:export[ \t]|let[ \t]|\[\w+\])?[ "
    r"\t]{0,9}\$?(?:env:|script:|global:)?([A-Za-z_]\w*)[ \t]{0,9}"
    r"(\+=|[:?]?=(?!=)|:(?=[ \t]))[ \t]{0,9}([^\n]*)",
    re.M,
)
_ANY = lazy_re(r"(?<![\w-])([A-Za-z_]\w*)[\"']?[ \t]{0,9}(?:[:?+]?=(?!=)|:(?=[ \t]))")
_LITERAL = lazy_re(
    r"(?:\"((?:[^\"`\\\n]|\\(?![\"\\]))*)\"|'([^'\n]*)'|((?:[\w./:@+,=~-]"
    r"|\$[({][^(){}\n]*[)}])+)|(-[^\"'`$(){}\n;#|&]*))"
    r"[ \t]{0,99}[;,]?[ \t]{0,99}(?:(?:#|//)[^\n]*)?$"
)


def set_once(text: str, marked: Callable[[Mapped], Mapped]) -> dict[str, Mapped]:
    """The names that a text sets to one value, and to no other anywhere; `marked` makes holes of
    the
    names that a value names itself.
    """
    text = text[:300_000]
    values: dict[str, Mapped | None] = {}
    elsewhere = Counter(_ANY.findall(text))
    for found in _SET.finditer(text):
        elsewhere[found.group(1)] -= 1
        name, given = found.group(1), found.group(3).rstrip()
        told = _LITERAL.match(given) if len(given) <= MAX_VALUE else None
        value = None
        if told is not None and found.group(2) != "+=" and told.lastindex is not None:
            inner = told[told.lastindex].rstrip()
            if told.lastindex == 3:  # bare: a comma behind it parts it from what follows
                inner = inner.rstrip(",")
            value = marked(literal(inner, found.start(3) + told.start(told.lastindex)))
            if HOLE.fullmatch(value.text) and name in value.text:
                continue  # image: "{{ image }}" is where it is used
        before = values.get(name)
        same = before is not None and value is not None and before.text == value.text
        if len(values) < MAX_NAMES or name in values:
            values[name] = value if name not in values or same else None
    return {
        name: value
        for name, value in values.items()
        if value is not None and value.text and elsewhere[name] <= 0
    }


def fill(found: EngineCommand, values: dict[str, Mapped]) -> None:
    """Put the values where the command, its environment and its image name them."""
    found.words = [one for word in found.words for one in _fill_words(word, values)]
    found.env = {
        name: item
        if item.value is None
        else item._replace(value=fill_templates(item.value, values))
        for name, item in found.env.items()
    }
    if found.around is not None and found.around.image is not None:
        found.around.image = fill_templates(found.around.image, values)


def _fill_words(word: Mapped, values: dict[str, Mapped]) -> list[Mapped]:
    """A value of several options, named where the command takes its arguments, is as many words."""
    text = fill_templates(word, values)
    options = (
        text is not word and HOLE.fullmatch(word.text) is not None and text.text.startswith("-")
    )
    return split_words(text, dollars=False) if options else [text]


def fill_templates(word: Mapped, values: dict[str, Mapped], depth: int = 0) -> Mapped:
    """The word with the values that its templates name."""
    if not word.has_hole or depth > 3 or len(word) > MAX_WORD:
        return word
    parts: list[Mapped] = []
    done = 0
    for hole in HOLE.finditer(word.text):
        # `{ name }` of a template, made harmless; var.name, local.name of Terraform
        name = re.sub(r"^[_.]+|[_.]+$", "", hole.group()[1:-1]).strip()
        value = values.get(re.sub(r"^(?:var|local|vars)\.", "", name))
        if value is not None:
            parts += [word.part(done, hole.start()), fill_templates(value, values, depth + 1)]
            done = hole.end()
    return join((*parts, word.part(done, len(word)))) if done else word
