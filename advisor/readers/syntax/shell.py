"""Shell scripts, read and never run. A condition that the file does not decide is read both ways:
what only one way sets holds (with a note), what both set differently is unknown.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from advisor.domain.patterns import lazy_re
from advisor.readers.command import read_command
from advisor.readers.engine_command import Env, EnvItem
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.syntax import control_flow
from advisor.readers.syntax.cut_off import (
    LOOSE_END,
    cut_container,
    options_after_blanks,
    options_behind,
)
from advisor.readers.syntax.mapped import EMPTY, HOLE, Mapped, hole, placeholders_to_holes
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.shell_builtins import BUILTINS, assign, declaration, prefix, unset
from advisor.readers.syntax.shell_state import MAX_NESTING, ShellState, here_text

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_TEXT = 600_000
_NON_ASCII = lazy_re(r"[^\x00-\x7f]")
_REMARK = lazy_re(r"(?<!\S)`#[^`\n]*`")  # which the grammar would take to the line's end
_MARKS = lazy_re(r"([<>|])\1{3,}")  # no operator; the parser takes time square in their number
_SHIFT = lazy_re(r"(?<=\d )<<(?= \d+\)\))")  # $((1 << 30)): no here-document


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _parsable(text: str) -> bytes:
    """The text as bytes of the same length; a hole is one word, whatever stands in its name."""
    text = HOLE.sub(lambda found: "_" * len(found.group()), text)
    text = _REMARK.sub(lambda found: " " * len(found.group()), text)
    text = _MARKS.sub(lambda found: "_" * len(found.group()), text)
    text = _SHIFT.sub("**", text)
    text = LOOSE_END.sub(lambda found: found.group()[1:] + "\\", text)
    if "\r" in text:
        text = text.replace("\\\r\n", " \\\n").replace("\r\n", " \n")
    return _NON_ASCII.sub("_", text).encode("ascii")


def parse(text: str) -> Node:
    """The root of tree-sitter's tree of bash; its offsets are those of characters."""
    return _parser().parse(_parsable(text)).root_node


class Shell(ShellState):
    """One script with its commands, functions and subshells."""

    def run(self) -> bool:
        """Read the whole text; whether it starts an engine."""
        if len(self.source) > MAX_TEXT:
            note = f"a shell text of {len(self.source)} characters is not read"
            self.reading.note(note, self.source.first(), cut_short=True)
            return False
        before = len(self.reading.found)
        self.source = placeholders_to_holes(self.source)
        if loose := LOOSE_END.search(self.source.text):
            note = "more follows the backslash at the line's end; it is read as if it continued"
            self.reading.note(note, self.source.pos[loose.start()])
        root = parse(self.source.text)
        self._read(root)
        bare = len(self.reading.found) == before and self.scope.args is None
        if bare and ENGINE_TEXT.search(self.source.text):
            # what starts a server with `--serve` alone is read as if it had it
            self.scope = Scope(dict(self.given), [hole(number) for number in "123"])
            self.scope.substitute, self.scope.expand = self.output_of, self.reading.expand
            self.functions, self.called = {}, set()
            self.guessing = True
            self._read(root)
        return len(self.reading.found) > before

    def _read(self, root: Node) -> None:
        """Read the statements, then the functions that nothing calls."""
        self.block(root)
        for name in list(self.functions):
            if name not in self.called:
                self.call(name, None)

    def command(self, node: Node) -> bool:
        """Run a simple command; True where the script ends in it."""
        name = node.child_by_field_name("name")
        if name is None:
            for child in node.named_children:
                if child.type == "variable_assignment":
                    assign(self, child)
            return False
        env: Env = {}
        for child in node.named_children:
            if child.type == "variable_assignment":
                prefix(self, child, env)
        arguments = [name, *node.children_by_field_name("argument")]
        before, words = len(self.reading.found), self.words(arguments)
        called = bool(words) and words[0].text in self.functions
        ended = self.execute(words, env, self.text(node).first())
        text = self.text(node)
        if not called:
            self.reading.run_at(before, text.first())
        if len(self.reading.found) == before and not called:
            cut_container(words, text, self.source, node.end_byte, self.reading)
        last = node.parent if node.parent and node.parent.type == "redirected_statement" else node
        for found in self.reading.found[before:]:
            found.background = (last.next_sibling or node).type == "&"
            found.said = found.said or options_after_blanks(text, self.reading)
            found.said = found.said or options_behind(self.source, node.end_byte, self.reading)
        return ended

    def execute(self, words: list[Mapped], env: Env, at: int) -> bool:
        """What a command does: builtins and functions here, others may start an engine."""
        if not words:
            return False
        first = words[0].text
        if first in self.functions and self.nesting < MAX_NESTING:
            return self.call(first, words[1:])
        builtin = BUILTINS.get(first)
        if builtin is not None:
            return builtin(self, words[1:], at)
        about: dict[str, Any] = {"scope": self.scope, "around": self.around}
        whole = lambda: {**self.environment(), **env}  # noqa: E731 - most commands start nothing
        started = read_command(words, self.reading, whole, at=at, depth=self.depth, **about)
        return started and first == "exec" and self.sure

    def environment(self) -> Env:
        """The variables that a command of this script inherits."""
        self.reading.spend(len(self.scope.exported) // 5)
        env = {name: item for name, item in self.passed.items() if name not in self.scope.unset}
        for name, at in self.scope.exported.items():
            value = self.scope.values.get(name)
            if isinstance(value, Mapped):
                env[name] = EnvItem(value, at if at >= 0 else (env[name].at if name in env else -1))
        return env

    def call(self, name: str, args: list[Mapped] | None) -> bool:
        """Read a function's body with these arguments (None: it is never called in the file)."""
        body = self.functions[name].child_by_field_name("body")
        self.called.add(name)
        if body is None or self.nesting > MAX_NESTING // 2:
            return False
        if not self.reading.repeat(body.end_byte - body.start_byte):
            return True
        kept, self.scope.args, self.outside = (self.scope.args, self.outside), args, {}
        found = len(self.reading.found)
        try:
            ended = self.block(body)
        finally:
            self.scope.values = {  # a name that was not set is not set again
                name: value
                for name, value in (self.scope.values | self.outside).items()
                if value is not None
            }
            self.scope.args, self.outside = kept
        returned, self.returning = self.returning, False
        return ended and not returned and len(self.reading.found) > found

    def redirect(self, node: Node) -> bool:
        """Run a statement with redirections; True where the script ends in it."""
        body = node.child_by_field_name("body")
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "heredoc_redirect":
                self._heredoc(redirect)
        return self.statement(body) if body is not None else False

    def _heredoc(self, node: Node) -> None:
        """A file that the script writes (`cat > compose.yml <<EOF`) is read as such."""
        parts = {child.type: self.text(child) for child in reversed(node.named_children)}
        text = parts.get("heredoc_body")
        if text is None or self.depth > 3:
            return
        quoted = parts.get("heredoc_start", EMPTY).text[:1] in "'\"\\"
        self.reading.inside(text if quoted else here_text(text, self.scope), self.depth + 1)

    def function(self, node: Node) -> bool:
        """Store a function for later calls; never ends the script."""
        name = node.child_by_field_name("name")
        if name is not None:
            self.functions[self.text(name).text] = node
        return False

    def subshell(self, node: Node) -> bool:
        """Run a subshell, whose assignments and exit stay inside."""
        kept, self.scope = self.scope, self.scope_copy()
        self.block(node)
        self.scope = kept
        return False


Shell.STATEMENTS = {
    "command": Shell.command,
    "variable_assignment": assign,
    "variable_assignments": Shell.block,
    "declaration_command": declaration,
    "unset_command": unset,
    "if_statement": control_flow.if_statement,
    "case_statement": control_flow.case_statement,
    "for_statement": control_flow.for_statement,
    "c_style_for_statement": control_flow.for_statement,
    "while_statement": control_flow.while_statement,
    "list": control_flow.list_statement,
    "redirected_statement": Shell.redirect,
    "function_definition": Shell.function,
    "subshell": Shell.subshell,
}
