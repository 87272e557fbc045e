"""What the shell's own commands and its assignments do to what is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.readers.engine_command import Env, EnvItem
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.syntax.mapped import Mapped, hole, join, literal
from advisor.readers.syntax.scope import Value
from advisor.readers.syntax.shell_state import ShellState

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_ITEMS, MAX_VALUE = 2_000, 100_000


def bound(value: Value, name: str) -> Value:
    """A value of a sane size; one that a hostile script grew is not known."""
    if isinstance(value, list):
        return value[:MAX_ITEMS]
    return value if len(value) < MAX_VALUE else hole(name)


def append(old: Value | None, new: Value) -> Value:
    """What `+=` makes of a variable."""
    if isinstance(new, list):
        return [*(old if isinstance(old, list) else [old] if old else []), *new]
    if isinstance(old, list):
        return [*old[:-1], join((old[-1], new))] if old else [new]
    return new if old is None else join((old, new))


def assign(shell: ShellState, node: Node, export: bool = False) -> bool:
    """Set a variable or an element of an array; never ends the script."""
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if target is None:
        return False
    adds = any(child.type == "+=" for child in node.children)
    if target.type == "subscript":
        shell.scope.values.pop(shell.text(target).text.partition("[")[0], None)
        return False  # an element of an array: what it holds now is not known
    name, asked = shell.text(target).text, shell.scope.asked[0]
    new: Value
    if value is not None and value.type == "array":
        new = shell.words([child for child in value.named_children if child.type != "comment"])
    else:
        new = shell.value(value)
    if adds:
        new = append(shell.scope.get(name), new)
    shell.scope.values[name] = bound(new, name)
    if shell.scope.asked[0] != asked:
        shell.scope.open.add(name)
    elif not adds:
        shell.scope.open.discard(name)
    shell.scope.unset.discard(name)
    if export or name in shell.scope.exported:
        shell.scope.exported[name] = shell.text(target).first()
    return False


def prefix(shell: ShellState, node: Node, env: Env) -> None:
    """Add an assignment in front of a command to the command's environment."""
    target = node.child_by_field_name("name")
    if target is not None:
        name, value = shell.text(target), shell.value(node.child_by_field_name("value"))
        env[name.text] = EnvItem(value, name.first())
        command = node.parent or node
        words = " ".join(
            shell.text(one).text
            for one in command.children_by_field_name("argument")
            if one.type != "raw_string"
        )
        if (
            re.search(rf"\$\{{?{re.escape(name.text)}\b", words)
            and name.text not in shell.scope.values
            and ENGINE_TEXT.search(shell.text(command).text)
        ):
            shell.reading.slip(
                f"the shell fills in ${name.text} before '{name.text}=' in front of it counts",
                node.start_byte, node.end_byte, f"{shell.text(node).text};", stops=False,
                sources=["POSIX.1-2024, Shell Command Language, 2.9.1 (order of expansions)"],
            )  # fmt: skip


def declaration(shell: ShellState, node: Node) -> bool:
    """Run `export`, `declare`, `local` or `readonly`; never ends the script."""
    text = shell.text(node).text
    export = text.startswith("export") or bool(re.match(r"(declare|typeset)\s+-\w*x", text))
    for child in node.named_children:
        name = shell.text(child.child_by_field_name("name") or child).text
        if text.startswith("local"):
            shell.outside.setdefault(name, shell.scope.values.get(name))
        if child.type == "variable_assignment":
            assign(shell, child, export)
        elif child.type == "variable_name" and export:
            shell.scope.exported.setdefault(name, shell.text(child).first())
    return False


def unset(shell: ShellState, node: Node) -> bool:
    """Run `unset`; never ends the script."""
    for child in node.named_children:
        name = shell.text(child).text
        shell.scope.values.pop(name, None)
        shell.scope.exported.pop(name, None)
        shell.scope.unset.add(name)
    return False


def do_return(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `return`: the function, or a sourced script, ends."""
    shell.returning = True
    return True


def do_set(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `set`: positional parameters; notes `set -a`."""
    for i, word in enumerate(words):
        if word.text == "--":
            shell.scope.args = words[i + 1 :]
        elif word.text in ("-a", "-o") and words[-1].text in ("-a", "allexport"):
            shell.reading.note("set -a: variables set after it are taken as exported", at)
    return False


def do_shift(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `shift`: drops the first positional parameter, or as many as it says."""
    count = words[-1].text if words else ""
    if shell.scope.args:
        shell.scope.args = shell.scope.args[int(count[:4]) if count.isdecimal() else 1 :]
    return False


def do_eval(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `eval`: reads its words as a command, at most eight levels deep."""
    text = join([part for word in words for part in (literal(" ", -2), word)][1:])
    if shell.depth < 8:
        about = {"around": shell.around, "depth": shell.depth + 1, "passed": shell.passed}
        shell.reading.shell(text, shell.scope, **about)
        shell.scope.substitute = shell.output_of
    return False


def do_source(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `source`: notes that the other file is not read."""
    if words:
        shell.reading.note(f"{words[0].display()} is sourced and not read", at)
    return False


def do_read(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `read`: what it reads comes from outside."""
    names = [word.text for word in words if re.fullmatch(r"[A-Za-z_]\w*", word.text)]
    shell.scope.values.update((name, hole(name, at)) for name in names)
    return False


BUILTINS: dict[str, Callable[[ShellState, list[Mapped], int], bool]] = {
    "exit": lambda shell, words, at: True,
    "return": do_return,
    "set": do_set,
    "shift": do_shift,
    "eval": do_eval,
    "source": do_source,
    ".": do_source,
    "read": do_read,
}
