"""What a rule's first lines ask of a case, read from its text: without that the rule says nothing,
so that the index can leave it out without importing it.

Read are the assignments and the `if ...: return` before anything is yielded, and an `if` or a loop
that is all the rest. What is not understood asks for nothing: the rule itself then decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

from advisor.rules.kit import case as nouns
from advisor.rules.kit import flags, policy

SPEC_CONFIG = "--speculative-config"
# parts of a case that are true wherever they are known
OBJECTS = (
    "facts.hardware",
    "facts.model",
    "facts.quant",
    "facts.request",
    "facts.checkpoint",
    "launch.container",
)
METHOD = "plan.method"


class Guard(NamedTuple):
    """What must hold: the method is one of these, one of these options is given, and these parts of
    the case are true. Empty: nothing is asked.
    """

    methods: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class Value(NamedTuple):
    """What a name stands for: a flag of these options, or a part of the case."""

    options: tuple[str, ...] = ()
    part: str = ""


NOTHING = Guard()


def read_guard(text: str, module: ModuleType) -> Guard:
    """What the rule in a module's text asks for."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(one, ast.Call) and getattr(one.func, "id", "") == "rule"
            for one in node.decorator_list
        ):
            return _Reading(module, node.args.args[0].arg).body(node.body[1:])
    return NOTHING


class _Reading:
    def __init__(self, module: ModuleType, case: str) -> None:
        self.module, self.case = module, case
        self.known: dict[str, Value] = {}

    def body(self, statements: list[ast.stmt]) -> Guard:
        """What the statements of the function ask for before they say anything."""
        found: list[Guard] = []
        for number, one in enumerate(statements):
            rest = number == len(statements) - 1
            if isinstance(one, ast.Assign):
                self._assign(one)
            elif isinstance(one, ast.If) and not one.orelse:
                if _only_returns(one):
                    found.append(self._requirements(one.test, False))
                    continue
                if rest:
                    found.append(self._requirements(one.test, True))
                break
            elif isinstance(one, ast.For) and rest and not one.orelse:
                found.append(self._true(self._value(one.iter)))
            elif not isinstance(one, ast.ImportFrom):
                break
        return _all(found)

    def _assign(self, one: ast.Assign) -> None:
        for target in one.targets:
            pairs = [(target, one.value)]
            if isinstance(target, ast.Tuple):
                values = one.value.elts if isinstance(one.value, ast.Tuple) else ()
                same = len(values) == len(target.elts)
                pairs = list(zip(target.elts, values, strict=True)) if same else []
                for name in ast.walk(target):
                    self.known.pop(getattr(name, "id", ""), None)
            for name, value in pairs:
                meant = self._value(value)
                if isinstance(name, ast.Name):
                    self.known.pop(name.id, None)
                    if meant is not None:
                        self.known[name.id] = meant

    def _value(self, node: ast.expr) -> Value | None:
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            words = ast.unparse(node).split(".")  # case.facts.model, but not what a model has
            mine = words[0] == self.case and len(words) == 3
            return Value(part=".".join(words[1:])) if mine else None
        if isinstance(node, ast.Call) and self._names_case(node):
            return self._call(node)
        return None

    def _names_case(self, node: ast.Call) -> bool:
        first = node.args[0] if node.args else None
        return isinstance(first, ast.Name) and first.id == self.case

    def _call(self, node: ast.Call) -> Value | None:
        called = getattr(self.module, getattr(node.func, "id", ""), None)
        if called is flags.spec_config:
            return Value(options=(SPEC_CONFIG,))
        if called is policy.for_advice:
            return Value(part="facts.request")
        if called in (nouns.flag, nouns.has_switch, nouns.open_value, nouns.value):
            names = self._names(node.args[1:])
            return Value(options=names) if names else None
        return None

    def _names(self, arguments: Iterable[ast.expr]) -> tuple[str, ...]:
        """The words of literals and of the module's constants; nothing where one is neither."""
        found: list[str] = []
        for one in arguments:
            held = self._constant(one.value if isinstance(one, ast.Starred) else one)
            words = (held,) if isinstance(held, str) else held
            if not isinstance(words, tuple | list | frozenset) or not all(
                isinstance(word, str) for word in words
            ):
                return ()
            found += words
        return tuple(found)

    def _constant(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name) and node.id not in self.known:
            return getattr(self.module, node.id, None)
        try:
            return ast.literal_eval(node)
        except ValueError:
            return None

    def _requirements(self, test: ast.expr, outcome: bool) -> Guard:
        """What holds wherever the test comes out so."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._requirements(test.operand, not outcome)
        if isinstance(test, ast.BoolOp):
            parts = [self._requirements(one, outcome) for one in test.values]
            return _all(parts) if isinstance(test.op, ast.And) is outcome else _any(parts)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison(test, outcome)
        return self._true(self._value(test)) if outcome else NOTHING

    def _comparison(self, test: ast.Compare, outcome: bool) -> Guard:
        operator, other = test.ops[0], test.comparators[0]
        value = self._value(test.left)
        if value is None:
            return NOTHING
        if isinstance(operator, ast.Is | ast.IsNot):
            none = isinstance(other, ast.Constant) and other.value is None
            known = none and isinstance(operator, ast.IsNot) is outcome
            return (
                self._true(value)
                if known and (value.options or value.part in OBJECTS)
                else (NOTHING)
            )
        equal = isinstance(operator, ast.Eq | ast.In)
        differs = isinstance(operator, ast.NotEq | ast.NotIn)
        if value.part != METHOD or not (equal if outcome else differs):
            return NOTHING
        return Guard(methods=self._names([other]))

    def _true(self, value: Value | None) -> Guard:
        if value is None:
            return NOTHING
        if value.part in ("", METHOD):
            return Guard(options=value.options)
        return Guard(parts=(value.part,))


def _only_returns(one: ast.If) -> bool:
    return len(one.body) == 1 and isinstance(one.body[0], ast.Return)


def _all(parts: Iterable[Guard]) -> Guard:
    """What several ask for together; of two lists of options the shorter says enough."""
    methods: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    held: list[str] = []
    for one in parts:
        methods = methods or one.methods
        if one.options and (not options or len(one.options) < len(options)):
            options = one.options
        held += one.parts
    return Guard(methods, options, tuple(dict.fromkeys(held)))


def _any(parts: list[Guard]) -> Guard:
    """What each of several asks for: one of all their options, one of all their methods."""
    return Guard(
        tuple(dict.fromkeys(word for one in parts for word in one.methods))
        if all(one.methods for one in parts)
        else (),
        tuple(dict.fromkeys(word for one in parts for word in one.options))
        if all(one.options for one in parts)
        else (),
    )
