"""Python programs: `LLM(...)`, `Engine(...)`, `AsyncEngineArgs(...)` keywords and argument lists,
read from the syntax tree.

Nothing is imported or executed. Names are followed to the literals that the file assigns to them.
"""

from __future__ import annotations

import ast
import json
import re
import warnings

from advisor.readers.command import read_command
from advisor.readers.forms.presets import Pair
from advisor.readers.found import Env, EnvItem, Found, Surroundings
from advisor.readers.programs import engine_start
from advisor.readers.reading import Reading
from advisor.readers.syntax.grown_lists import GrownLists
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped, hole, join, literal, made
from advisor.readers.syntax.marks import formatted
from advisor.readers.syntax.python_nodes import (
    begun_with,
    dotted,
    is_dictionary,
    is_list_sum,
    is_text,
    joined_for_shell,
    parts_of_sum,
    path_parts,
    pieces,
    summands,
)
from advisor.readers.syntax.words import split_words

_CALLS = {
    "LLM": "vllm",
    "AsyncLLM": "vllm",
    "EngineArgs": "vllm",
    "AsyncEngineArgs": "vllm",
    "Engine": "sglang",
    "ServerArgs": "sglang",
    "Runtime": "sglang",
}
_CLI = Lazy(r"vllm\s+serve|launch_server|llama-server|vllm\.entrypoints|sglang serve")
_UNFILLED = Lazy(
    r"\{\{\s*['\"]"
)  # JSON in doubled braces: a text that is to go through `str.format`
_SAME = (
    "int",
    "float",
    "str",
    "json.dumps",
    "Path",
    "pathlib.Path",
)  # what they are given, as an argument is spelt
_FALLBACKS = ("getenv", "get", "environ.get")
MAX_TEXT = 400_000
# characters that names which stand for each other may add up to, and the same for each step
MAX_WORK = 4_000_000
STEP = 20


def read_python(reading: Reading) -> None:
    """Every engine that the program makes or starts."""
    reading.form = "python"
    text = reading.source.text
    if len(text) > MAX_TEXT:
        reading.note(f"a Python program of {len(text)} characters is not read")
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        reading.note("the file is not valid Python; it was not read")
        return
    Program(tree, reading).run()


class Program:
    def __init__(self, tree: ast.Module, reading: Reading) -> None:
        self.tree, self.reading = tree, reading
        self.names: dict[str, ast.expr] = {}
        self.env: Env = {}
        self.lists = GrownLists(self.followed)
        self.joined: set[int] = set()  # ids of the lists that a shell gets as one line
        self.deciding = 0
        self.work = 0
        self.sglang = bool(re.search(r"^\s*(import sglang|from sglang)", reading.source.text, re.M))

    def run(self) -> None:
        nodes = list(ast.walk(self.tree))
        self._assignments(nodes)
        self._defaults(nodes)
        self.lists.read(self.tree.body, {})
        partial = self._partial(nodes)
        self.joined = {
            id(self.followed(one))
            for node in nodes
            if (one := joined_for_shell(node, self.followed)) is not None
        }
        summed: set[int] = set()
        for node in nodes:
            if not self.reading.step():
                return
            if isinstance(node, ast.Call):
                self.call(node)
                if id(node) not in partial and self.format_of(node) is not None:
                    self.command_text(node)
            elif (
                isinstance(node, ast.List | ast.BinOp)
                and is_list_sum(node)
                and id(node) not in summed
            ):
                summed |= parts_of_sum(node)
                self.listed(node)
            elif (
                isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
                and id(node) not in partial
                and is_text(node)
            ):
                self.command_text(node)

    def _assignments(self, nodes: list[ast.AST]) -> None:
        """Names and environment variables that the program sets."""
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.names.setdefault(target.id, node.value)
                    else:
                        self._environ(target, node.value)
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.value is not None
            ):
                self.names.setdefault(node.target.id, node.value)
            elif (
                isinstance(node, ast.Call)
                and dotted(node.func).endswith("environ.setdefault")
                and len(node.args) == 2
            ):
                self._env_item(node.args[0], node.args[1])

    def _partial(self, nodes: list[ast.AST]) -> set[int]:
        """Ids of the texts that are only a part of a longer one. The tree is walked from above: a
        sum before its pieces.
        """
        partial: set[int] = set()
        for node in nodes:
            if isinstance(node, ast.Call) and (pattern := self.format_of(node)) is not None:
                partial |= {id(pattern)} | pieces(pattern)
            if (
                isinstance(node, ast.JoinedStr | ast.BinOp)
                and id(node) not in partial
                and is_text(node)
            ):
                partial |= pieces(node)
                first = begun_with(node)
                if first is not None and id(node) not in self.lists.used:
                    partial.add(id(self.followed(first)))
        return partial | self.lists.used

    def _defaults(self, nodes: list[ast.AST]) -> None:
        """Parameters that the file assigns nowhere stand for their defaults."""
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args]
                for argument, value in zip(
                    given[len(given) - len(node.args.defaults) :], node.args.defaults, strict=True
                ):
                    self.names.setdefault(argument.arg, value)
                for argument, default in zip(
                    node.args.kwonlyargs, node.args.kw_defaults, strict=True
                ):
                    if default is not None:
                        self.names.setdefault(argument.arg, default)

    # -------------------------------------------------------------- what starts an engine

    def call(self, node: ast.Call) -> None:
        name = dotted(node.func).rsplit(".", 1)[-1]
        if name == "prepare_server_args" and node.args:
            self.reading.add(
                Found("sglang", self.words(node.args[0]), dict(self.env), self.at(node), "python")
            )
            return
        engine = _CALLS.get(name)
        fork = None
        if name == "Llama" and "llama_cpp" in self.reading.source.text:
            engine, fork = "llama-server", "llama-cpp-python"
        if engine is None or (name in ("Engine", "Runtime") and not self.sglang):
            return
        pairs: list[Pair] = []
        if node.args and name == "LLM":
            pairs.append((made("model", self.at(node)), self.text(node.args[0])))
        for keyword in node.keywords:
            if keyword.arg is None:
                pairs += self.spread(keyword.value)
            else:
                pairs += self.pair(keyword.arg, keyword.value, self.at(keyword))
        if pairs:
            around = Surroundings(kind="python")
            self.reading.add(
                Found(
                    engine,
                    [],
                    dict(self.env),
                    self.at(node),
                    "python",
                    around,
                    fork=fork,
                    pairs=pairs,
                    origin="python",
                )
            )

    def spread(self, node: ast.expr) -> list[Pair]:
        """`**settings` where the file holds the dictionary."""
        known = self.entries(node)
        if known is None:
            self.reading.note("keywords given by ** are not known from the file", self.at(node))
            return []
        return [pair for name, (at, value) in known.items() for pair in self.pair(name, value, at)]

    def entries(self, node: ast.expr, depth: int = 0) -> dict[str, tuple[int, ast.expr]] | None:
        """A dictionary's keys with their places and values, later additions included; None if the
        file does not tell.
        """
        node = self.followed(node)
        if not self.worth(10 * STEP) or depth > 8 or not is_dictionary(node):
            return None
        known: dict[str, tuple[int, ast.expr]] = {}
        given: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            given = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call):
            given = [(None, value) for value in node.args[:1]]
            for keyword in node.keywords:
                name = ast.Constant(
                    keyword.arg, lineno=keyword.lineno, col_offset=keyword.col_offset - 1
                )
                given.append((name if keyword.arg else None, keyword.value))
        for key, value in [
            *given,
            *((None, later) for later in self.lists.added.get(id(node), ())),
        ]:
            if key is None:
                known |= self.entries(value, depth + 1) or {}
            elif isinstance(self.followed(key), ast.Constant):
                known[str(self.plain(key, depth + 1))] = (self.at(key) + 1, value)
            if not self.worth(len(known) if key is None else STEP):
                break
        return known

    def worth(self, cost: int) -> bool:
        """Spend some of the work that one program may cause; False when it is spent."""
        self.work += cost
        return self.work < MAX_WORK

    def pair(self, name: str, value: ast.expr, at: int) -> list[Pair]:
        value = self.followed(value)
        if isinstance(value, ast.Constant) and value.value is None:
            return []
        return [(literal(name, at), self.text(value))]

    def listed(self, node: ast.expr) -> None:
        """`["vllm", "serve", ...]`, as given to subprocess."""
        words = self.words(node)
        if (
            id(node) in self.joined
        ):  # the shell takes the line apart anew: "--reasoning-parser qwen3" is two words there
            words = split_words(join([part for word in words for part in (word, literal(" ", -2))]))
        if words and (
            _CLI.search(" ".join(word.text for word in words[:6]))
            or any(engine_start(words, i) for i in range(min(6, len(words) - 1)))
        ):
            read_command(words, self.reading, self.env, at=self.at(node))

    def command_text(self, node: ast.expr) -> None:
        """`os.system("vllm serve ...")` and f-strings like it."""
        text = self.text(node)
        if isinstance(node, ast.Constant) and _UNFILLED.search(text.text):
            text = formatted(text, [], {})
        if (
            " -" in text.text
            and _CLI.search(text.text[:400])
            and len(text) < 20_000
            and "\n\n" not in text.text.strip()
        ):
            read_command(split_words(text), self.reading, self.env, at=self.at(node))

    def words(self, node: ast.expr, depth: int = 0) -> list[Mapped]:
        node = self.followed(node)
        if not self.worth(STEP) or depth > 8:
            return []
        if isinstance(node, ast.List | ast.Tuple):
            words: list[Mapped] = []
            for item in node.elts:
                words += (
                    self.words(item.value, depth + 1)
                    if isinstance(item, ast.Starred)
                    else [self.text(item)]
                )
            for later in self.lists.added.get(id(node), ()):
                words += self.words(later, depth + 1)
            return words
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            summed: list[Mapped] = []
            for part in summands(node):
                if not self.worth(len(summed)):
                    break  # names that stand for sums of one another
                summed += self.words(part, depth + 1)
            return summed
        if (
            isinstance(node, ast.IfExp)
            and isinstance(node.orelse, ast.List)
            and not node.orelse.elts
        ):
            return self.words(
                node.body, depth + 1
            )  # options that a condition adds are read, as an `if` is
        return [self.text(node)]

    # -------------------------------------------------------------- values

    def followed(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A name to what the file assigns to it; `os.environ.get("X", default)` to its default."""
        while depth < 10:
            depth += 1
            if isinstance(node, ast.Name) and node.id in self.names:
                node = self.names[node.id]
            elif (
                isinstance(node, ast.Call)
                and len(node.args) == 2
                and dotted(node.func).endswith(_FALLBACKS)
            ):
                node = node.args[1]
            elif isinstance(node, ast.Call) and dotted(node.func) in _SAME and node.args:
                node = node.args[0]
            elif isinstance(node, ast.IfExp) and (verdict := self._decided(node.test)) is not None:
                node = node.body if verdict else node.orelse
            else:
                break
        return node

    def _decided(self, test: ast.expr) -> bool | None:
        """The truth of a condition; a condition that rests on itself is not decided."""
        if self.deciding > 2:
            return None
        self.deciding += 1
        verdict = self.lists.truth(test)
        self.deciding -= 1
        return verdict

    def text(self, node: ast.expr, depth: int = 0) -> Mapped:
        """A value as the text that the command line would carry; what the file does not hold is a
        hole.
        """
        node = self.followed(node)
        if not self.worth(STEP):
            return hole("...", self.at(node))
        value = self._text(node, depth)
        if depth < 8 and is_text(node):
            value = join(
                (
                    value,
                    *(self.text(later, depth + 1) for later in self.lists.added.get(id(node), ())),
                )
            )
        return value if self.worth(len(value)) else hole("...", self.at(node))

    def _text(self, node: ast.expr, depth: int) -> Mapped:
        at = self.at(node)
        if isinstance(node, ast.Constant):
            return self._constant(node, at)
        if isinstance(node, ast.JoinedStr) and depth < 8:
            return join(
                [
                    self.text(
                        part.value if isinstance(part, ast.FormattedValue) else part, depth + 1
                    )
                    for part in node.values
                ]
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and depth < 8:
            return join([self.text(item, depth + 1) for item in summands(node)])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and depth < 8:
            return self._percent(node, depth)
        if (
            isinstance(node, ast.Call)
            and (pattern := self.format_of(node)) is not None
            and depth < 8
        ):
            named = {one.arg: self.text(one.value, depth + 1) for one in node.keywords if one.arg}
            return formatted(
                self.text(pattern, depth + 1),
                [self.text(one, depth + 1) for one in node.args],
                named,
            )
        if (
            isinstance(node, ast.IfExp)
            and depth < 8
            and isinstance(node.orelse, ast.Constant)
            and node.orelse.value == ""
        ):
            return self.text(
                node.body, depth + 1
            )  # an option that a condition adds is read, as an `if` is
        if isinstance(node, ast.List | ast.Tuple) or is_dictionary(node):
            return made(json.dumps(self.plain(node)), at)
        if (steps := path_parts(node)) and depth < 8:
            texts = [self.text(step, depth + 1) for step in steps]
            return join([part for text in texts for part in (made("/"), text)][1:])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return join((made("-", at), self.text(node.operand, depth + 1)))
        return hole(re.sub(r"[^\w.]", "", dotted(node)) or "...", at)

    def format_of(self, node: ast.expr) -> ast.expr | None:
        """The text that `"...{name}...".format(...)` fills; None for another call."""
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
            or node.func.attr != "format"
        ):
            return None
        pattern = self.followed(node.func.value)
        return pattern if is_text(pattern) else None

    def _percent(self, node: ast.BinOp, depth: int) -> Mapped:
        """`"...%d..." % value`."""
        pattern = self.text(node.left, depth + 1)
        right = self.followed(node.right)
        values = [
            self.text(item, depth + 1)
            for item in (right.elts if isinstance(right, ast.Tuple) else [right])
        ]
        parts: list[Mapped] = []
        done = 0
        for found in re.finditer(r"%[dsi]", pattern.text):
            parts += [pattern.part(done, found.start()), *values[:1]]
            values, done = values[1:], found.end()
        return join((*parts, pattern.part(done, len(pattern))))

    def _constant(self, node: ast.Constant, at: int) -> Mapped:
        value = node.value
        if value is Ellipsis:
            return hole("...", at)
        if not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            raw = self.reading.source.text[at : at + len(text)]
            return literal(text, at) if raw == text else made(text, at)
        found = self.reading.source.text.find(value, at, at + len(value) + 6) if value else -1
        value = value.replace(HOLE_OPEN, "?").replace(HOLE_CLOSE, "?")
        return literal(value, found) if found >= 0 else made(value, at)

    def plain(self, node: ast.expr, depth: int = 0) -> object:
        node = self.followed(node)
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
        return self.text(node).shown()

    def _environ(self, target: ast.expr, value: ast.expr) -> None:
        """`os.environ["X"] = ...`, and the same of a copy that a process is started with."""
        if not isinstance(target, ast.Subscript):
            return
        whose = target.value
        if isinstance(whose, ast.Name):
            whose = self.names.get(whose.id, whose)
        if isinstance(whose, ast.Call) and dotted(whose.func) == "dict" and whose.args:
            whose = whose.args[0]
        if dotted(whose).removesuffix(".copy").endswith("environ"):
            self._env_item(target.slice, value)

    def _env_item(self, name: ast.expr, value: ast.expr) -> None:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self.env[name.value] = EnvItem(self.text(value), self.at(name) + 1)

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
