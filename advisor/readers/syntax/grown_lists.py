"""What a Python program grows: argument lists, texts, dictionaries; a condition that the file
decides is followed, of any other the first branch is read.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from advisor.readers.syntax.python_nodes import is_dictionary, is_text, summands

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
MAX_DEPTH = 40
MAX_JUDGED = 20_000  # conditions of a program, with those of the names in them


class GrownLists:
    """`added`: id of a node -> what is added to it later; `used` are the texts among these."""

    def __init__(self, followed: Callable[[ast.expr], ast.expr]) -> None:
        self.follow = followed
        self.added: dict[int, list[ast.expr]] = {}
        self.used: set[int] = set()
        self.judged = 0

    def read(self, body: list[ast.stmt], lists: dict[str, ast.expr], depth: int = 0) -> None:
        """Follow a body's statements in order; `lists`: the node that a name stands for."""
        if depth > MAX_DEPTH:
            return
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.read(statement.body, dict(lists), depth + 1)
            elif isinstance(statement, ast.If):
                verdict = self.truth(statement.test)
                self.read(
                    statement.orelse if verdict is False else statement.body, lists, depth + 1
                )
            elif isinstance(
                statement, ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try
            ):
                self.read(statement.body, lists, depth + 1)
            else:
                self._statement(statement, lists)

    def _statement(self, statement: ast.stmt, lists: dict[str, ast.expr]) -> None:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self._read_assignment(target.id, statement.value, lists)
            elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                self._add(
                    target.value.id, ast.Dict(keys=[target.slice], values=[statement.value]), lists
                )
        elif (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.value is not None
        ):
            self._read_assignment(statement.target.id, statement.value, lists)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            if isinstance(statement.op, ast.Add | ast.BitOr):
                self._add(statement.target.id, statement.value, lists)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            self._read_call(statement.value, lists)

    def _read_call(self, call: ast.Call, lists: dict[str, ast.expr]) -> None:
        """`name.extend(...)`, `name.append(...)`, `name.update(...)`."""
        if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
            return
        name, does = call.func.value.id, call.func.attr
        if does == "update":
            self._add(
                name,
                ast.Call(func=ast.Name(id="dict"), args=call.args[:1], keywords=call.keywords),
                lists,
            )
        elif len(call.args) == 1 and does == "extend":
            self._add(name, call.args[0], lists)
        elif len(call.args) == 1 and does == "append":
            self._add(name, ast.List(elts=[call.args[0]], ctx=ast.Load()), lists)

    def _read_assignment(self, name: str, value: ast.expr, lists: dict[str, ast.expr]) -> None:
        parts = summands(value)
        first = parts[0]
        if len(parts) > 1 and isinstance(first, ast.Name) and first.id == name:
            for part in parts[1:]:
                self._add(name, part, lists)
            self.used.add(id(value))
        elif isinstance(value, ast.JoinedStr) and name in lists and _begins_with(value, name):
            self._add(name, ast.JoinedStr(values=value.values[1:]), lists)
            self.used.add(id(value))
        elif isinstance(first, ast.List):
            lists[name] = first
        elif is_text(value) or is_dictionary(value):
            lists[name] = value
        else:
            lists.pop(name, None)

    def _add(self, name: str, value: ast.expr, lists: dict[str, ast.expr]) -> None:
        """More of the same alone: words to a list, text to a text, keys to a dictionary."""
        known, base = self.follow(value), lists.get(name)
        if base is None or known is base:
            return
        if isinstance(base, ast.List):
            fits = isinstance(known, ast.List | ast.Tuple)
        elif is_dictionary(base):
            fits = is_dictionary(known)
        else:
            fits = not isinstance(known, ast.List | ast.Tuple) and not is_dictionary(known)
            self.used.add(id(value))
        if fits:
            self.added.setdefault(id(base), []).append(value)

    def truth(self, test: ast.expr, depth: int = 0) -> bool | None:
        """The truth of a condition over constants; None where the file does not decide."""
        self.judged += 1
        if depth > MAX_DEPTH or self.judged > MAX_JUDGED:
            return None
        test = self.follow(test)
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, depth + 1)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            verdicts = [self.truth(value, depth + 1) for value in test.values]
            decides = isinstance(test.op, ast.Or)  # one true decides an `or`, one false an `and`
            if decides in verdicts:
                return decides
            return None if None in verdicts else not decides
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARE:
            left, right = self.follow(test.left), self.follow(test.comparators[0])
            if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
                try:
                    return bool(_COMPARE[type(test.ops[0])](left.value, right.value))
                except TypeError:
                    return None
        return None


def _begins_with(value: ast.JoinedStr, name: str) -> bool:
    """`f"{name} ..."`."""
    first = value.values[0] if value.values else None
    return (
        isinstance(first, ast.FormattedValue)
        and isinstance(first.value, ast.Name)
        and first.value.id == name
    )
