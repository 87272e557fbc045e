"""HashiCorp's language: Terraform and Nomad. Blocks and attributes become the nodes that YAML
becomes; nothing is evaluated.

`local.x` and `var.x` stand for what the file itself sets; every other expression is a hole.
"""

from __future__ import annotations

import json
import re
from itertools import islice

from advisor.readers.forms.kubernetes import read_containers
from advisor.readers.forms.settings_yaml import plain
from advisor.readers.reading import Reading
from advisor.readers.source import Source
from advisor.readers.syntax.hcl_text import (
    COMPUTED,
    MAX_VALUE,
    heredoc,
    hole_name,
    quoted,
    with_holes,
)
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped
from advisor.readers.syntax.yamlnodes import Node, scalar

_BLANK = Lazy(r"(?:[ \t\r\n]+|#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.S)
_SPACE = Lazy(r"(?:[ \t\r]+|/\*.*?\*/)*", re.S)
_NAME = Lazy(r"[A-Za-z_][\w-]*")
_WORD = Lazy(r"-?\d[\w.]*|[A-Za-z_][\w-]*(?:\.[\w*-]+)*")
_OPERATOR = Lazy(r"==|!=|<=|>=|&&|\|\||[+*/%<>-]")
_REST = Lazy(r"[^\n,\])}\"]*")
_ENCODED = "encoded"  # the style of an object that `jsonencode` was given
_SAME = ("tostring", "tolist", "toset", "trimspace", "nonsensitive", "sensitive")
MAX_TEXT, MAX_NODES, MAX_DEPTH, MAX_ITEMS = 150_000, 20_000, 40, 2_000
PASSES = 3  # a local may stand for another one


def read_hcl(reading: Reading) -> None:
    """Every container and every command of the file's blocks."""
    text = reading.source.text
    if len(text) > MAX_TEXT:
        reading.note(f"a file of {len(text)} characters is not read")
        return
    known: dict[str, Node] = {}
    for _ in range(PASSES if "locals" in text or "variable" in text else 0):
        known = _settings(Blocks(text, known).read())
    reading.values = _values(known, reading.source)
    read_containers(Blocks(text, known).read(), reading, "hcl")


def _settings(root: Node) -> dict[str, Node]:
    """What `local.x` and `var.x` stand for."""
    known: dict[str, Node] = {}
    for key, value in root.pairs:
        for block in value.items or [value]:
            if key.text == "locals":
                known |= {f"local.{name.text}": given for name, given in block.pairs}
            elif key.text.startswith("variable ") and (default := block.get("default")) is not None:
                known[f"var.{key.text.partition(' ')[2]}"] = default
    return known


def _values(known: dict[str, Node], source: Source) -> dict[str, Mapped]:
    """The texts that expressions in here-documents stand for, by the names that their holes have."""
    named = dict(known)
    for name, value in known.items():
        named |= {f"{name}.{key.text}": given for key, given in value.pairs}
    texts = (
        (name, value)
        for name, value in named.items()
        if value.kind == "scalar" and len(value.text) <= MAX_VALUE
    )
    return {hole_name(name): scalar(value, source) for name, value in texts}


class Blocks:
    """One text. A block's labels stand behind its name in the key: `resource docker_container
    vllm`.
    """

    def __init__(self, text: str, known: dict[str, Node]) -> None:
        self.text, self.known, self.at, self.count, self.depth = text, known, 0, 0, 0
        self.parsed = with_holes(text)
        self.scripts = with_holes(text, COMPUTED)

    def read(self) -> Node:
        return self.body()

    def node(self, kind: str, start: int) -> Node:
        self.count += 1
        return Node("seq" if kind == "seq" else "map" if kind == "map" else "scalar", start)

    def unknown(self, start: int, name: str = "...") -> Node:
        node = self.node("scalar", start)
        node.text, node.end = HOLE_OPEN + re.sub(r"[^\w.]", "_", name)[:40] + HOLE_CLOSE, start
        return node

    def spent(self) -> bool:
        return self.count > MAX_NODES or self.depth > MAX_DEPTH or self.at >= len(self.text)

    def skip(self, pattern: Lazy = _BLANK) -> str:
        """Go past blanks and comments; the character that follows."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def body(self, close: str = "") -> Node:
        """Attributes and blocks up to the closing brace."""
        whole = self.node("map", self.at)
        self.depth += 1
        while not self.spent() and self.skip() not in ("", close or "\0"):
            start = self.at
            name = self.key()
            if name is None:
                self.at += 1
            elif self.skip(_SPACE) in ("=", ":"):
                self.at += 1
                _keep(whole, name, self.value(whole=True))
            else:
                self.block(whole, name)
            self.skip(_SPACE)
            self.at += self.text[self.at : self.at + 1] == ","
            self.at += self.at == start
        self.at += bool(close)
        self.depth -= 1
        whole.end = self.at
        return whole

    def key(self) -> Node | None:
        if self.text[self.at : self.at + 1] == '"':
            return self.string()
        found = _NAME.match(self.text, self.at)
        if found is None:
            return None
        name = self.node("scalar", self.at)
        name.text, name.end = found.group(), found.end()
        self.at = found.end()
        return name

    def block(self, whole: Node, name: Node) -> None:
        """`name "label" {`: kept under its name; one that stands there several times as a list."""
        labels: list[str] = []
        while (label := self.key()) is not None and len(labels) < 4:
            labels.append(label.text)
            self.skip(_SPACE)
        if self.text[self.at : self.at + 1] != "{":
            return
        self.at += 1
        inner = self.body("}")
        name.text = " ".join((name.text, *labels))
        before = next((value for key, value in whole.pairs if key.text == name.text), None)
        listed = (
            name.text == "env" and inner.get("name") is not None
        )  # a variable a block, as Kubernetes lists them
        if before is not None and before.kind == "seq":
            before.items.append(inner)
        elif before is not None or listed:
            several = self.node("seq", inner.start)
            several.items = [*([before] if before is not None else []), inner]
            whole.pairs = [pair for pair in whole.pairs if pair[1] is not before]
            _keep(whole, name, several)
        else:
            _keep(whole, name, inner)

    # -------------------------------------------------------------- expressions

    def value(self, whole: bool = False) -> Node:
        """One expression. `whole`: an attribute's own, where an encoded object is more useful as
        the object.
        """
        start = self.at
        self.skip()
        self.depth += 1
        found = self.primary(whole)
        while (
            self.skip(_SPACE) != "?"
            and not self.spent()
            and (sign := _OPERATOR.match(self.text, self.at)) is not None
        ):
            self.at = sign.end()
            self.skip()
            self.primary(False)
            found = self.unknown(start)
        if self.text[self.at : self.at + 1] == "?":
            found = self.chosen(start)
        self.depth -= 1
        return found

    def chosen(self, start: int) -> Node:
        """`? one : other`: a list that a condition adds is read, as an `if` is."""
        self.at += 1
        one = self.value()
        self.skip()
        self.at += self.text[self.at : self.at + 1] == ":"
        other = self.value()
        return one if one.kind == other.kind == "seq" and not other.items else self.unknown(start)

    def primary(self, whole: bool) -> Node:
        start, sign = self.at, self.text[self.at : self.at + 1]
        if self.spent():
            return self.unknown(start)
        if sign == '"':
            return self.string()
        if sign == "<" and (found := heredoc(self.text, start, self.scripts)) is not None:
            node, self.at = found
            self.count += 1
            return node
        if sign == "[":
            return self.items("]")
        if sign == "{":
            self.at += 1
            return self.body("}")
        if sign == "(":
            self.at += 1
            inner = self.value()
            self.skip()
            self.at += 1
            return inner
        word = _WORD.match(self.text, start)
        if word is None:
            rest = _REST.match(self.text, start)
            self.at = max(start + 1, rest.end() if rest else 0)
            return self.unknown(start)
        self.at = word.end()
        if self.text[self.at : self.at + 1] == "(":
            return self.call(word.group(), start, whole)
        return self.reference(word.group(), start, whole)

    def string(self) -> Node:
        node, self.at = quoted(self.text, self.at, self.known, self.parsed)
        self.count += 1
        return node

    def items(self, close: str) -> Node:
        """A list, or a call's arguments; `self.at` stands at the opening bracket."""
        node = self.node("seq", self.at)
        self.at += 1
        self.depth += 1
        while not self.spent() and self.skip() not in ("", close):
            before = self.at
            node.items.append(self.value())
            self.skip()
            self.at += self.text[self.at : self.at + 1] == ","
            self.at += self.at == before
        self.at += 1
        self.depth -= 1
        node.end = self.at
        return node

    def call(self, name: str, start: int, whole: bool) -> Node:
        given = self.items(")")
        if name == "concat":
            parts = (
                one
                for part in given.items
                for one in (part.items if part.kind == "seq" else [part])
            )
            given.items = list(islice(parts, MAX_ITEMS))
            return given
        if name in ("jsonencode", "yamlencode") and given.items:
            return self.marked(given.items[0]) if whole else self.encoded(given.items[0], start)
        return given.items[0] if name in _SAME and given.items else self.unknown(start, name)

    def marked(self, given: Node) -> Node:
        """The object that an attribute encodes: a list of arguments that names the attribute holds
        its text.
        """
        if given.kind == "scalar":
            return given
        node = self.node(given.kind, given.start)
        node.items, node.pairs, node.end, node.style = given.items, given.pairs, given.end, _ENCODED
        return node

    def encoded(self, given: Node, start: int) -> Node:
        node = self.node("scalar", start)
        node.text, node.end = json.dumps(plain(given), ensure_ascii=False), start
        return node

    def reference(self, path: str, start: int, whole: bool) -> Node:
        """`local.models["x"].args`, as far as the file tells; a plain word is itself."""
        steps = path.split(".")
        node = self.known.get(".".join(steps[:2]))
        rest = steps[2:]
        while self.text[self.at : self.at + 1] in ("[", ".") and not self.spent():
            if self.text[self.at] == "[":
                picked = self.items("]").items
                rest.append(picked[0].text if picked and picked[0].kind == "scalar" else "")
            else:
                found = _WORD.match(self.text, self.at + 1)
                self.at = found.end() if found else self.at + 1
                rest += found.group().split(".") if found else []
        for step in rest:
            node = node.get(step) if node is not None and node.kind == "map" else None
        if node is not None:
            return self.encoded(node, start) if node.style == _ENCODED and not whole else node
        if len(steps) > 1 and not path[0].isdigit() and path[0] != "-":
            return self.unknown(start, path)
        plain_word = self.node("scalar", start)
        plain_word.text, plain_word.end = path, start + len(path)
        return plain_word


def _keep(whole: Node, name: Node, value: Node) -> None:
    whole.pairs.append((name, value))
