"""The part of the Nix language that configurations are written in, as a tree. Nothing is evaluated
here.

Operators are kept as names in a `Call`; what is not understood becomes one as well, so that the
rest is still read.
"""

from __future__ import annotations

from typing import NamedTuple

from advisor.readers.syntax.lazy import Lazy

_BLANK = Lazy(r"(?:\s+|#[^\n]*|/\*.*?(?:\*/|$))+", 16)  # 16: re.S
_NAME = Lazy(r"[A-Za-z_][\w'-]*")
_LITERAL = Lazy(r"(?:\.{0,2}|~)/[\w.+/-]+|<[\w./-]+>|-?\d+(?:\.\d+)?(?![\w-])")
_OPERATOR = Lazy(r"\+\+|//|==|!=|<=|>=|&&|\|\||->|\|>|[-+*/<>!?@.:|]")
_HEAD = Lazy(r"[A-Za-z_][\w'-]*[ \t]*:(?=\s)")  # the parameter of a function, `x: ...`
_FORMALS = Lazy(
    r"(?:[A-Za-z_][\w'-]*\s*@\s*)?\{[^{}=;]*(?:\{[^{}]*\}[^{}=;]*)*\}\s*(?:@\s*[A-Za-z_][\w'-]*\s*)?:(?=\s)"
)
_FORMAL = Lazy(r"([A-Za-z_][\w'-]*)\s*(\?)?\s*")
MAX_DEPTH, MAX_NODES = 80, 30_000
KEYWORDS = frozenset(("in", "then", "else"))


class Name(NamedTuple):
    """`lib.getExe`, `8080`, `./file`, or an operator."""

    text: str
    at: int


class Text(NamedTuple):
    """A string: pieces of the file (start, end, what they say) and expressions in `${}`."""

    parts: tuple[tuple[int, int, str] | Expr, ...]
    at: int
    indented: bool


class List(NamedTuple):
    items: tuple[Expr, ...]
    at: int


class Set(NamedTuple):
    pairs: tuple[tuple[tuple[str, ...], Expr, int], ...]
    at: int


class Function(NamedTuple):
    """Its parameters with their defaults; `whole` where it takes one value by name."""

    defaults: dict[str, Expr | None]
    whole: str
    body: Expr


class Call(NamedTuple):
    """Everything that stands beside each other: `f x y`, `a ++ b`, `if c then a else b`."""

    items: tuple[Expr, ...]
    at: int


Expr = Name | Text | List | Set | Function | Call
Pair = tuple[tuple[str, ...], Expr, int]  # `a.b = value;` and where it stands


class Parser:
    """One file. `bindings` holds what `let` names, the first of each name."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.nodes = text, 0, 0
        self.bindings: dict[str, Expr] = {}

    def skip(self) -> str:
        """The next character that means something; "" at the end."""
        if (found := _BLANK.match(self.text, self.at)) is not None:
            self.at = found.end()
        return self.text[self.at : self.at + 1]

    def expression(self, depth: int = 0) -> Expr:
        start = self.at
        self.skip()
        if (found := _FORMALS.match(self.text, self.at)) is not None:
            return self._function(found.end(), found.group(), depth)
        if (found := _HEAD.match(self.text, self.at)) is not None:
            self.at = found.end()
            return Function(
                {},
                found.group().rstrip(": \t"),
                self.expression(depth + 1) if depth < MAX_DEPTH else Call((), start),
            )
        items: list[Expr] = []
        while (char := self.skip()) and char not in ";])},":
            if _word(self.text, self.at) in KEYWORDS:
                if _word(self.text, self.at) == "in" or depth == 0:
                    break
                self.at += 4  # `then`, `else`: both sides stay beside each other
                items.append(Name("|", self.at))
                continue
            one = self.atom(depth + 1)
            if one is None:
                break
            items.append(one)
        return items[0] if len(items) == 1 else Call(tuple(items), start)

    def atom(self, depth: int) -> Expr | None:
        """One value without what it is applied to; None where the budget is spent."""
        self.nodes += 1
        char, start = self.skip(), self.at
        if depth > MAX_DEPTH or self.nodes > MAX_NODES or not char:
            self.at = len(self.text)
            return None
        if char == '"' or self.text.startswith("''", start):
            return self._string(depth, char == '"')
        if char == "[":
            return self._list(depth)
        if char == "{":
            return self._set(depth)
        if char == "(":
            self.at += 1
            inner = self.expression(depth + 1)
            self._close(")")
            return inner
        word = _word(self.text, start)
        if word == "let":
            self.at += 3
            for path, value, _ in self._pairs(depth, "in"):
                self.bindings.setdefault(".".join(path), value)
            self._close("in")
            return self.expression(depth + 1)
        if word in ("with", "assert"):
            self.at += len(word)
            self.expression(depth + 1)
            self._close(";")
            return self.expression(depth + 1)
        if word == "rec":
            self.at += 3
            return self.atom(depth + 1)
        return self._name(start)

    def _name(self, start: int) -> Name:
        for pattern in (_LITERAL, _NAME, _OPERATOR):
            if (found := pattern.match(self.text, start)) is None:
                continue
            self.at = found.end()
            words = [found.group()]
            while pattern is _NAME and self.text.startswith(".", self.at):
                quoted = self.text.startswith('"', self.at + 1)
                end = self.text.find('"', self.at + 2) if quoted else -1
                after = None if quoted else _NAME.match(self.text, self.at + 1)
                if after is None and end < 0:
                    break
                words.append(after.group() if after is not None else self.text[self.at + 2 : end])
                self.at = after.end() if after is not None else end + 1
            return Name(".".join(words), start)
        self.at = start + 1
        return Name(self.text[start], start)

    def _function(self, end: int, head: str, depth: int) -> Expr:
        inner = Parser(self.text[: end - 1])
        inner.at, inner.nodes = self.at + head.index("{") + 1, self.nodes
        names: dict[str, Expr | None] = {}
        while (inner.skip()) and (found := _FORMAL.match(inner.text, inner.at)) is not None:
            inner.at = found.end()
            names[found.group(1)] = inner.expression(depth + 1) if found.group(2) else None
            if inner.skip() != ",":
                break
            inner.at += 1
        self.at = end
        return Function(
            names, "", self.expression(depth + 1) if depth < MAX_DEPTH else Call((), end)
        )

    def _list(self, depth: int) -> List:
        start = self.at
        self.at += 1
        items: list[Expr] = []
        while (char := self.skip()) and char != "]":
            one = self.atom(depth + 1)
            if one is None:
                break
            items.append(one)
        self._close("]")
        return List(tuple(items), start)

    def _set(self, depth: int) -> Set:
        start = self.at
        self.at += 1
        pairs = self._pairs(depth, "}")
        self._close("}")
        return Set(tuple(pairs), start)

    def _pairs(self, depth: int, end: str) -> list[tuple[tuple[str, ...], Expr, int]]:
        """`a.b = value;` up to the closing word."""
        pairs: list[tuple[tuple[str, ...], Expr, int]] = []
        while (char := self.skip()) and char != "}" and _word(self.text, self.at) != end:
            start = self.at
            path: list[str] = []
            while (char := self.skip()) and char not in "=;}":
                key = self._string(depth, True) if char == '"' else self._name(self.at)
                if isinstance(key, Text):
                    path.append(
                        "".join(
                            part[2]
                            if not isinstance(part, Name | Text | List | Set | Function | Call)
                            and len(part) == 3
                            else "?"
                            for part in key.parts
                        )
                    )
                elif key.text != ".":
                    path += key.text.split(".")
                if self.nodes > MAX_NODES:
                    return pairs
                self.nodes += 1
            if char == "=":
                self.at += 1
                pairs.append((tuple(path), self.expression(depth + 1), start))
            self._close(";")
        return pairs

    def _close(self, sign: str) -> None:
        self.skip()
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
        elif self.at < len(self.text) and self.text[self.at] not in "]})" and sign == ";":
            self.at += 1

    def _string(self, depth: int, quoted: bool) -> Text:
        start = self.at
        self.at += 1 if quoted else 2
        parts: list[tuple[int, int, str] | Expr] = []
        begin = self.at
        while self.at < len(self.text):
            here = self.at
            said, length = _escape(self.text, here, quoted)
            if length:
                parts += [(begin, here, self.text[begin:here]), (here, here + length, said)]
                self.at = begin = here + length
            elif self.text.startswith("${", here):
                parts.append((begin, here, self.text[begin:here]))
                self.at += 2
                parts.append(self.expression(depth + 1) if depth < MAX_DEPTH else Name("...", here))
                self._close("}")
                begin = self.at
            elif self.text.startswith('"' if quoted else "''", here):
                break
            else:
                self.at += 1
        parts.append((begin, self.at, self.text[begin : self.at]))
        self.at += 1 if quoted else 2
        return Text(tuple(parts), start, not quoted)


def _escape(text: str, at: int, quoted: bool) -> tuple[str, int]:
    """What an escape says, and its length; 0 where none stands here."""
    if text.startswith("$$", at):  # both are kept, and a brace behind them opens nothing
        return "$$", 2
    if quoted:
        if text[at] != "\\" or at + 1 >= len(text):
            return "", 0
        return {"n": "\n", "t": "\t", "r": "\r"}.get(text[at + 1], text[at + 1]), 2
    for sign, said in (("''$", "$"), ("'''", "''"), ("''\\n", "\n"), ("''\\t", "\t")):
        if text.startswith(sign, at):
            return said, len(sign)
    return "", 0


def _word(text: str, at: int) -> str:
    found = _NAME.match(text, at)
    return found.group() if found is not None else text[at : at + 1]


def nested(node: Set) -> dict[str, tuple[Expr, int]]:
    """A set by its first names: `a.b = 1; a.c = 2;` is `a = { b = 1; c = 2; };`, and so is a
    mixture of both.
    """
    found: dict[str, tuple[Expr, int]] = {}
    inside: dict[str, list[Pair]] = {}  # what was put together for a name so far
    for names, given, at in node.pairs:
        if not names:
            continue
        value = Set(((names[1:], given, at),), at) if len(names) > 1 else given
        if isinstance(value, Set) and names[0] in inside:
            inside[names[0]] += value.pairs
            continue
        found[names[0]] = (value, at)
        inside.pop(names[0], None)
        if isinstance(value, Set):
            inside[names[0]] = list(value.pairs)
    return {
        name: (
            Set(tuple(inside[name]), at)
            if name in inside and len(inside[name]) > len(value.pairs)
            else value,
            at,
        )
        if isinstance(value, Set)
        else (value, at)
        for name, (value, at) in found.items()
    }
