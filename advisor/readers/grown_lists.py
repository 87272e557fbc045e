"""Argument lists that a Python program grows: `cmd += [...]`, `cmd.append(...)`, `cmd.extend(...)`, and under which condition.

A condition that the file decides is followed; of one that it does not, the first branch is read.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

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


class GrownLists:
    """`added` maps a list's node (its id) to what is added to it later. `followed` resolves a name to its value."""

    def __init__(self, followed: Callable[[ast.expr], ast.expr]) -> None:
        self.followed = followed
        self.added: dict[int, list[ast.expr]] = {}

    def read(self, body: list[ast.stmt], lists: dict[str, int], depth: int = 0) -> None:
        """Follow the statements of one body in order; `lists` holds which list a name stands for."""
        if depth > MAX_DEPTH:
            return
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.read(statement.body, dict(lists), depth + 1)
            elif isinstance(statement, ast.If):
                verdict = self.truth(statement.test)
                self.read(statement.orelse if verdict is False else statement.body, lists, depth + 1)
            elif isinstance(statement, ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try):
                self.read(statement.body, lists, depth + 1)
            else:
                self._statement(statement, lists)

    def _statement(self, statement: ast.stmt, lists: dict[str, int]) -> None:
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            self._assigned(statement.targets[0].id, statement.value, lists)
        elif (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.value is not None
        ):
            self._assigned(statement.target.id, statement.value, lists)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            self._add(statement.target.id, statement.value, lists)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and len(call.args) == 1:
                if call.func.attr == "extend":
                    self._add(call.func.value.id, call.args[0], lists)
                elif call.func.attr == "append":
                    self._add(call.func.value.id, ast.List(elts=[call.args[0]], ctx=ast.Load()), lists)

    def _assigned(self, name: str, value: ast.expr, lists: dict[str, int]) -> None:
        first = value
        while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add):
            first = first.left
        if isinstance(value, ast.BinOp) and isinstance(first, ast.Name) and first.id == name:
            if isinstance(value.left, ast.Name):
                self._add(name, value.right, lists)
        elif isinstance(first, ast.List):
            lists[name] = id(first)
        else:
            lists.pop(name, None)

    def _add(self, name: str, value: ast.expr, lists: dict[str, int]) -> None:
        """Only what can be read as words: a list, a tuple or a name for one."""
        known = self.followed(value)
        if name in lists and isinstance(known, ast.List | ast.Tuple) and id(known) != lists[name]:
            self.added.setdefault(lists[name], []).append(value)

    def truth(self, test: ast.expr) -> bool | None:
        """The truth of a condition over constants; None where the file does not decide."""
        test = self.followed(test)
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            verdicts = [self.truth(value) for value in test.values]
            decides = isinstance(test.op, ast.Or)  # one true decides an `or`, one false an `and`
            if decides in verdicts:
                return decides
            return None if None in verdicts else not decides
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARE:
            left, right = self.followed(test.left), self.followed(test.comparators[0])
            if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
                try:
                    return bool(_COMPARE[type(test.ops[0])](left.value, right.value))
                except TypeError:
                    return None
        return None
