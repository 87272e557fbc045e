"""Conditions of a shell script: true, false, or None where the file does not decide."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

from advisor.readers.syntax.mapped import EMPTY, Mapped
from advisor.readers.syntax.shell_state import ShellState
from advisor.readers.syntax.words import split_words

if TYPE_CHECKING:
    from tree_sitter import Node

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": eq, "-ne": ne, "-gt": gt, "-ge": ge, "-lt": lt, "-le": le,
}  # fmt: skip
_TEXTS = ("=", "==", "!=")
_OR, _AND = ("||", "-o"), ("&&", "-a")  # `or` binds weaker
_NUMBER = re.compile(r"\s*-?\d{1,15}\s*")


def condition(shell: ShellState, node: Node, depth: int = 0) -> bool | None:
    """The truth of a test as far as the file tells; arithmetic is not done."""
    if depth > 30 or not shell.reading.step():
        return None
    if node.type == "negated_command" and node.named_children:
        return _negate(condition(shell, node.named_children[0], depth + 1))
    if node.type == "list":
        parts = [condition(shell, child, depth + 1) for child in node.named_children[:2]]
        return join_verdicts(parts, any(child.type == "||" for child in node.children))
    name = node.child_by_field_name("name")
    if node.type == "command" and name is not None:
        word = shell.text(name).text
        if word == "test":
            return _test(shell.words(node.children_by_field_name("argument")))
        word = shell.value(name).text if word.startswith("$") else word  # if $FLAG; then
        return {"true": True, ":": True, "false": False}.get(word)
    text = shell.text(node)
    if node.type == "test_command" and text.text.startswith("["):
        edge = 2 if text.text.startswith("[[") else 1
        return _test(split_words(text.part(edge, len(text) - edge), shell.scope))
    return None


def _test(words: list[Mapped]) -> bool | None:
    for operators in (_OR, _AND):
        for i, word in enumerate(words):
            if word.text in operators and 0 < i < len(words) - 1:
                return join_verdicts([_test(words[:i]), _test(words[i + 1 :])], operators is _OR)
    texts = [word.text for word in words]
    if texts and (texts[0] in _TEXTS or texts[0] in _NUMBERS):
        return _test([EMPTY, *words])
    if texts[:1] == ["!"]:
        return _negate(_test(words[1:]))
    if len(texts) <= 2 and texts[:1] in (["-n"], ["-z"]):
        filled = _is_filled(words[1:])
        return filled if texts[0] == "-n" else _negate(filled)
    if len(texts) <= 1:
        return _is_filled(words)
    if len(texts) == 3 and not any(word.has_hole for word in words):
        return compare(texts[0], texts[1], texts[2])
    return None


def _is_filled(words: list[Mapped]) -> bool | None:
    return None if any(word.has_hole for word in words) else any(word.text for word in words)


def _negate(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def join_verdicts(verdicts: list[bool | None], decides: bool) -> bool | None:
    """The verdict of an `or`, which one true decides, or of an `and`, which one false does."""
    if decides in verdicts:
        return decides
    return None if None in verdicts else not decides


def compare(left: str, operator: str, right: str) -> bool | None:
    """One comparison of known texts."""
    if operator in _NUMBERS and _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
        return _NUMBERS[operator](int(left), int(right))
    if operator in _TEXTS:
        return (
            fnmatchcase(left[:2000], right[:2000]) if re.search(r"[*?[]", right) else left == right
        ) == (operator != "!=")
    return None


def matches(subject: Mapped, patterns: list[str]) -> bool | None:
    """Whether a case branch is taken."""
    if subject.has_hole:
        return None
    text = subject.text[:2000]
    return any(fnmatchcase(text, pattern.replace("[^", "[!")) for pattern in patterns)
