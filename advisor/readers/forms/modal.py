"""The function of Modal that holds a server: its GPUs and its port."""

import ast
from collections.abc import Iterable

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Surroundings, gpu_kind
from advisor.readers.syntax.python_nodes import dotted_name
from advisor.readers.syntax.python_values import PythonValues

_GPU = lazy_re(r"([A-Za-z][\w+-]*?!?)(?::(\d+))?")
_PORT = lazy_re(r"\d{2,5}")


def attach_functions(program: PythonValues, nodes: Iterable[ast.AST]) -> None:
    """Give each server inside a function or class of Modal its GPUs and its port."""
    if "modal" not in program.reading.source.text:
        return
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        around = _surroundings(node, program)
        for command in program.reading.found if around is not None else ():
            line = program.reading.source.place(command.at)[0]
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                command.around = around


def _surroundings(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, program: PythonValues
) -> Surroundings | None:
    decorators = list(node.decorator_list)
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef):  # the port stands at one of its methods
            decorators += method.decorator_list
    calls = [call for call in decorators if isinstance(call, ast.Call)]
    names = [dotted_name(call.func).rpartition(".")[2] for call in calls]
    if not {"function", "cls"} & {*names}:
        return None
    around = Surroundings(kind="modal", name=node.name)
    around.ipc_host = True  # a sandbox with the memory of its machine
    for name, call in zip(names, calls, strict=True):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if name in ("function", "cls") and "gpu" in given:
            gpu = program.text(given["gpu"])
            if not gpu.has_hole and (number := _GPU.fullmatch(gpu.text)):
                around.gpus, around.gpu_kind = number[2] or "1", gpu_kind(number[1])
        elif name == "web_server" and (call.args or "port" in given):
            port = program.text(call.args[0] if call.args else given["port"])
            if _PORT.fullmatch(port.text):
                around.ports.append((port, "web_server"))
    return around
