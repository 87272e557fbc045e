"""What a Python program says around the engine that it starts: a start at each import, environments
with values that are no texts, and the function of Modal that holds the server, with its GPUs and
its port.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Surroundings
from advisor.readers.slips import keys
from advisor.readers.syntax.mapped import Mapped
from advisor.readers.syntax.python_nodes import dotted_name, import_calls, is_hosted
from advisor.readers.syntax.python_values import PythonValues

_GPU = lazy_re(r"([A-Za-z][\w+-]*?!?)(?::(\d+))?")
_TIMES = lazy_re(
    r"([A-Za-z][A-Za-z0-9-]*?)[ ]?[xX*][ ]?(\d)|(\d)[ ]?[xX*][ ]?([A-Za-z][A-Za-z0-9-]*)"
)
_PORT = lazy_re(r"\d{2,5}")


def check_guard(program: PythonValues, sglang: bool) -> None:
    """An engine that is started when the program is imported, as each process that it spawns
    does once more.
    """
    method = program.env.get("VLLM_WORKER_MULTIPROC_METHOD")
    spawns = {"Engine"} if sglang else set()
    if method is not None and method.value is not None and method.value.text == "spawn":
        spawns |= {"LLM"} if "VLLM_ENABLE_V1_MULTIPROCESSING" not in program.env else set()
    if not spawns or not program.reading.found or is_hosted(program.tree):
        return
    for statement, call in import_calls(program.tree):
        name = dotted_name(call.func)
        if name.rsplit(".", 1)[-1] not in spawns:
            continue
        said = f"{name} spawns processes that import this program again: each starts an engine"
        begin, guard = program.at(statement), 'if __name__ == "__main__":'
        alone = isinstance(statement, ast.Expr) and statement.lineno == statement.end_lineno
        written = ast.get_source_segment(program.reading.source.text, statement) if alone else None
        if written is not None:
            program.reading.slip(said, begin, begin + len(written), f"{guard}\n    {written}")
        else:
            program.reading.slip(said, begin, text=f"{guard} before what starts it")
        return


def check_environment(program: PythonValues, nodes: Iterable[ast.AST]) -> None:
    """Values of an environment that are no texts: os.environ and subprocess take nothing else."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and _is_environ(target.value, program):
                    _text_alone(node.value, program)
        elif isinstance(node, ast.Call):
            name = dotted_name(node.func)
            if name == "dict" and node.args and _is_environ(node.args[0], program):
                for one in node.keywords:
                    _text_alone(one.value, program)
            elif name.endswith("environ.setdefault") and len(node.args) == 2:
                _text_alone(node.args[1], program)
            for one in node.keywords:
                if one.arg == "env" and name.rsplit(".", 1)[-1] in _PROCESSES:
                    _mapping(one.value, program)
        elif isinstance(node, ast.Dict) and any(
            key is None and _is_environ(value, program)
            for key, value in zip(node.keys, node.values, strict=True)
        ):
            _mapping(node, program)


_PROCESSES = frozenset(("run", "Popen", "call", "check_call", "check_output"))


def _mapping(node: ast.expr, program: PythonValues) -> None:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                _text_alone(value, program)


def _is_environ(node: ast.expr, program: PythonValues) -> bool:
    if isinstance(node, ast.Name):
        node = program.names.get(node.id, node)
    if isinstance(node, ast.Call) and dotted_name(node.func) == "dict" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Dict):
        return any(
            key is None and dotted_name(value).endswith("environ")
            for key, value in zip(node.keys, node.values, strict=True)
        )
    if isinstance(node, ast.Call):
        node = node.func
    return dotted_name(node).removesuffix(".copy").endswith("environ")


def _text_alone(value: ast.expr, program: PythonValues) -> None:
    number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    named = isinstance(value, ast.Name) and program.is_number(value.id, value)
    if not number and not named:
        return
    at = program.at(value)
    written = ast.unparse(value)
    if not program.reading.source.text.startswith(written, at):
        return
    said = f"an environment takes texts alone, and {written} is none"
    meant = {"True": '"1"', "False": '"0"'}.get(written, f'"{written}"')
    meant = f"str({written})" if named else meant
    program.reading.slip(said, at, at + len(written), meant)


_WORDS = {"true": "True", "false": "False", "null": "None", "none": "None"}


def check_words(program: PythonValues, nodes: Iterable[ast.AST]) -> None:
    """Words of JSON as values of keywords: to Python they are names, and nothing has them."""
    text = program.reading.source.text
    if not any(word in text for word in _WORDS):
        return
    known = {one.id for one in nodes if isinstance(one, ast.Name) and not _is_read(one)}
    for node in nodes:
        for one in node.keywords if isinstance(node, ast.Call) else ():
            name = one.value.id if isinstance(one.value, ast.Name) else ""
            if name in _WORDS and name not in known | set(program.names):
                at = program.at(one.value)
                said = f"Python knows no name {name}: {_WORDS[name]} is meant"
                program.reading.slip(said, at, at + len(name), _WORDS[name])


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


# ---------------------------------------------------------------- Modal


class Hosted:
    """A function of Modal: from which line to which, and what its decorators give the server."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.first, self.last = node.lineno, node.end_lineno or node.lineno
        self.around = Surroundings(kind="modal", name=node.name)
        self.around.ipc_host = True  # a sandbox with the memory of its machine


def functions_of(program: PythonValues, nodes: Iterable[ast.AST]) -> list[Hosted]:
    """The functions and classes that Modal runs, the innermost last."""
    found = []
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
        if isinstance(node, ast.ClassDef):  # the port stands at one of its methods
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            calls += [c for one in inner for c in one.decorator_list if isinstance(c, ast.Call)]
        names = [dotted_name(one.func).rsplit(".", 1)[-1] for one in calls]
        if not {"function", "cls"} & set(names):
            continue
        held = Hosted(node)
        for name, call in zip(names, calls, strict=True):
            given = {one.arg: one.value for one in call.keywords}
            if name in ("function", "cls") and "gpu" in given:
                _gpus(program.text(given["gpu"]), held.around, program)
            elif name == "web_server" and (call.args or "port" in given):
                port = program.text(call.args[0] if call.args else given["port"])
                if _PORT.fullmatch(port.text):
                    held.around.ports.append((port, "web_server", None))
        found.append(held)
    return found


def host(program: PythonValues, nodes: Iterable[ast.AST]) -> None:
    """Servers inside a function of Modal have its GPUs and its port."""
    if "modal" not in program.reading.source.text:
        return
    for held in functions_of(program, nodes):
        for found in program.reading.found:
            if held.first <= program.reading.source.place(found.at)[0] <= held.last:
                found.around = held.around


def _gpus(said: Mapped, around: Surroundings, program: PythonValues) -> None:
    """The number of GPUs, and a name that Modal does not know but for its signs."""
    if said.has_hole or not said.text:
        return
    place = said.span()
    end = place[1] if place else None
    if times := _TIMES.fullmatch(said.text):
        name, count = times[1] or times[4], times[2] or times[3]
        message = f"Modal takes gpu '{name}:{count}', not '{said.text}'"
        if name.upper() in keys("modal", "words"):
            program.reading.slip(message, said.first(), end, f"{name}:{count}")
        return
    found = _GPU.fullmatch(said.text)
    if found is None:
        return
    name, known = found[1].rstrip("!+"), keys("modal", "words")
    plain = {re.sub(r"\W", "", one): one for one in known}
    meant = plain.get(re.sub(r"\W|_", "", name).upper())
    if meant is not None and name.upper() not in known:
        part = said.part(*found.span(1)).span()
        message = f"Modal has no gpu '{name}': '{meant}' is meant"
        program.reading.slip(message, said.first(), part and part[1], meant)
    around.gpus = found[2] or "1"
    if found[2]:
        around.asked = [said.part(*found.span(2))]
        around.whole = True
