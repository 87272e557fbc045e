"""Variables as a shell, a compose file or a unit knows them, and `${...}` in all its forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.domain.records import Record, field
from advisor.readers.syntax.mapped import (
    EMPTY,
    HOLE_CLOSE,
    HOLE_OPEN,
    Mapped,
    hole,
    join,
    synthetic,
)

if TYPE_CHECKING:
    from advisor.readers.engine_command import Env
    from advisor.readers.syntax.yamlnodes import Node

Value = Mapped | list[Mapped]
_PARAMETER = lazy_re(r"([#!]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(\[[^\]]*\])?")
_MAX_TEXT = 200_000
_MAX_UNCLOSED = 20  # each looked for its end through all of the text


class Scope(Record):
    """Names and values. `args` are the positional parameters; None = not known."""

    values: dict[str, Value] = field(default_factory=dict)
    args: list[Mapped] | None = None
    exported: dict[str, int] = field(default_factory=dict)  # name -> offset of the export
    unset: set[str] = field(default_factory=set)
    # what $(...) prints, if it can be known
    substitute: Callable[[Mapped], Mapped | None] | None = None
    # counts the values that were taken; False: too many were, this one is not known
    expand: Callable[[list[Mapped]], bool] | None = None
    # names whose value is a default that the environment may replace
    open: set[str] = field(default_factory=set)
    # how often such a value was taken; one count for all copies
    asked: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def inside(cls, env: Env, args: list[Mapped] | None = None) -> Scope:
        """The variables that a shell sees which is started with an environment."""
        return cls({name: one.value for name, one in env.items() if one.value is not None}, args)

    def copy(self) -> Scope:
        """Return a copy for a subshell; assignments in it stay there."""
        return self.replace(
            values=dict(self.values),
            args=None if self.args is None else list(self.args),
            exported=dict(self.exported),
            unset=set(self.unset),
            open=set(self.open),
        )

    def get(self, name: str) -> Value | None:
        """The value of a name; None = the file does not set it."""
        value = self._look_up(name)
        if value is None or self.expand is None:
            return value
        return value if self.expand(value if isinstance(value, list) else [value]) else hole(name)

    def _look_up(self, name: str) -> Value | None:
        if name in self.values:
            self.asked[0] += name in self.open
            return self.values[name]
        if self.args is not None:
            if name in ("@", "*"):
                return self.args
            if name == "#":
                return synthetic(str(len(self.args)))
            if name.isdigit() and 0 < int(name[:4]) <= len(self.args):
                return self.args[int(name[:4]) - 1]
            if name.isdigit() and name != "0":
                return EMPTY
        return EMPTY if name in self.unset else None

    def text(self, name: str) -> Mapped | None:
        """Return the variable's value, the first element of an array, None where it is not set."""
        value = self.get(name)
        if isinstance(value, list):
            return value[0] if value else EMPTY
        return value


def parameter(body: Mapped, scope: Scope, expand: Callable[[Mapped], Mapped]) -> Value:
    """The value of what stands between `${` and `}`; `expand` resolves the default's own text."""
    found, at = _PARAMETER.match(body.text), body.first()
    if found is None:
        return hole(body.text[:40], at)
    prefix, name, index = found.groups()
    rest = body.part(found.end(), len(body))
    if prefix:
        return hole(prefix + name, at)
    value = element(scope, name, index)
    if value is None and rest.text[:2].strip(":")[:1] in ("-", "=", "+"):
        scope.asked[0] += 1  # the default stands for what the environment does not set
    if rest.text:
        return _operate(value, name, rest, at, expand)
    return hole(name + (index or ""), at) if value is None else value


def element(scope: Scope, name: str, index: str | None) -> Value | None:
    """A variable's value or its element; of an array without an index the first."""
    value = scope.get(name)
    if value is None or (index is None and not isinstance(value, list)) or name in ("@", "*"):
        return value
    items = value if isinstance(value, list) else [value]
    if index is None:
        return items[0] if items else EMPTY
    key = index[1:-1].strip("\"'")
    if key in ("@", "*"):
        return items
    if key.lstrip("-").isdigit() and len(key) < 6 and -len(items) <= int(key) < len(items):
        return items[int(key)]
    return None


def _operate(
    value: Value | None, name: str, rest: Mapped, at: int, expand: Callable[[Mapped], Mapped]
) -> Value:
    found = re.match(r"(:?)([-=?+])", rest.text)
    if found is None:
        return hole(name, at)  # cut or edited: `${NAME##*/}`
    operator, argument = found[2], rest.part(found.end(), len(rest))
    empty = not any(map(len, value if isinstance(value, list) else [value or EMPTY]))
    if value is None or (found[1] and empty):
        return EMPTY if operator == "+" else hole(name, at) if operator == "?" else expand(argument)
    itself = argument.text.strip('"') == f"${{{name}[@]}}"  # ${A[@]+"${A[@]}"} of a strict shell
    return expand(argument) if operator == "+" and not itself else value


def interpolate(source: Mapped, scope: Scope, depth: int = 0) -> Mapped:
    """Compose's substitution: `$$`, `$NAME`, `${NAME}` with defaults; no quotes."""
    text = source.text
    if "$" not in text:
        return source
    parts: list[Mapped] = []
    done = size = unclosed = 0
    while (dollar := text.find("$", done)) >= 0 and dollar + 1 < len(text):
        parts.append(source.part(done, dollar))
        braces = text[dollar + 1] == "{"
        close = closing_index(text, dollar + 1) if braces and unclosed < _MAX_UNCLOSED else -1
        unclosed += braces and close < 0
        done, value = _reference(source, dollar, close, scope, depth)
        size += len(value)
        if size < _MAX_TEXT:
            parts.append(value)
    parts.append(source.part(done, len(text)))
    return join(parts)


def node_text(node: Node) -> Mapped:
    """A scalar of a compose file, of whose variables the defaults are known."""
    return interpolate(node.text_map, Scope())


def _reference(
    source: Mapped, dollar: int, close: int, scope: Scope, depth: int
) -> tuple[int, Mapped]:
    text = source.text
    if text[dollar + 1] == "$":
        return dollar + 2, Mapped("$", [source.pos[dollar]])
    if close > 0 and depth < 20:
        body = source.part(dollar + 2, close)
        value = parameter(body, scope, lambda inner: interpolate(inner, scope, depth + 1))
        return close + 1, value if isinstance(value, Mapped) else join(value)
    found = re.compile(r"[A-Za-z_]\w*").match(text, dollar + 1)
    if found:
        known = scope.text(found.group())
        return found.end(), hole(found.group(), source.pos[dollar]) if known is None else known
    return dollar + 1, source.part(dollar, dollar + 1)


def closing_index(text: str, start: int) -> int:
    """Index of the brace that closes the one at `start`, nesting seen; -1 without one."""
    opener = text[start]
    closer = {"{": "}", "(": ")"}[opener]
    depth, quote, i = 0, "", start
    while i < len(text):
        char = text[i]
        if char == "\\" and quote != "'":
            i += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char == HOLE_OPEN:  # braces in its name close nothing
            i = max(i, text.find(HOLE_CLOSE, i))
        elif char in "'\"":
            quote = char
        elif char == opener:
            depth += 1
        elif char == closer:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return -1 if quote == "" else text.find(closer, start)
