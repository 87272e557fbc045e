"""What a Python program runs when it is imported: all that no function, class or main guard keeps
for later. Processes that are spawned import the program again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from advisor.readers.syntax.python_nodes import dotted_name

# frameworks that import the program themselves: their own program is the one imported again
_HOSTS = frozenset(
    [
        "fastapi",
        "flask",
        "starlette",
        "quart",
        "sanic",
        "litserve",
        "bentoml",
        "modal",
        "ray",
        "streamlit",
        "gradio",
        "chainlit",
        "celery",
        "runpod",
        "kserve",
        "mlserver",
        "tritonserver",
        "pytest",
    ]
)
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
