"""YAML and JSON as nodes with places, built from events with guards: nothing but text is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.readers.source import SourceText
from advisor.readers.syntax.mapped import HOLE, HOLE_OPEN, Mapped
from advisor.readers.syntax.templates import VANISHED, without_templates

MAX_NODES = 200_000
MAX_DEPTH = 120
BLANK = " \t\r\n" + VANISHED


class Node:
    """A scalar (`text`), a sequence (`items`) or a mapping (`pairs`)."""

    __slots__ = ("_own", "end", "items", "kind", "pairs", "parsed", "start", "style", "text")

    def __init__(self, kind: Literal["scalar", "seq", "map"], start: int) -> None:
        self.kind, self.start, self.end = kind, start, start
        self.text = ""
        self.style: str | None = None
        self.parsed: str | None = None  # the text that was parsed, where it is not the file's own
        self.items: list[Node] = []
        self.pairs: list[tuple[Node, Node]] = []
        self._own: dict[str, Node] | None = None  # the values of the mapping's own keys

    def get(self, *names: str) -> Node | None:
        """The value of the first of these keys; merged mappings (`<<`) come last."""
        for name in names:
            found = self._find(name, 0)
            if found is not None:
                return found
        return None

    def _find(self, name: str, depth: int) -> Node | None:
        own = self._own
        if own is None:  # asked for once all pairs are known
            own = self._own = {}
            for key, value in self.pairs:
                if key.kind == "scalar":
                    own.setdefault(key.text, value)
        if name in own or "<<" not in own or depth >= 8:
            return own.get(name)
        for key, value in self.pairs:
            if key.text == "<<" and key.kind == "scalar":
                for merged in value.items or [value]:
                    found = merged._find(name, depth + 1)
                    if found is not None:
                        return found
        return None

    def forget(self) -> None:
        """A key was respelt: look at the keys again."""
        self._own = None

    def path(self, dotted: str) -> Node | None:
        """`get` along a dotted path."""
        node: Node | None = self
        for name in dotted.split("."):
            node = node.get(name) if node is not None else None
        return node

    def entries(self, depth: int = 0) -> list[tuple[Node, Node]]:
        """Key and value pairs with merged ones after the mapping's own."""
        own = [
            (key, value) for key, value in self.pairs if key.kind == "scalar" and key.text != "<<"
        ]
        if depth < 8:
            names = {key.text for key, _ in own}
            for key, value in self.pairs:
                if key.text == "<<" and key.kind == "scalar":
                    for merged in value.items or [value]:
                        own += [
                            pair for pair in merged.entries(depth + 1) if pair[0].text not in names
                        ]
                        names = {pair[0].text for pair in own}
        return own

    @property
    def is_null(self) -> bool:
        """Whether the node is an unquoted null."""
        return (
            self.kind == "scalar"
            and self.style is None
            and self.text in ("", "~", "null", "Null", "NULL")
        )

    @property
    def truth(self) -> bool | None:
        """The boolean that a plain scalar is, None for anything else."""
        if self.kind != "scalar":
            return None
        return {
            "true": True,
            "yes": True,
            "on": True,
            "false": False,
            "no": False,
            "off": False,
        }.get(self.text.lower())


def compose_all(source: SourceText, text: str | None = None) -> list[Node]:
    """The documents of a YAML text. Raises AdvisorError with the line for a bad one."""
    text = source.text if text is None else text
    if "{{" in text or "{%" in text:
        text = without_templates(text)
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _build(
            yaml.parse(text, Loader=loader), source.name, None if text == source.text else text
        )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "not valid YAML"
        line = f" line {source.place(mark.index)[0]}:" if mark is not None else ""
        raise AdvisorError(f"{source.name}:{line} {what}; mend the YAML first") from None
    except (RecursionError, ValueError):
        raise AdvisorError(f"{source.name}: is not valid YAML; mend it first") from None


_BEGINS = frozenset(("ScalarEvent", "SequenceStartEvent", "MappingStartEvent", "AliasEvent"))


def _build(events: Iterator[object], name: str, parsed: str | None) -> list[Node]:
    documents: list[Node] = []
    stack: list[Node] = []
    keys: list[Node | None] = []
    anchors: dict[str, Node] = {}
    count = 0
    for event in events:
        kind = type(event).__name__
        if kind in _BEGINS:
            count += 1
            if count > MAX_NODES:
                raise AdvisorError(
                    f"{name}: has more than {MAX_NODES} YAML nodes; that is no launch configuration"
                )
            node = _node(event, kind, anchors, stack, name)
            if parsed is not None and kind == "ScalarEvent":
                node.parsed, node.text = parsed, node.text.replace(VANISHED, "")
            _attach(node, stack, keys, documents)
            if kind not in ("ScalarEvent", "AliasEvent"):
                if len(stack) >= MAX_DEPTH:
                    raise AdvisorError(
                        f"{name}: is nested deeper than {MAX_DEPTH} levels; that is no launch "
                        f"configuration"
                    )
                stack.append(node)
                keys.append(None)
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            stack.pop().end = event.end_mark.index  # type: ignore[attr-defined]
            keys.pop()
        elif kind == "DocumentStartEvent":
            anchors = {}
    return documents


def _node(event: object, kind: str, anchors: dict[str, Node], stack: list[Node], name: str) -> Node:
    start: int = event.start_mark.index  # type: ignore[attr-defined]
    anchor: str | None = event.anchor  # type: ignore[attr-defined]
    if kind == "AliasEvent":
        known = anchors.get(anchor or "")
        line = event.start_mark.line + 1  # type: ignore[attr-defined]
        if known is None:
            raise AdvisorError(
                f"{name}: line {line}: a YAML alias has no anchor; mend the YAML first"
            )
        if any(known is open_node for open_node in stack):
            raise AdvisorError(
                f"{name}: line {line}: a YAML anchor contains itself; mend the YAML first"
            )
        return known
    if kind == "ScalarEvent":
        node = Node("scalar", start)
        node.text, node.style = event.value, event.style or None  # type: ignore[attr-defined]
        node.end = event.end_mark.index  # type: ignore[attr-defined]
    else:
        node = Node("seq" if kind == "SequenceStartEvent" else "map", start)
    if anchor:
        anchors[anchor] = node
    return node


def _attach(node: Node, stack: list[Node], keys: list[Node | None], documents: list[Node]) -> None:
    if not stack:
        documents.append(node)
    elif stack[-1].kind == "seq":
        stack[-1].items.append(node)
    elif keys[-1] is None:
        keys[-1] = node
    else:
        stack[-1].pairs.append((keys[-1], node))
        keys[-1] = None


def scalar(node: Node, source: SourceText) -> Mapped:
    """A scalar's text with each character's place; an alias points to its anchor."""
    value, raw = node.text, (node.parsed or source.text)[node.start : node.end]
    if HOLE_OPEN in value and len(value) < 300_000:
        return _with_hole(value, _align(value, raw, node.start, node.style))
    if node.style in ("'", '"') and raw[1:-1] == value:
        return Mapped(value, range(node.start + 1, node.start + 1 + len(value)))
    if raw == value:
        return Mapped(value, range(node.start, node.start + len(value)))
    if len(value) > 300_000:
        return Mapped(value, [node.start] + [-1] * (len(value) - 1))
    return Mapped(value, _align(value, raw, node.start, node.style))


def _with_hole(value: str, pos: list[int]) -> Mapped:
    """A template is no text that could be edited: only where it begins is known."""
    for found in HOLE.finditer(value):
        pos[found.start() + 1 : found.end()] = [-1] * (found.end() - found.start() - 1)
    return Mapped(value, pos)


def _align(value: str, raw: str, base: int, style: str | None) -> list[int]:
    """Where each character of a folded, literal or quoted scalar stands."""
    i = 0
    if style in ("|", ">"):
        i = raw.find("\n") + 1
    elif style in ("'", '"'):
        i = 1
    pos: list[int] = []
    whole = style not in ("'", '"')  # then what is the same in both is taken a line at a time
    at = 0
    while at < len(value):
        char = value[at]
        if i < len(raw) and raw[i] == char != "\n":
            same = _same_line(value, at) if whole else _same_words(raw, i)
            if same and raw.startswith(same, i) and value.startswith(same, at):
                pos += range(base + i, base + i + len(same))
                at, i = at + len(same), i + len(same)
                continue
        at += 1
        while (
            i < len(raw)
            and raw[i] != char
            and raw[i] in BLANK
            and not (char == " " and raw[i] == "\n")
        ):
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


def _same_line(value: str, at: int) -> str:
    end = value.find("\n", at)
    return value[at : end if end >= 0 else len(value)]


_WORDS = lazy_re(r"[^\s\\'\"]+(?:[ ]+[^\s\\'\"]+)*")  # which a quoted text and its value share


def _same_words(raw: str, at: int) -> str:
    found = _WORDS.match(raw, at)
    return found.group() if found is not None else ""


def _escape(raw: str, i: int, pos: list[int], base: int) -> int:
    """One escape of a double-quoted scalar: its character counts as not editable."""
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
