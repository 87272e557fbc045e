"""What an expression of a Python program comes to, as far as the file holds it."""

import ast
import json
import re
from collections.abc import Iterable

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Env
from advisor.readers.reading import Reading
from advisor.readers.syntax.grown_lists import GrownLists
from advisor.readers.syntax.mapped import (
    EMPTY,
    HOLE_CLOSE,
    HOLE_OPEN,
    Mapped,
    fill_format,
    hole,
    join,
    literal,
    replace_matches,
    synthetic,
)
from advisor.readers.syntax.python_nodes import (
    dotted_name,
    is_dictionary,
    is_text,
    path_parts,
    summands,
)

# what they are given, as an argument is spelt
_SAME = ("int", "float", "str", "json.dumps", "Path", "pathlib.Path")
_PERCENT = lazy_re("%[dsi]")
_PART = lazy_re(r"([\"'])((?:(?!\1)[^\\\n])*)\1")
_FALLBACKS = ("getenv", "get", "environ.get")
# characters that names which stand for each other may add up to, and the same for each step
MAX_WORK = 4_000_000
STEP = 20


class PythonValues:
    """Names, environment and lists of one program, and what an expression comes to."""

    def __init__(self, tree: ast.Module, reading: Reading) -> None:
        self.tree, self.reading = tree, reading
        self.names: dict[str, ast.expr] = {}
        self.env: Env = {}
        self.lists = GrownLists(self.follow)
        self.deciding = 0
        self.work = 0

    def entries(self, node: ast.expr, depth: int = 0) -> dict[str, tuple[int, ast.expr]] | None:
        """A dictionary's keys and values, later ones too; None if the file does not tell."""
        node = self.follow(node)
        if not self.worth(10 * STEP) or depth > 8 or not is_dictionary(node):
            return None
        known: dict[str, tuple[int, ast.expr]] = {}
        given: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            given = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call):
            given = [(None, value) for value in node.args[:1]]
            for one in node.keywords:
                name = ast.Constant(one.arg, lineno=one.lineno, col_offset=one.col_offset - 1)
                given.append((name if one.arg else None, one.value))
        given += [(None, later) for later in self.lists.added.get(id(node), ())]
        for key, value in given:
            if key is None:
                known |= self.entries(value, depth + 1) or {}
            elif isinstance(self.follow(key), ast.Constant):
                known[str(self.plain(key, depth + 1))] = (self.at(key) + 1, value)
            if not self.worth(len(known) if key is None else STEP):
                break
        return known

    def worth(self, cost: int) -> bool:
        """Spend some of the work that one program may cause; False when it is spent."""
        self.work += cost
        return self.work < MAX_WORK

    def follow(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A name to what the file assigns to it; `os.environ.get("X", default)` to its default."""
        while depth < 10:
            depth += 1
            if isinstance(node, ast.Name) and node.id in self.names:
                node = self.names[node.id]
            elif isinstance(node, ast.Call) and node.args:
                name = dotted_name(node.func)
                if len(node.args) == 2 and name.endswith(_FALLBACKS):
                    node = node.args[1]
                elif name in _SAME:
                    node = node.args[0]
                else:
                    break
            elif isinstance(node, ast.IfExp) and (verdict := self._truth(node.test)) is not None:
                node = node.body if verdict else node.orelse
            else:
                break
        return node

    def _truth(self, test: ast.expr) -> bool | None:
        if self.deciding > 2:
            return None
        self.deciding += 1
        verdict = self.lists.truth(test)
        self.deciding -= 1
        return verdict

    def text(self, node: ast.expr, depth: int = 0) -> Mapped:
        """A value as the command line's text; what the file does not hold is a hole."""
        node = self.follow(node)
        if not self.worth(STEP):
            return hole("...", self.at(node))
        value = self._text(node, depth)
        if depth < 8 and is_text(node):
            value = join((value, *self._texts(self.lists.added.get(id(node), ()), depth)))
        return value if self.worth(len(value)) else hole("...", self.at(node))

    def _texts(self, nodes: Iterable[ast.expr], depth: int) -> list[Mapped]:
        return [self.text(node, depth + 1) for node in nodes]

    def _text(self, node: ast.expr, depth: int) -> Mapped:
        at = self.at(node)
        if isinstance(node, ast.Constant):
            return self._constant(node, at)
        if isinstance(node, ast.List | ast.Tuple) or is_dictionary(node):
            whole, parts = json.dumps(self.plain(node)), self._json_parts(node, 0)
            return parts if parts.text == whole else synthetic(whole, at)
        made = self._put_together(node, depth) if depth < 8 else None
        if made is not None:
            return made
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return join((synthetic("-", at), self.text(node.operand, depth + 1)))
        return hole(re.sub(r"[^\w.]", "", dotted_name(node)) or "...", at)

    def _put_together(self, node: ast.expr, depth: int) -> Mapped | None:
        """A text that is put together from others; None for any other expression."""
        match node:
            case ast.JoinedStr(values=values):
                plain = (
                    one.value if isinstance(one, ast.FormattedValue) else one for one in values
                )
                return join(self._texts(plain, depth))
            case ast.BinOp(op=ast.Add()):
                return join(self._texts(summands(node), depth))
            case ast.BinOp(left=left, op=ast.Mod()):  # "...%d..." % value
                right = self.follow(node.right)
                items = right.elts if isinstance(right, ast.Tuple) else [right]
                given = iter(self._texts(items, depth))
                text = self.text(left, depth + 1)
                return replace_matches(text, _PERCENT, lambda *_: next(given, EMPTY))
            case ast.IfExp(body=body, orelse=ast.Constant(value="")):
                return self.text(body, depth + 1)  # what a condition adds is read, as an `if` is
        if isinstance(node, ast.Call) and (pattern := self.format_of(node)) is not None:
            named = {one.arg: self.text(one.value, depth + 1) for one in node.keywords if one.arg}
            return fill_format(self.text(pattern, depth + 1), self._texts(node.args, depth), named)
        parts = self._texts(path_parts(node), depth)
        return (
            join([one for part in parts for one in (synthetic("/"), part)][1:]) if parts else None
        )

    def _json_parts(self, node: ast.expr, depth: int) -> Mapped:
        node = self.follow(node)
        if is_dictionary(node) and depth < 8:
            found: list[Mapped] = []
            for name, (at, value) in (self.entries(node, depth) or {}).items():
                comma = [synthetic(", ")] if found else []
                written = self.reading.source.text.startswith(name, at)
                key = literal(name, at) if written and name else synthetic(json.dumps(name)[1:-1])
                inner = self._json_parts(value, depth + 1)
                found += [*comma, synthetic('"'), key, synthetic('": '), inner]
            return join((synthetic("{", self.at(node)), *found, synthetic("}")))
        said = json.dumps(self.plain(node, depth))
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            inner = self._constant(node, self.at(node))
            if said.strip('"') == inner.text:
                quote = synthetic('"' if said.startswith('"') else "")
                return join((quote, inner, quote))
            if isinstance(node.value, bool):
                at = self.at(node)
                return Mapped(said, [at + i for i in range(len(said))])
        return synthetic(said)

    def format_of(self, node: ast.expr) -> ast.expr | None:
        """The text that `"...{name}...".format(...)` fills; None for another call."""
        match node:
            case ast.Call(func=ast.Attribute(value=text, attr="format")):
                pattern = self.follow(text)
                return pattern if is_text(pattern) else None
        return None

    def _constant(self, node: ast.Constant, at: int) -> Mapped:
        value = node.value
        if value is Ellipsis:
            return hole("...", at)
        if not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            raw = self.reading.source.text[at : at + len(text)]
            return literal(text, at) if raw == text else synthetic(text, at)
        found = self.reading.source.text.find(value, at, at + len(value) + 6) if value else -1
        value = value.replace(HOLE_OPEN, "?").replace(HOLE_CLOSE, "?")
        if found >= 0:
            return literal(value, found)
        text = self.reading.source.text  # of texts one behind the other, or with escapes
        parts = _PART.finditer(text, max(at, 0), max(at, 0) + 3 * len(value) + 200)
        places = [place for part in parts for place in range(*part.span(2))][: len(value)]
        same = "".join(text[place] for place in places) == value
        return Mapped(value, places) if same else synthetic(value, at)

    def plain(self, node: ast.expr, depth: int = 0) -> object:
        """Return the expression as dicts, lists and constants, None where it is not known."""
        node = self.follow(node)
        if depth > 12:
            return None
        if is_dictionary(node):
            known = self.entries(node, min(depth, 8)) or {}
            return {name: self.plain(value, depth + 1) for name, (_, value) in known.items()}
        if isinstance(node, ast.List | ast.Tuple) and self.worth(STEP * len(node.elts) + STEP):
            return [self.plain(item, depth + 1) for item in node.elts[:1000]]
        if isinstance(node, ast.Constant) and (
            node.value is None or isinstance(node.value, str | int | float)
        ):
            return node.value
        return self.text(node).display()

    def at(self, node: ast.AST) -> int:
        """Character offset of a node (the tree counts columns in UTF-8 bytes)."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        source = self.reading.source
        if not 1 <= line <= len(source.starts):
            return -1
        text = source.line_text(line)
        return source.starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))
        )


def foreign_names(nodes: Iterable[ast.AST], but: tuple[str, ...]) -> frozenset[str]:
    """The names imported from other libraries: `LLM` is a class of TensorRT-LLM too."""
    named: list[tuple[str, str]] = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level:
            named += [(node.module or "", one.asname or one.name) for one in node.names]
        elif isinstance(node, ast.Import):
            named += [(one.name, one.asname or one.name.partition(".")[0]) for one in node.names]
    return frozenset(
        name for module, name in named if not any(p.startswith(but) for p in module.split("."))
    )
