"""Conditions of a shell script: true, false, or None where the file does not decide."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

from advisor.readers.syntax.mapped import Mapped
from advisor.readers.syntax.shell_state import ShellState
from advisor.readers.syntax.words import split_words

if TYPE_CHECKING:
    from tree_sitter import Node

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": eq,
    "-ne": ne,
    "-gt": gt,
    "-ge": ge,
    "-lt": lt,
    "-le": le,
}
_EXPRESSIONS = frozenset(("binary_expression", "unary_expression", "parenthesized_expression"))


def condition(shell: ShellState, node: Node, depth: int = 0) -> bool | None:
    """The truth of a test as far as the file tells."""
    if depth > 30 or not shell.reading.step():
        return None
    kind = node.type
    if kind == "command":
        return _command(shell, node)
    if kind == "list":
        return _list(shell, node, depth)
    if kind == "negated_command":
        inner = condition(shell, node.named_children[0], depth + 1) if node.named_children else None
        return None if inner is None else not inner
    text = shell.text(node).text
    if kind == "test_command" and text.startswith("[ ") and text.endswith("]"):
        inside_text = shell.text(node).part(1, len(text) - 1)
        return _test_words(split_words(inside_text, shell.scope))
    if kind in ("test_command", "parenthesized_expression"):
        inside = node.named_children
        if text.startswith("((") or len(inside) != 1:  # arithmetic is not done
            return None
        if inside[0].type in (
            "string",
            "simple_expansion",
            "expansion",
            "word",
            "raw_string",
            "concatenation",
        ):
            return _is_filled(shell.value(inside[0]))
        return condition(shell, inside[0], depth + 1)
    if kind == "unary_expression":
        return _unary(shell, node, depth)
    if kind == "binary_expression":
        return _binary(shell, node, depth)
    return None


def _is_filled(value: Mapped) -> bool | None:
    return None if value.has_hole else bool(value.text)


def _command(shell: ShellState, node: Node) -> bool | None:
    name = node.child_by_field_name("name")
    text = shell.text(name).text if name is not None else ""
    if text in ("true", ":"):
        return True
    if text == "false":
        return False
    if text == "test":
        return _test_words(shell.words(node.children_by_field_name("argument")))
    if text.startswith("$") and name is not None:  # if $FLAG; then
        return {"true": True, ":": True, "false": False}.get(shell.value(name).text)
    return None


def _test_words(words: list[Mapped]) -> bool | None:
    """`[ ... ]` and `test`: `-o` binds weaker than `-a`, `!` negates."""
    for operator in ("-o", "-a"):
        for i, word in enumerate(words):
            if word.text == operator and 0 < i < len(words) - 1:
                return _logic([_test_words(words[:i]), _test_words(words[i + 1 :])], operator)
    if words and words[0].text == "!" and len(words) > 1:
        inner = _test_words(words[1:])
        return None if inner is None else not inner
    texts = [word.text for word in words]
    if len(texts) <= 1:
        return _is_filled(words[0]) if texts else False
    if len(texts) == 2 and texts[0] in ("-n", "-z"):
        filled = _is_filled(words[1])
        return None if filled is None else filled == (texts[0] == "-n")
    if len(texts) == 3 and not any(word.has_hole for word in words):
        return compare(texts[0], texts[1], texts[2])
    return None


def _list(shell: ShellState, node: Node, depth: int) -> bool | None:
    parts = [condition(shell, child, depth + 1) for child in node.named_children[:2]]
    operator = next((child.type for child in node.children if child.type in ("&&", "||")), "&&")
    return _logic(parts, operator)


def _logic(parts: list[bool | None], operator: str) -> bool | None:
    if operator in ("&&", "-a"):
        return False if False in parts else None if None in parts else True
    return True if True in parts else None if None in parts else False


def _unary(shell: ShellState, node: Node, depth: int) -> bool | None:
    operator = shell.text(node.children[0]).text if node.children else ""
    operand = node.named_children[-1] if node.named_children else None
    if operand is None:
        return None
    if operator == "!":
        inner = condition(shell, operand, depth + 1)
        return None if inner is None else not inner
    if operator in ("-n", "-z"):
        filled = _is_filled(shell.value(operand))
        return None if filled is None else filled == (operator == "-n")
    return None


def _binary(shell: ShellState, node: Node, depth: int) -> bool | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return None
    operator = next(
        (shell.text(child).text for child in node.children if child.id not in (left.id, right.id)),
        "",
    )
    if operator in ("&&", "||", "-a", "-o"):
        parts = [condition(shell, left, depth + 1), condition(shell, right, depth + 1)]
        return _logic(parts, "&&" if operator in ("&&", "-a") else "||")
    if left.type in _EXPRESSIONS or right.type in _EXPRESSIONS:
        return None
    first, second = shell.value(left), shell.value(right)
    if first.has_hole or second.has_hole:
        return None
    if operator == "=~":
        return (
            bool(re.search(second.text, first.text[:500]))
            if re.fullmatch(r"[\w|^$()-]{1,80}", second.text)
            else None
        )
    return compare(first.text, operator, second.text)


def compare(left: str, operator: str, right: str) -> bool | None:
    """One comparison of known texts."""
    if operator in _NUMBERS:
        if not (
            re.fullmatch(r"\s*-?\d{1,15}\s*", left) and re.fullmatch(r"\s*-?\d{1,15}\s*", right)
        ):
            return None
        return _NUMBERS[operator](int(left), int(right))
    if operator in ("=", "==", "!="):
        same = (
            fnmatchcase(left[:2000], right[:2000])
            if any(char in right for char in "*?[")
            else left == right
        )
        return same if operator != "!=" else not same
    return None


def matches(subject: Mapped, patterns: list[str]) -> bool | None:
    """Whether a case branch is taken."""
    if subject.has_hole:
        return None
    text = subject.text[:2000]
    return any(fnmatchcase(text, pattern.replace("[^", "[!")) for pattern in patterns)
