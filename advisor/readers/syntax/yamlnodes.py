"""YAML and JSON as nodes with places, built from events with guards: nothing but text is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.readers.source import SourceText
from advisor.readers.syntax.mapped import HOLE, HOLE_OPEN, Mapped, literal
from advisor.readers.syntax.templates import VANISHED, without_templates

MAX_NODES = 200_000
MAX_DEPTH = 120
MAX_ALIGNED = 300_000  # characters of a scalar whose places are looked for
BLANK = " \t\r\n" + VANISHED


class Node:
    """A scalar (`text`), sequence (`items`) or mapping (`pairs`); NOTHING is none, and false."""

    __slots__ = ("_own", "end", "items", "kind", "pairs", "raw", "start", "style", "text")

    def __init__(self, kind: Literal["scalar", "seq", "map", ""], start: int, raw: str) -> None:
        self.kind, self.start, self.end = kind, start, start
        self.raw = raw  # the text that was parsed, of the length of the file's own
        self.text = ""
        self.style: str | None = None
        self.items: list[Node] = []
        self.pairs: list[tuple[Node, Node]] = []
        self._own: dict[str, Node] | None = None  # the values of the mapping's own keys

    def __bool__(self) -> bool:
        return self.kind != ""

    def get(self, *names: str) -> Node:
        """The value of the first of these keys; merged mappings (`<<`) come last."""
        first = self._find(names[0], 0)
        return first if first.kind or len(names) == 1 else self.get(*names[1:])

    def _find(self, name: str, depth: int) -> Node:
        own = self._own
        if own is None:  # asked for once all pairs are known
            own = self._own = {}
            for key, value in self.pairs:
                if key.kind == "scalar":
                    own.setdefault(key.text, value)
        if name in own or "<<" not in own or depth >= 8:
            return own.get(name, NOTHING)
        merged = (one._find(name, depth + 1) for one in self._merge_values())
        return next((found for found in merged if found), NOTHING)

    def _merge_values(self) -> Iterator[Node]:
        for key, value in self.pairs:
            if key.text == "<<" and key.kind == "scalar":
                yield from value.members

    def forget(self) -> None:
        """A key was respelt: look at the keys again."""
        self._own = None

    def path(self, dotted: str) -> Node:
        """`get` along a dotted path."""
        node = self
        for name in dotted.split("."):
            node = node.get(name)
        return node

    def entries(self, depth: int = 0) -> list[tuple[Node, Node]]:
        """Key and value pairs with merged ones after the mapping's own."""
        own = [pair for pair in self.pairs if pair[0].kind == "scalar" and pair[0].text != "<<"]
        if depth < 8 and len(own) < len(self.pairs):
            for merged in self._merge_values():
                names = {key.text for key, _ in own}
                own += [pair for pair in merged.entries(depth + 1) if pair[0].text not in names]
        return own

    @property
    def members(self) -> list[Node]:
        """The items of a sequence, another node alone, nothing of none."""
        return self.items or ([self] if self else [])

    @property
    def is_null(self) -> bool:
        """Whether the node is an unquoted null."""
        nulls = ("", "~", "null", "Null", "NULL")
        return self.kind == "scalar" and self.style is None and self.text in nulls

    @property
    def truth(self) -> bool | None:
        """The boolean that a scalar is, None for anything else."""
        return _TRUTHS.get(self.text.lower()) if self.kind == "scalar" else None

    @property
    def text_map(self) -> Mapped:
        """A scalar's text with each character's place; an alias points to its anchor."""
        value, raw, start = self.text, self.raw[self.start : self.end], self.start
        if HOLE_OPEN in value and len(value) < MAX_ALIGNED:
            pos = _align(value, raw, start, self.style)
            for found in HOLE.finditer(value):  # of a template only its begin is known
                pos[found.start() + 1 : found.end()] = [-1] * (len(found.group()) - 1)
            return Mapped(value, pos)
        if self.style in ("'", '"') and raw[1:-1] == value:
            return literal(value, start + 1)
        if raw == value:
            return literal(value, start)
        if len(value) > MAX_ALIGNED:
            return Mapped(value, [start] + [-1] * (len(value) - 1))
        return Mapped(value, _align(value, raw, start, self.style))


NOTHING = Node("", -1, "")
_TRUTHS = dict.fromkeys(("true", "yes", "on"), True) | dict.fromkeys(("false", "no", "off"), False)


def compose_all(source: SourceText) -> list[Node]:
    """The documents of a YAML text. Raises AdvisorError with the line for a bad one."""
    text = source.text
    text = without_templates(text) if "{{" in text or "{%" in text else text
    import yaml  # start-up: most files are no YAML

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return _build(yaml.parse(text, Loader=loader), source.name, text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "not valid YAML"
        line = f" line {source.place(mark.index)[0]}:" if mark is not None else ""
        raise AdvisorError(f"{source.name}:{line} {what}; mend the YAML first") from None
    except (RecursionError, ValueError):
        raise AdvisorError(f"{source.name}: is not valid YAML; mend it first") from None


_KINDS: dict[str, Literal["scalar", "seq", "map"]] = {
    "ScalarEvent": "scalar", "SequenceStartEvent": "seq", "MappingStartEvent": "map",
}  # fmt: skip


def _build(events: Iterator[Any], name: str, text: str) -> list[Node]:
    documents: list[Node] = []
    stack: list[Node] = []
    keys: list[Node | None] = []
    anchors: dict[str, Node] = {}
    count = 0
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent" or kind in _KINDS:
            count += 1
            if count > MAX_NODES or (len(stack) >= MAX_DEPTH and kind.endswith("StartEvent")):
                most = f"has more than {MAX_NODES} YAML nodes"
                most = most if count > MAX_NODES else f"is nested deeper than {MAX_DEPTH} levels"
                raise AdvisorError(f"{name}: {most}; that is no launch configuration")
            node = _node(event, kind, anchors, text)
            if node is None or (kind == "AliasEvent" and node in stack):
                what = "alias has no anchor" if node is None else "anchor contains itself"
                line = event.start_mark.line + 1
                raise AdvisorError(f"{name}: line {line}: a YAML {what}; mend the YAML first")
            if not stack:
                documents.append(node)
            elif stack[-1].kind == "seq":
                stack[-1].items.append(node)
            elif (key := keys[-1]) is None:
                keys[-1] = node
            else:
                stack[-1].pairs.append((key, node))
                keys[-1] = None
            if kind.endswith("StartEvent"):
                stack.append(node)
                keys.append(None)
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            stack.pop().end = event.end_mark.index
            keys.pop()
        elif kind == "DocumentStartEvent":
            anchors = {}
    return documents


def _node(event: Any, kind: str, anchors: dict[str, Node], text: str) -> Node | None:
    if kind == "AliasEvent":
        return anchors.get(event.anchor or "")
    node = Node(_KINDS[kind], event.start_mark.index, text)
    if kind == "ScalarEvent":
        node.text, node.style = event.value.replace(VANISHED, ""), event.style or None
        node.end = event.end_mark.index
    if event.anchor:
        anchors[event.anchor] = node
    return node


def _align(value: str, raw: str, base: int, style: str | None) -> list[int]:
    """Where each character of a folded, literal or quoted scalar stands."""
    i = 0
    if style in ("|", ">"):
        i = raw.find("\n") + 1
    elif style in ("'", '"'):
        i = 1
    pos: list[int] = []
    whole = style not in ("'", '"')  # then what is the same in both is taken in long parts
    at = 0
    while at < len(value):
        char = value[at]
        if i < len(raw) and raw[i] == char != "\n":
            shared = (_PART if whole else _WORDS).match(raw, i)
            same = shared.group() if shared is not None else ""
            if same and raw.startswith(same, i) and value.startswith(same, at):
                pos += range(base + i, base + i + len(same))
                at, i = at + len(same), i + len(same)
                continue
        at += 1
        while i < len(raw) and raw[i] != char and raw[i] in BLANK:
            if char == " " and raw[i] == "\n":
                break
            i += 1
        if i < len(raw) and style == '"' and raw[i] == "\\":
            i = _escape(raw, i, pos, base)
            continue
        if i < len(raw) and (raw[i] == char or (char in " \n" and raw[i] in " \n")):
            pos.append(base + i)
            i += 2 if style == "'" and char == "'" else 1
        else:
            pos.append(-1)
            i += 1 if i < len(raw) and (raw[i] == HOLE_OPEN or raw[i] in "{}_") else 0
    return pos


_PART = lazy_re(r"[^\n]{1,400}")  # of a line: one that differs is not read again to its end
_WORDS = lazy_re(r"[^\s\\'\"]+(?:[ ]+[^\s\\'\"]+)*")  # which a quoted text and its value share


def _escape(raw: str, i: int, pos: list[int], base: int) -> int:
    following = raw[i + 1 : i + 2]
    if following in ("\n", "\r"):
        i += 1
        while i < len(raw) and raw[i] in " \t\r\n":
            i += 1
        if i < len(raw):
            pos.append(base + i)
        return i + 1
    pos.append(base + i if following in ('"', "\\", "/") else -1)
    return i + {"x": 4, "u": 6, "U": 10}.get(following, 2)


def walk(node: Node, budget: int = 20_000) -> Iterator[Node]:
    """Every mapping under a node, outermost first, each once."""
    seen: set[int] = set()
    queue = [node]
    while queue and budget > 0:
        budget -= 1
        current = queue.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.kind == "map":
            yield current
            queue += [value for _, value in reversed(current.pairs) if value.kind != "scalar"]
        elif current.kind == "seq":
            queue += [item for item in reversed(current.items) if item.kind != "scalar"]
