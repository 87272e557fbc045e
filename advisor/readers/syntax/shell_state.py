"""What is known of a shell script while it is read, and what `$(...)` comes to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Env, Surroundings
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole, join, synthetic
from advisor.readers.syntax.scope import Scope, Value, interpolate
from advisor.readers.syntax.words import expand_value, expand_word, split_words

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_NESTING = 60

_GROUPS = frozenset((
    "program", "compound_statement", "do_group", "ERROR", "pipeline", "negated_command",
    "else_clause", "elif_clause", "case_item",
))  # fmt: skip


class ShellState:
    """One script; each reader of STATEMENTS says whether the script ends there."""

    STATEMENTS: ClassVar[Mapping[str, Callable[[Any, Any], bool]]] = {}

    def __init__(
        self,
        source: Mapped,
        reading: Reading,
        scope: Scope | None = None,
        *,
        around: Surroundings | None = None,
        depth: int = 0,
        passed: Env | None = None,
    ) -> None:
        self.source, self.reading, self.around, self.depth = source, reading, around, depth
        self.scope = scope or Scope()
        self.given = dict(self.scope.values)  # what the script starts with
        self.scope.substitute, self.scope.expand = self.output_of, reading.expand
        self.passed: Env = dict(passed or {})
        self.functions: dict[str, Node] = {}
        self.called: set[str] = set()
        self.outside: dict[str, Value | None] = {}  # what a function's local names hold beside it
        self.guessing = False  # read as if it were given words
        self.nesting, self.sure, self.returning = 0, True, False

    def text(self, node: Node) -> Mapped:
        """Return the source text of a node."""
        return self.source.part(node.start_byte, node.end_byte)

    def value(self, node: Node | None) -> Mapped:
        """Return a node's text, expanded without word splitting."""
        return EMPTY if node is None else expand_value(self.text(node), self.scope)

    def words(self, nodes: list[Node]) -> list[Mapped]:
        """Return the words that the nodes expand to."""
        return [field for node in nodes for field in expand_word(self.text(node), self.scope)]

    def scope_copy(self) -> Scope:
        """The scope for statements that may not run, or whose assignments stay inside."""
        self.reading.spend(len(self.scope.values) // 50)
        return self.scope.copy()

    def output_of(self, body: Mapped) -> Mapped | None:
        """What `$(...)` prints; None if it is not known."""
        return None if self.depth > 8 or not self.reading.step() else output_of(body, self.scope)

    # -------------------------------------------------------------- statements

    def block(self, node: Node) -> bool:
        """Read the statements under a node in order; True if the script ends here."""
        if self.nesting > MAX_NESTING:
            self.reading.note(
                "the script is nested too deeply; the rest of it was not read", cut_short=True
            )
            return False
        self.nesting += 1
        try:
            return any(self.statement(child) for child in node.named_children)
        finally:
            self.nesting -= 1

    def statement(self, node: Node) -> bool:
        """Run one statement; True where the script ends in it."""
        if not self.reading.step():
            return True
        handler = self.STATEMENTS.get(node.type)
        if handler is not None:
            return handler(self, node)
        return node.type in _GROUPS and self.block(node)


_IN_HERE_TEXT = lazy_re(r"\$(\([^()\n]*\))|\\([\\$`\n])")
_CAT_HERE = lazy_re(r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[^\n]*\n(.*?)\n[ \t]*\2\s*$", re.S)
_ECHO = lazy_re(r"\s*(echo(?:\s+-[neE]+)?)\s+(.*)$", re.S)
_QUOTED, _OPERATOR = lazy_re(r"'[^']*'|\"(?:\\.|[^\"])*\""), lazy_re("[|;&<>]")


def output_of(body: Mapped, scope: Scope) -> Mapped | None:
    """What `$(...)` prints, of echo and cat of a here-document; None if not known."""
    if here := _CAT_HERE.match(body.text):
        inside = body.part(*here.span(3))
        return inside if here[1] else here_text(inside, scope)
    echo = _ECHO.match(body.text)
    if not echo or _OPERATOR.search(_QUOTED.sub("", echo[2])):
        return None
    words = split_words(body.part(echo.start(2), len(body.text.rstrip())), scope)
    return join([part for word in words for part in (synthetic(" "), word)][1:])


def here_text(text: Mapped, scope: Scope) -> Mapped:
    """An unquoted here-document: variables, escapes, joined lines; no substitution."""
    parts: list[Mapped] = []
    done = 0
    for found in _IN_HERE_TEXT.finditer(text.text):
        parts.append(interpolate(text.part(done, found.start()), scope))
        done = found.end()
        if found.group(1) is not None:
            parts.append(hole(found.group(1)[:40], text.pos[found.start()]))
        elif found.group(2) != "\n":
            parts.append(text.part(done - 1, done))
    return join((*parts, interpolate(text.part(done, len(text)), scope)))
