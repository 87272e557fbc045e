"""What a Python program says to the engine's own classes beside the engine: how it samples, and a
main guard that is never true. Each slip is kept for SD136.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.readers.slips import keys
from advisor.readers.syntax.python_nodes import dotted_name

if TYPE_CHECKING:
    from advisor.readers.reading import Reading

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
