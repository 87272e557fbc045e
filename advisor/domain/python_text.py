"""Python text of others, taken apart and never run."""

from __future__ import annotations

import ast
import warnings


def parse_module(text: str) -> ast.Module:
    """A program. Raises SyntaxError, ValueError, RecursionError or MemoryError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the parser says of `1if` goes to the terminal
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """One expression. Raises as `parse_module` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.lstrip(" \t"), mode="eval").body
