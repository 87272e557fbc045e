"""What a node of a Python program's syntax tree is: a dotted name, a text put together from pieces,
a dictionary; what the program runs when it is imported (processes that are spawned import it
again); and what it says to the engine's own classes beside the engine: how it samples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from advisor.readers.slips import keys

if TYPE_CHECKING:
    from advisor.readers.reading import Reading

MAX_LINKS = 40


def dotted_name(node: ast.expr) -> str:
    """A dotted name as text."""
    parts: list[str] = []
    for _ in range(MAX_LINKS):  # `f()()()...` is nested as deep as it is long
        if isinstance(node, ast.Attribute) and len(parts) < 10:
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            break
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def is_dictionary(node: ast.expr) -> bool:
    """`{...}` and `dict(...)`."""
    return isinstance(node, ast.Dict) or (
        isinstance(node, ast.Call) and dotted_name(node.func) == "dict"
    )


def is_text(node: ast.AST) -> bool:
    """A string, an f-string, or a sum or `%` in which one of them stands."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.JoinedStr) or (
            isinstance(current, ast.Constant) and isinstance(current.value, str)
        ):
            return True
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add | ast.Mod):
            waiting += (
                [current.left] if isinstance(current.op, ast.Mod) else [current.right, current.left]
            )
    return False


def summands(node: ast.expr) -> list[ast.expr]:
    """What stands in `a + b + c`, left to right; long sums are nested deeply, so no recursion."""
    found: list[ast.expr] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
            waiting += [current.right, current.left]
        else:
            found.append(current)
    return found


def is_list_sum(node: ast.AST) -> bool:
    """A list, or a sum in which one stands: `[server] + COMMON + (SPEC if spec else [])`."""
    return isinstance(node, ast.List) or (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and any(isinstance(part, ast.List | ast.Tuple) for part in summands(node))
    )


def parts_of_sum(node: ast.expr) -> set[int]:
    """Ids of the sums and lists that are only a part of this sum."""
    found: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current is not node:
            found.add(id(current))
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
            waiting += [current.left, current.right]
        elif isinstance(current, ast.IfExp):
            waiting += [current.body, current.orelse]
    return found


def path_parts(node: ast.expr) -> list[ast.expr]:
    """What `root / "bin" / name` and `os.path.join(root, "bin")` put together; empty for anything
    else.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts: list[ast.expr] = []
        while (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and len(parts) < MAX_LINKS
        ):
            parts.append(node.right)
            node = node.left
        return [node, *reversed(parts)]
    return (
        list(node.args)
        if isinstance(node, ast.Call) and dotted_name(node.func).endswith("path.join")
        else []
    )


def first_name(node: ast.AST) -> ast.Name | None:
    """The name whose text this one continues with options: `cmd + " --port 1"`, `f"{cmd} --port
    {port}"`.
    """
    parts: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.FormattedValue) else part for part in node.values
        ]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = summands(node)
    first = parts[0] if parts else None
    continues = any(
        isinstance(part, ast.Constant) and " -" in str(part.value)[:1_000] for part in parts[1:]
    )
    return first if isinstance(first, ast.Name) and continues else None


def pieces(node: ast.AST) -> set[int]:
    """Ids of the nodes that are only a part of this text: on their own they would be read as a
    command cut short.
    """
    found: set[int] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        if current is not node:
            found.add(id(current))
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add | ast.Mod):
            waiting += [current.left, current.right]
        elif isinstance(current, ast.JoinedStr):
            waiting += [part for part in current.values if isinstance(part, ast.Constant)]
            waiting += [
                part.format_spec
                for part in current.values
                if isinstance(part, ast.FormattedValue) and part.format_spec is not None
            ]
        elif isinstance(current, ast.Tuple) and current is not node:
            waiting += [item for item in current.elts if is_text(item)]
    return found


_BY_SHELL = ("system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell")
_BY_CHOICE = (
    "Popen",
    "run",
    "call",
    "check_call",
    "check_output",
)  # a shell's where they are given shell=True


def shell_list(node: ast.AST, followed: Callable[[ast.expr], ast.expr]) -> ast.expr | None:
    """The list in `Popen(" ".join(cmd), shell=True)`; None for any other node."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = dotted_name(node.func).rpartition(".")[2]
    chosen = any(
        one.arg == "shell" and isinstance(one.value, ast.Constant) and one.value.value
        for one in node.keywords
    )
    if not (name in _BY_SHELL or (name in _BY_CHOICE and chosen)):
        return None
    text = followed(node.args[0])
    if (
        not isinstance(text, ast.Call)
        or not isinstance(text.func, ast.Attribute)
        or text.func.attr != "join"
    ):
        return None
    blank = text.func.value
    joined = (
        isinstance(blank, ast.Constant)
        and isinstance(blank.value, str)
        and not blank.value.strip()
        and text.args
    )
    return text.args[0] if joined else None


# frameworks that import the program themselves: their own program is the one imported again
_HOST_NAMES = """
fastapi flask starlette quart sanic litserve bentoml modal ray
streamlit gradio chainlit celery runpod kserve mlserver tritonserver pytest
"""
_HOSTS = frozenset(_HOST_NAMES.split())
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def is_hosted(tree: ast.Module) -> bool:
    """Whether the program imports a framework that may be the one to import it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return not names.isdisjoint(_HOSTS)


def import_calls(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The calls that importing the program runs, each with its statement of the module; functions
    of the file are followed, each once.
    """
    functions = {
        one.name: one
        for one in tree.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    seen: set[str] = set()
    for statement in tree.body:
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop()
            if isinstance(node, _LATER) or (isinstance(node, ast.If) and _asks_name(node.test)):
                continue
            if isinstance(node, ast.Call):
                yield statement, node
                name = dotted_name(node.func)
                if name in functions and name not in seen:
                    seen.add(name)
                    waiting += functions[name].body
            waiting += ast.iter_child_nodes(node)


def _asks_name(test: ast.expr) -> bool:
    """Whether a condition speaks of `__name__`."""
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(test))


# names of other engines' parameters for the same
MEANT = {
    "vllm": {"max_new_tokens": "max_tokens", "max_length": "max_tokens", "do_sample": ""},
    "sglang": {"max_tokens": "max_new_tokens", "max_length": "max_new_tokens"},
}
# the least and the most that a parameter takes: SamplingParams._verify_args
RANGES = {"temperature": (0.0, None), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0)}


def check_sampling(tree: ast.Module, reading: Reading, at: Callable[[ast.AST], int]) -> None:
    """The parameters of SamplingParams, and of the dictionaries that SGLang's generate takes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            _guard(node, reading, at)
        if isinstance(node, ast.ImportFrom) and node.module == "vllm":
            _imports(node, reading, at)
        if not isinstance(node, ast.Call):
            continue
        name = dotted_name(node.func).rsplit(".", 1)[-1]
        if name == "SamplingParams":
            for one in node.keywords:
                if one.arg is not None:
                    _parameter(one.arg, one.value, at(one), "vllm", reading)
        elif name in ("generate", "async_generate") and reading.found[0].engine == "sglang":
            given = [
                *node.args[1:2],
                *(k.value for k in node.keywords if k.arg == "sampling_params"),
            ]
            for mapping in given:
                _mapping(mapping, reading, at)


def _mapping(node: ast.expr, reading: Reading, at: Callable[[ast.AST], int]) -> None:
    if not isinstance(node, ast.Dict):
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            _parameter(key.value, value, at(key) + 1, "sglang", reading)


def _imports(node: ast.ImportFrom, reading: Reading, at: Callable[[ast.AST], int]) -> None:
    """Names that vllm does not have, but for a letter."""
    from difflib import get_close_matches  # start-up: only for a program that imports vllm

    known = keys("names vllm")
    for one in node.names:
        near = get_close_matches(one.name, known, 1, 0.8) if one.name not in known else []
        if not near:
            continue
        start = at(one)
        said = f"vllm has no {one.name}: {near[0]} is meant"
        reading.slip(said, start, start + len(one.name), near[0])


def _guard(node: ast.Compare, reading: Reading, at: Callable[[ast.AST], int]) -> None:
    other = node.comparators[0]
    if not isinstance(node.left, ast.Name) or node.left.id != "__name__":
        return
    name = other.value if isinstance(other, ast.Constant) else None
    if isinstance(name, str) and "main" in name and name != "__main__":
        start = at(other) + 1
        said = f"__name__ is never '{name}': nothing below is run"
        reading.slip(said, start, start + len(name), "__main__")


def _parameter(name: str, value: ast.expr, start: int, engine: str, reading: Reading) -> None:
    from difflib import get_close_matches  # start-up: only for a program that samples

    known = keys(f"sampling {engine}")
    written = reading.source.text.startswith(name, start)
    if name not in known:
        meant = MEANT[engine].get(name)
        near = get_close_matches(name, known, 1, 0.85) if meant is None else [meant]
        if near:
            said = f"{engine}'s sampling parameters have no {name}"
            said += f": {near[0]} is meant" if near[0] else ""
            end = start + len(name) if written and near[0] else None
            reading.slip(said, start, end, near[0] or "the engine's own parameters")
        return
    low, high = RANGES.get(name, (None, None))
    number = _number(value)
    if number is None or low is None or (number >= low and (high is None or number <= high)):
        return
    if engine == "vllm" or name == "temperature":
        most = f" to {high:g}" if high is not None else " or more"
        reading.slip(f"{name} takes {low:g}{most}, not {number:g}", start, text="a number in it")


def _number(value: ast.expr) -> float | None:
    text = ast.unparse(value)
    return float(text) if re.fullmatch(r"-?\d+(?:\.\d+)?", text) else None
