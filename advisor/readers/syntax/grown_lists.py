"""What a Python program grows: argument lists, texts, dictionaries; a condition that the file
decides is followed, of any other the first branch is read.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

from advisor.readers.syntax.conditions import join_verdicts
from advisor.readers.syntax.python_nodes import is_dictionary, is_text, summands

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.eq, ast.IsNot: operator.ne,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
}  # fmt: skip
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
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                self._read_assignment(name, value, lists)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)]):
                self._add(name, ast.Dict(keys=[key], values=[statement.value]), lists)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.BitOr(), value=value):
                self._add(name, value, lists)
            case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=does)) as call):
                one = call.args[0] if len(call.args) == 1 else None
                if does == "update":
                    called = ast.Name(id="dict")
                    more = ast.Call(func=called, args=call.args[:1], keywords=call.keywords)
                    self._add(name, more, lists)
                elif one is not None and does == "extend":
                    self._add(name, one, lists)
                elif one is not None and does == "append":
                    self._add(name, ast.List(elts=[one], ctx=ast.Load()), lists)

    def _read_assignment(self, name: str, value: ast.expr, lists: dict[str, ast.expr]) -> None:
        parts = summands(value)
        first = parts[0]
        if len(parts) > 1 and isinstance(first, ast.Name) and first.id == name:
            for part in parts[1:]:
                self._add(name, part, lists)
            self.used.add(id(value))
            return
        if isinstance(first, ast.List):
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
            return join_verdicts(verdicts, isinstance(test.op, ast.Or))
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARE:
            left, right = self.follow(test.left), self.follow(test.comparators[0])
            if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
                try:
                    return bool(_COMPARE[type(test.ops[0])](left.value, right.value))
                except TypeError:
                    return None
        return None
