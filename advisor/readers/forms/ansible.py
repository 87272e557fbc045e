"""Ansible: what the `vars` of a play say stands in its tasks as `{{ name }}`, which YAML's reader
leaves as a hole.
"""

from __future__ import annotations

import re

from advisor.readers.reading import Found, Reading
from advisor.readers.syntax.mapped import HOLE, Mapped, join
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import Node, scalar, walk

_PLAY = ("hosts", "tasks", "roles", "block", "vars_files")
MAX_VALUE, MAX_WORD = 2_000, 20_000


def play_values(documents: list[Node], reading: Reading) -> dict[str, Mapped]:
    """Names that the plays of a file set to one text each; a name with two values is not known."""
    values: dict[str, Mapped] = {}
    twice: set[str] = set()
    plays = (
        node
        for document in documents
        for node in walk(document)
        if any(node.get(key) is not None for key in _PLAY)
    )
    for play in plays:
        given = play.get("vars")
        for key, value in given.entries() if given is not None else []:
            if value.kind != "scalar" or value.is_null or len(value.text) > MAX_VALUE:
                continue
            known = values.setdefault(key.text, scalar(value, reading.source))
            if known.text != value.text:
                twice.add(key.text)
    return {name: value for name, value in values.items() if name not in twice}


def fill(found: Found, values: dict[str, Mapped]) -> None:
    """Put the values where the command, its environment and its image name them."""
    found.words = [one for word in found.words for one in _filled_words(word, values)]
    found.env = {
        name: item if item.value is None else item._replace(value=filled(item.value, values))
        for name, item in found.env.items()
    }
    if found.around is not None and found.around.image is not None:
        found.around.image = filled(found.around.image, values)


def _filled_words(word: Mapped, values: dict[str, Mapped]) -> list[Mapped]:
    """A value of several options, named where the command takes its arguments, is as many words."""
    text = filled(word, values)
    options = (
        text is not word and HOLE.fullmatch(word.text) is not None and text.text.startswith("-")
    )
    return split_words(text, dollars=False) if options else [text]


def filled(word: Mapped, values: dict[str, Mapped], depth: int = 0) -> Mapped:
    """The word with the values that its templates name."""
    if not word.holed or depth > 3 or len(word) > MAX_WORD:
        return word
    parts: list[Mapped] = []
    done = 0
    for hole in HOLE.finditer(word.text):
        name = re.sub(
            r"^[_.]+|[_.]+$", "", hole.group()[1:-1]
        )  # `{ name }` of the template, made harmless
        value = values.get(name)
        if value is not None:
            parts += [word.part(done, hole.start()), filled(value, values, depth + 1)]
            done = hole.end()
    return join((*parts, word.part(done, len(word)))) if done else word
