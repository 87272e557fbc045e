"""Branches and loops of a shell script: what the file does not decide is read both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.conditions import condition, matches
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole
from advisor.readers.syntax.scope import Scope, Value
from advisor.readers.syntax.shell_state import MAX_NESTING, ShellState

if TYPE_CHECKING:
    from tree_sitter import Node

_SERVER = lazy_re(r"(?:^|/)[\w.-]*llama-server[\w.-]*$")
MAX_ROUNDS = 16


def if_statement(shell: ShellState, node: Node) -> bool:
    """Run the branches of an `if`; True where the script ends in it."""
    branches: list[Branch] = []
    for clause in (node, *(child for child in node.children if child.type in _CLAUSES)):
        asked = shell.scope.asked[0]
        test, body = _clause(clause)
        for part in test[:-1]:
            shell.statement(part)
        verdict = condition(shell, test[-1]) if test else True
        if verdict is None:
            _run_tested(shell, test[-1])
        branches.append((verdict, shell.scope.asked[0] != asked, body))
    return _branches(shell, branches, shell.text(node).first())


Branch = tuple[bool | None, bool, "list[Node]"]  # verdict, whether the environment may change it
_CLAUSES = ("elif_clause", "else_clause")


def _clause(node: Node) -> tuple[list[Node], list[Node]]:
    parts: tuple[list[Node], list[Node]] = ([], [])
    in_body = node.type == "else_clause"
    for child in node.children:
        if child.type == "then":
            in_body = True
        elif child.is_named and child.type not in ("comment", *_CLAUSES):
            parts[in_body].append(child)
    return parts


def _run_tested(shell: ShellState, node: Node) -> None:
    """`if start_server ...; then`: a command whose success is asked for runs all the same."""
    if node.type in ("command", "redirected_statement", "pipeline"):
        shell.statement(node)
    elif node.type in ("negated_command", "list") and shell.nesting < MAX_NESTING:
        for child in node.named_children:
            _run_tested(shell, child)


def _branches(shell: ShellState, branches: list[Branch], at: int) -> bool:
    """Read the branches that can be taken and merge them; whether the script ends there. A guard
    that only the environment makes true never ends it.
    """
    possible: list[list[Node]] = []
    complete = outside = False
    for verdict, outside, body in branches:  # noqa: B007
        if verdict is not False:
            possible.append(body)
        if verdict is True:
            complete = True
            break
    if complete and len(possible) == 1:
        before, ended = shell.scope_copy(), _sequence(shell, possible[0])
        if not ended or not outside:
            return ended
        shell.scope, shell.returning = before, False
        at_most = [body for _, _, body in branches].index(possible[0]) + 1
        return _branches(shell, branches[at_most:], at) and False
    if not possible:
        return False
    if not complete:
        possible.append([])
    start, sure = shell.scope, shell.sure
    shell.sure = False
    left: list[Scope] = []
    for body in possible:
        shell.scope = start
        shell.scope = shell.scope_copy()
        shell.scope.substitute = shell.output_of
        if not _sequence(shell, body):
            left.append(shell.scope)
    shell.sure = sure
    shell.scope = _merge_scopes(shell, left, at) if left else start
    return not left and sure


def _sequence(shell: ShellState, nodes: list[Node]) -> bool:
    shell.nesting += 1
    try:
        return shell.nesting < MAX_NESTING and any(shell.statement(node) for node in nodes)
    finally:
        shell.nesting -= 1


def _merge_scopes(shell: ShellState, scopes: list[Scope], at: int) -> Scope:
    first = scopes[0]
    for other in scopes[1:]:
        if not shell.reading.spend(len(first.values) // 20):
            break
        for name in {*first.values, *other.values}:
            mine, theirs = first.values.get(name), other.values.get(name)
            if _same(mine, theirs):
                continue
            first.values[name] = chosen = _either(mine, theirs, name, at)
            if not (isinstance(chosen, Mapped) and chosen.has_hole):
                shell.reading.note(
                    "the file does not decide this condition; it is read as true", at
                )
        first.exported = {**other.exported, **first.exported}
        first.open |= other.open
        first.args = other.args if first.args is None else first.args
    return first


def case_statement(shell: ShellState, node: Node) -> bool:
    """Run the branches of a `case`; True where the script ends in it."""
    asked = shell.scope.asked[0]
    subject = shell.value(node.child_by_field_name("value"))
    outside = shell.scope.asked[0] != asked
    branches: list[Branch] = []
    default: list[Node] | None = None
    for item in node.named_children:
        if item.type != "case_item":
            continue
        patterns = item.children_by_field_name("value")
        ids = {child.id for child in patterns}
        body = [child for child in item.named_children if child.id not in ids]
        texts = [shell.text(child).text.strip("\"'") for child in patterns]
        if "*" in texts:
            default = body
        branches.append((matches(subject, texts), outside, body))
    at = shell.text(node).first()
    if not subject.has_hole or default is None:
        return _branches(shell, branches, at)
    # not given: the default's variables hold, all commands are found
    kept, left = shell.scope, list[Scope]()
    for _, _, body in branches:
        if body is not default:
            shell.scope, shell.sure, sure = shell.scope_copy(), False, shell.sure
            if not _sequence(shell, body):
                left.append(shell.scope)
            shell.scope, shell.sure = kept, sure
    if _sequence(shell, default) and left:  # it refuses: one of the others is meant
        shell.scope, shell.returning = _merge_scopes(shell, left, at), False
    return False


def for_statement(shell: ShellState, node: Node) -> bool:
    """Run the body of a `for` once per known value; True where the script ends in it."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if body is None:
        return False
    name = shell.text(variable).text if variable is not None else ""
    values = shell.words(node.children_by_field_name("value"))
    if not name or not 1 <= len(values) <= MAX_ROUNDS or any(value.has_hole for value in values):
        values = [hole(name or "i", shell.text(node).first())]
    for value in values:
        if name:
            shell.scope.values[name] = value
        if not shell.reading.repeat(body.end_byte - body.start_byte) or shell.block(body):
            break  # of a loop that tries again it is not known which round ends it
    shell.returning = False
    return False


def while_statement(shell: ShellState, node: Node) -> bool:
    """A loop is read once for the engines that it starts; what it sets is not kept."""
    body, test = node.child_by_field_name("body"), node.child_by_field_name("condition")
    if test is not None:
        _run_tested(shell, test)
    if body is not None:
        before, shell.scope = shell.scope, shell.scope_copy()
        shell.block(body)
        shell.scope = before
        for name in _names_set(shell, body) if shell.guessing else ():
            if not any(_texts(before.values.get(name))):  # the words that it reads may set it
                before.values[name] = hole(name, shell.text(node).first())
    return False


def _names_set(shell: ShellState, node: Node) -> set[str]:
    names: set[str] = set()
    nodes = [node]
    while nodes and shell.reading.step():
        part = nodes.pop()
        name = part.child_by_field_name("name") if part.type == "variable_assignment" else None
        if name is not None:
            names.add(shell.text(name).text)
        nodes += part.named_children
    return names


def list_statement(shell: ShellState, node: Node) -> bool:
    """`a && b`, `a || b`."""
    parts = node.named_children
    operator = next((child.type for child in node.children if child.type in ("&&", "||")), "&&")
    if len(parts) < 2:
        return shell.block(node)
    asked, verdict = shell.scope.asked[0], condition(shell, parts[0])
    outside = shell.scope.asked[0] != asked
    if parts[0].type not in ("test_command", "negated_command"):
        if shell.statement(parts[0]) and operator == "&&":
            return True
        if operator == "&&" and verdict is None:
            before = len(shell.reading.found)
            return shell.statement(parts[1]) and len(shell.reading.found) > before
    taken = None if verdict is None else verdict == (operator == "&&")
    branch = (taken, outside and taken is not None, [parts[1]])
    return _branches(shell, [branch], shell.text(node).first())


def _texts(value: Value | None) -> list[str]:
    if value is None:
        return []
    return [item.text for item in (value if isinstance(value, list) else [value])]


def _same(one: Value | None, other: Value | None) -> bool:
    return one is other or ((one is None) == (other is None) and _texts(one) == _texts(other))


def _either(one: Value | None, other: Value | None, name: str, at: int) -> Value:
    """What a variable holds after a condition that is not known."""
    mine, theirs = _texts(one), _texts(other)
    if not any(mine) or (len(theirs) > len(mine) and theirs[: len(mine)] == mine):
        return EMPTY if other is None else other
    if not any(theirs) or isinstance(one, list):
        return EMPTY if one is None else one
    if len(mine) == len(theirs) == 1 and mine[0].startswith(theirs[0]) and one is not None:
        return one
    builds = [
        value for value in (one, other) if isinstance(value, Mapped) and _SERVER.search(value.text)
    ]
    if len(builds) == 2:  # two places of one program: either starts it
        return next((value for value in builds if value.text.endswith("/llama-server")), builds[0])
    return hole(name, at)
