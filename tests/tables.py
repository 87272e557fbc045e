"""Rows of tables in tests, on a line each: `NAME=VALUE` words instead of a dictionary's lines."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml


@cache
def text_of(path: Path) -> str:
    """A file of ours, read once."""
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """A module of ours, parsed once: several tests look at all of them."""
    return ast.parse(text_of(path))


def load_yaml(path: Path) -> Any:
    """A file of ours, by the quick loader."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def cells(text: str) -> dict[str, str]:
    """The cells of a row as a table holds them: text."""
    return dict(word.split("=", 1) for word in text.split())


def words(text: str) -> list[str]:
    """Words of a line, for lists of names."""
    return text.split()


def fields(text: str) -> dict[str, Any]:
    """The fields of a question: numbers, True, False and None as such, all else text."""
    return {name: _value(word) for name, word in cells(text).items()}


def spread(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test: each `every`-th case, and the others with the slow tests."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if number % every == 0 else pytest.mark.slow,
        )
        for number, case in enumerate(cases)
    ]


def _value(word: str) -> Any:
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
