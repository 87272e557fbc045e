"""Python programs, never run: keywords of `LLM(...)` and its like, argument lists, commands."""

import ast
import re

from advisor.domain.patterns import lazy_re, parse_module
from advisor.readers.command import read_command
from advisor.readers.engine_command import EngineCommand, EnvItem, Surroundings
from advisor.readers.forms.modal import attach_functions
from advisor.readers.forms.presets import Pair
from advisor.readers.programs import engine_start, likely_module
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, fill_format, join, literal, synthetic
from advisor.readers.syntax.python_nodes import (
    dotted_name,
    first_name,
    is_list_sum,
    is_text,
    parts_of_sum,
    pieces,
    shell_list,
    summands,
)
from advisor.readers.syntax.python_values import STEP, PythonValues, foreign_names
from advisor.readers.syntax.words import split_words

_CALLS = dict.fromkeys(("LLM", "AsyncLLM", "EngineArgs", "AsyncEngineArgs"), "vllm")
_CALLS |= dict.fromkeys(("Engine", "ServerArgs", "Runtime"), "sglang")
# keywords of llama-cpp-python's class for what llama-server's options set
_LLAMA = {"model_path": "model", "n_ctx": "ctx_size", "n_batch": "batch_size"}
_LLAMA |= {"n_ubatch": "ubatch_size", "n_threads": "threads", "n_seq_max": "parallel"}
_CLI = lazy_re(r"vllm\s+serve|launch_server|llama-server|vllm\.entrypoints|sglang serve")
# "a GGUF served by llama-server, but that is none": a message, not a command
_PROSE = lazy_re(
    r"(?:llama-server|(?:vllm|sglang) serve)[,.:;]? (?:is|was|has|does|did|can|could|cannot|will"
    r"|but|and|or|to|for|with|from|on|in|at|the|exited|failed|not)\b"
)
_PROGRAM = lazy_re(r"[\w.-]*server[\w.-]*?(?:\.exe)?")
_UNFILLED = lazy_re(
    r"\{\{\s*['\"]"
)  # JSON in doubled braces: a text that is to go through `str.format`
MAX_TEXT = 400_000


def read_python(reading: Reading) -> None:
    """Every engine that the program makes or starts."""
    reading.form = "python"
    text = reading.source.text
    if len(text) > MAX_TEXT:
        reading.note(f"a Python program of {len(text)} characters is not read", cut_short=True)
        return
    try:
        tree = parse_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        reading.note("the file is not valid Python; it was not read")
        return
    Program(tree, reading).run()


class Program(PythonValues):
    """One program: the engines that it makes or starts."""

    def __init__(self, tree: ast.Module, reading: Reading) -> None:
        super().__init__(tree, reading)
        self.joined: set[int] = set()  # ids of the lists that a shell gets as one line
        self.sglang = bool(re.search(r"^\s*(import sglang|from sglang)", reading.source.text, re.M))
        self.others: frozenset[str] = frozenset()  # names that another library gives

    def run(self) -> None:
        """Find every launch in the program."""
        every = list(ast.walk(self.tree))
        inner = {
            id(side)
            for node in every
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
            for side in (node.left, node.right)
            if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add)
        }  # of a longer sum, whose parts are looked at once
        nodes = [node for node in every if id(node) not in inner]
        self.others = foreign_names(nodes, but=("vllm", "sglang", "llama_cpp"))
        self._assignments(nodes)
        self._defaults(nodes)
        self.lists.read(self.tree.body, {})
        partial = self._partial(nodes)
        partial |= {id(one.value) for one in nodes if isinstance(one, ast.Expr)}  # docstrings
        self.joined = {
            id(self.follow(one))
            for node in nodes
            if (one := shell_list(node, self.follow)) is not None
        }
        summed: set[int] = set()
        for node in nodes:
            if not self.reading.step():
                return
            if isinstance(node, ast.Call):
                self.call(node)
                if id(node) not in partial and self.format_of(node) is not None:
                    self.command_text(node)
            elif is_list_sum(node) and isinstance(node, ast.expr) and id(node) not in summed:
                summed |= parts_of_sum(node)
                self.read_list(node)
            elif is_text(node) and isinstance(node, ast.expr) and id(node) not in partial:
                self.command_text(node)
        attach_functions(self, nodes)

    def _assignments(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            self.names.setdefault(target.id, value)
                        else:
                            self._environ(target, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.names.setdefault(name, value)
                case ast.Call(func=func, args=[key, value]):
                    if dotted_name(func).endswith("environ.setdefault"):
                        self._env_item(key, value)

    def _partial(self, nodes: list[ast.AST]) -> set[int]:
        partial: set[int] = set()
        for node in nodes:
            if isinstance(node, ast.Call) and (pattern := self.format_of(node)) is not None:
                partial |= {id(pattern)} | pieces(pattern)
            is_whole = isinstance(node, ast.JoinedStr | ast.BinOp) and id(node) not in partial
            if is_whole and is_text(node):
                partial |= pieces(node)
                first = first_name(node)
                if first is not None and id(node) not in self.lists.used:
                    partial.add(id(self.follow(first)))
        return partial | self.lists.used

    def _defaults(self, nodes: list[ast.AST]) -> None:
        """Parameters that the file assigns nowhere stand for their defaults."""
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                has = node.args
                given, defaults = reversed([*has.posonlyargs, *has.args]), reversed(has.defaults)
                pairs = [*zip(given, defaults, strict=False)][::-1]
                for argument, default in (
                    *pairs,
                    *zip(has.kwonlyargs, has.kw_defaults, strict=True),
                ):
                    if default is not None:
                        self.names.setdefault(argument.arg, default)

    # -------------------------------------------------------------- what starts an engine

    def call(self, node: ast.Call) -> None:
        """Add the launch of a call that creates an engine or its arguments."""
        name = dotted_name(node.func).rsplit(".", 1)[-1]
        at, env = self.at(node), dict(self.env)
        if name == "prepare_server_args" and node.args:
            self.reading.add(EngineCommand("sglang", self.words(node.args[0]), env, at, "python"))
            return
        engine, fork = _CALLS.get(name), None
        if name == "Llama" and "llama_cpp" in self.reading.source.text:
            engine, fork = "llama-server", "llama-cpp-python"
        other = dotted_name(node.func).partition(".")[0] in self.others
        if other or engine is None or (name in ("Engine", "Runtime") and not self.sglang):
            return
        pairs: list[Pair] = []
        if node.args and name == "LLM":
            pairs.append((synthetic("model", self.at(node)), self.text(node.args[0])))
        for keyword in node.keywords:
            if keyword.arg is None:
                pairs += self.spread(keyword.value)
            else:
                given = _LLAMA.get(keyword.arg, keyword.arg) if fork else keyword.arg
                pairs += self.pair(given, keyword.value, self.at(keyword))
        if pairs:
            about = (env, at, "python", Surroundings(kind="python"), fork, pairs, "python")
            self.reading.add(EngineCommand(engine, [], *about))

    def spread(self, node: ast.expr) -> list[Pair]:
        """`**settings` where the file holds the dictionary."""
        known = self.entries(node)
        if known is None:
            self.reading.note("keywords given by ** are not known from the file", self.at(node))
            return []
        return [pair for name, (at, value) in known.items() for pair in self.pair(name, value, at)]

    def pair(self, name: str, value: ast.expr, at: int) -> list[Pair]:
        """Return a keyword as an option, an empty list where its value is None."""
        value = self.follow(value)
        if isinstance(value, ast.Constant) and value.value is None:
            return []
        return [(literal(name, at), self.text(value))]

    def read_list(self, node: ast.expr) -> None:
        """`["vllm", "serve", ...]`, as given to subprocess."""
        if isinstance(node, ast.List) and any(
            isinstance(one, ast.Tuple | ast.List | ast.Dict) for one in node.elts
        ):
            return  # a table, whose rows may name programs
        words = self.words(node)
        if len(words) > 1 and all(_PROGRAM.fullmatch(word.text) for word in words):
            return  # names under which a program may be found
        if id(node) in self.joined:  # the shell takes it apart anew: "--reasoning-parser qwen3"
            words = split_words(join([part for word in words for part in (word, literal(" ", -2))]))
        if _CLI.search(" ".join(word.text for word in words[:6])) or any(
            engine_start(words, i) or likely_module(words[i + 1].text)
            for i in range(min(6, len(words) - 1))
        ):
            read_command(words, self.reading, self.env, at=self.at(node))

    def command_text(self, node: ast.expr) -> None:
        """`os.system("vllm serve ...")` and f-strings like it."""
        text = self.text(node)
        if isinstance(node, ast.Constant) and _UNFILLED.search(text.text):
            text = fill_format(text, [], {})
        if (
            " -" in text.text
            and _CLI.search(text.text[:400])
            and not _PROSE.search(text.text)
            and len(text) < 20_000
            and "\n\n" not in text.text.strip()
        ):
            read_command(split_words(text), self.reading, self.env, at=self.at(node))

    def words(self, node: ast.expr, depth: int = 0) -> list[Mapped]:
        """Return the words of a list expression, names and sums followed."""
        node = self.follow(node)
        if not self.worth(STEP) or depth > 8:
            return []
        words: list[Mapped] = []
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items):
                for item in items:
                    starred = item.value if isinstance(item, ast.Starred) else None
                    words += self.words(starred, depth + 1) if starred else [self.text(item)]
                for later in self.lists.added.get(id(node), ()):
                    words += self.words(later, depth + 1)
                return words
            case ast.BinOp(op=ast.Add()):
                for part in summands(node):
                    if not self.worth(len(words)):
                        break  # names that stand for sums of one another
                    words += self.words(part, depth + 1)
                return words
            case ast.IfExp(body=body, orelse=ast.List(elts=[])):
                return self.words(body, depth + 1)  # what a condition adds is read, as an `if` is
        return [self.text(node)]

    def _environ(self, target: ast.expr, value: ast.expr) -> None:
        """`os.environ["X"] = ...`, and the same of a copy that a process is started with."""
        if not isinstance(target, ast.Subscript):
            return
        whose = target.value
        if isinstance(whose, ast.Name):
            whose = self.names.get(whose.id, whose)
        if isinstance(whose, ast.Call) and dotted_name(whose.func) == "dict" and whose.args:
            whose = whose.args[0]
        if dotted_name(whose).removesuffix(".copy").endswith("environ"):
            self._env_item(target.slice, value)

    def _env_item(self, name: ast.expr, value: ast.expr) -> None:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self.env[name.value] = EnvItem(self.text(value), self.at(name) + 1)
