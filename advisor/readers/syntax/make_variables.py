"""make's variables: what a file sets, what it may have set where a condition is not decided, and
how they expand.

Nothing is run; what a function of make (`$(shell ...)`, `$(wildcard ...)`) gives is not known. The
work over a whole file is counted: variables that multiply each other become unknown, they do not
grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from advisor.readers.reading import Reading
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole, join, made
from advisor.readers.syntax.scope import closing

MAX_DEPTH, MAX_TEXT, MAX_BRANCHES = 30, 30_000, 40
MAX_REFERENCES, MAX_TOTAL = 100_000, 1_000_000  # over a whole file
AUTOMATIC = "@<^*?+%"
_COMMA = Lazy(r",")
_LINES = Lazy(r"(?:[^\n\\]|\\\r?\n|\\[^\n])*(?:\n|\\?$)")


class Value(NamedTuple):
    """A text and what was added to it: a chain, so that ten thousand `+=` cost no more than their
    own text.
    """

    text: Mapped
    before: Value | None
    size: int

    def whole(self) -> Mapped:
        parts: list[Mapped] = []
        link: Value | None = self
        while link is not None:
            parts += [link.text, made(" ")]
            link = link.before
        return join(parts[-2::-1])

    def extends(self, other: Value) -> bool:
        """Whether this is the other with something added."""
        link = self.before
        while link is not None and link.size > other.size:
            link = link.before
        return link is other


Key = tuple[str, str]  # the target that a variable is for ("": all of them), and its name


class Branches:
    """One `ifeq ... else ... endif`: what its branches leave behind, and what held before them."""

    def __init__(self, verdict: bool | None, outer: bool, at: int) -> None:
        self.outer, self.at = outer, at
        self.live, self.sure = outer and verdict is not False, verdict is True
        self.before: dict[Key, Value | None] = {}
        self.left: list[dict[Key, Value | None]] = []


class Table:
    """Variables as the lines of a file set them, one after the other."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.values: dict[Key, Value] = {}
        self.exported: dict[str, int] = {}
        self.branches: list[Branches] = []

    @property
    def live(self) -> bool:
        """Whether the present line is read: no condition around it is decided against it."""
        return not self.branches or self.branches[-1].live

    def put(self, key: Key, value: Value | None) -> None:
        if self.branches:
            self.branches[-1].before.setdefault(key, self.values.get(key))
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def assign(self, target: str, name: str, how: str, text: Mapped, at: int) -> None:
        """`=`, `:=`, `?=`, `+=`, `!=`."""
        known = self.values.get((target, name)) or self.values.get(("", name))
        if how == "?" and known is not None:
            return
        if how == "!":
            text = hole(name, at)
        value = Value(text, None, len(text))
        if how == "+" and known is not None:
            value = Value(text, known, known.size + len(text) + 1)
        if value.size < MAX_TEXT:
            self.put((target, name), value)
        else:  # too much to follow; so is all that is added to it
            self.put((target, name), Value(hole(name, at), None, MAX_TEXT))

    def begin(self, verdict: bool | None, at: int) -> None:
        self.branches.append(Branches(verdict, self.live, at))

    def otherwise(self, verdict: bool | None) -> None:
        """`else`, and `else ifeq ...` with a condition of its own."""
        if not self.branches:
            return
        frame = self.branches[-1]
        self._leave(frame)
        frame.live = frame.outer and not frame.sure and verdict is not False
        frame.sure = frame.sure or verdict is True

    def end(self) -> None:
        if not self.branches:
            return
        frame = self.branches[-1]
        self._leave(frame)
        if not frame.sure:
            frame.left.append({})
        self.branches.pop()
        for key, before in frame.before.items():
            self.put(
                key, self._either([one.get(key, before) for one in frame.left], key[1], frame.at)
            )

    def _leave(self, frame: Branches) -> None:
        if frame.live:
            frame.left.append({key: self.values.get(key) for key in frame.before})
        for key, before in frame.before.items():
            if before is None:
                self.values.pop(key, None)
            else:
                self.values[key] = before

    def _either(self, options: list[Value | None], name: str, at: int) -> Value | None:
        """What a variable holds after a condition that is not known: what one way adds; nothing
        known where ways differ.
        """
        given = [one for one in options if one is not None and one.size]
        if not given:
            return options[0]
        most = max(given, key=lambda one: one.size)
        for one in given:
            if (
                one is most
                or most.extends(one)
                or (one.size == most.size and one.whole().text == most.whole().text)
            ):
                continue
            return Value(hole(name, most.text.first()), None, len(name) + 2)
        if len(given) < len(options) or any(most.extends(one) for one in given):
            self.reading.note("the file does not decide this condition; it is read as true", at)
        return most


class Expansion:
    """`$$`, `$(NAME)`, `${NAME}`, `$@`: each variable is expanded once, and once more a recipe
    where its target changes it.
    """

    def __init__(self, table: Table, local: frozenset[str]) -> None:
        self.values, self.reading, self.local = table.values, table.reading, local
        self.references = self.total = 0
        self.open: set[str] = set()
        self.done: dict[str, Mapped] = {}  # holds in all recipes
        self.begin({})

    def begin(self, own: Mapping[str, Value]) -> None:
        """A recipe, with the variables of its target."""
        self.own, self.mine = own, dict[str, Mapped]()
        self.changed = False  # whether what is being expanded depends on the recipe

    def expanded(self, text: Mapped, depth: int = 0) -> Mapped:
        parts: list[Mapped] = []
        done = size = 0
        source, unclosed = text.text, False
        while (at := source.find("$", done)) >= 0 and at + 1 < len(source):
            parts.append(text.part(done, at))
            following = source[at + 1]
            close = closing(source, at + 1) if following in "({" and not unclosed else -1
            unclosed = unclosed or (following in "({" and close < 0)  # what follows it is inside it
            if following == "$":
                value, done = made("$", text.pos[at]), at + 2
            elif close > 0:
                value, done = (
                    self._reference(text.part(at + 2, close), text.pos[at], depth),
                    close + 1,
                )
            elif following.isalnum() or following in AUTOMATIC:
                value, done = self.variable(following, text.pos[at], depth), at + 2
            else:
                value, done = text.part(at, at + 1), at + 1
            size += len(value)
            if size > MAX_TEXT:
                return hole("...", text.first())
            parts.append(value)
        return join((*parts, text.part(done, len(text))))

    def variable(self, name: str, at: int, depth: int) -> Mapped:
        if name in self.done:
            return self._paid(self.done[name], name, at)
        if name in self.mine:
            self.changed = True
            return self._paid(self.mine[name], name, at)
        value = self.own.get(name) or self.values.get(("", name))
        if value is None or depth > MAX_DEPTH or name in self.open:
            self.changed = self.changed or name in self.local or name in self.own
            return self._paid(hole(name[:40], at), "...", at)
        outer, self.changed = self.changed, name in self.local or name in self.own
        self.open.add(name)
        text = self.expanded(value.whole(), depth + 1) if value.size else EMPTY
        self.open.discard(name)
        (self.mine if self.changed else self.done)[name] = text
        self.changed = self.changed or outer
        return self._paid(text, name, at)

    def _paid(self, text: Mapped, name: str, at: int) -> Mapped:
        """The text, as long as the file's variables have not grown beyond all measure."""
        self.references += 1
        self.total += len(text)
        if self.references <= MAX_REFERENCES and self.total <= MAX_TOTAL:
            return text
        self.reading.note(
            "the variables of this makefile multiply; what they hold is not known from here on", at
        )
        return hole(name[:40], at)

    def _reference(self, inside: Mapped, at: int, depth: int) -> Mapped:
        word, _, rest = inside.text.partition(" ")
        if word != "call":
            return self.variable(inside.text, at, depth)
        name = rest.partition(",")[0].strip()
        if (("", name) not in self.values and name not in self.own) or depth > MAX_DEPTH:
            return self._paid(hole(name[:40], at), "...", at)
        return self._called(name, inside.part(len(inside) - len(rest), len(inside)), at, depth)

    def _called(self, name: str, given: Mapped, at: int, depth: int) -> Mapped:
        """`$(call NAME,first,second)`: `$(1)`, `$(2)` hold for this call only."""
        cuts = [*(found.start() for found in _COMMA.finditer(given.text)), len(given)][:10]
        pieces = [given.part(cuts[i] + 1, cuts[i + 1]) for i in range(len(cuts) - 1)]
        arguments = [self.expanded(piece, depth + 1) for piece in pieces]
        # a shell's `$` would be expanded as make's once more
        plain = [hole("...", at) if "$" in one.text else one for one in arguments]
        outer, mine = self.own, self.mine
        own = {str(number): Value(one, None, len(one)) for number, one in enumerate(plain, 1)}
        self.own, self.mine = {**outer, **own}, {}
        value = self.variable(name, at, depth + 1)
        self.own, self.mine, self.changed = outer, mine, True
        return value


def logical(text: Mapped) -> list[Mapped]:
    """Lines with those that a backslash joins to them."""
    return [text.part(*found.span()) for found in _LINES.finditer(text.text) if found.group()]
