"""What is made when it is first used, since an answer needs little of it: patterns, sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

if TYPE_CHECKING:
    import ast

T = TypeVar("T")


def lazy_re(text: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile(text, flags)`, put off until the first use. Raises re.error then."""
    return cast("re.Pattern[str]", _LazyRe(text, flags))


class _LazyRe:
    """Stands for a compiled pattern; takes over its methods when one is first asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern, self.flags = text, flags

    def __getattr__(self, name: str) -> Any:
        made = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, made)
        return made


@cache
def alternatives(text: str, opening: str, closing: str) -> tuple[str, ...]:
    """`a|b[c|d]` split at the bars outside its brackets, letters of `opening` and `closing`."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in opening) - (letter in closing)
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts)


class Later(Sequence[T]):
    """What a function gives that is called at the first look, in the context of its making."""

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make, self._context = make, copy_context()
        self._made: tuple[T, ...] | None = None

    def _items(self) -> tuple[T, ...]:
        if self._made is None:
            self._made = self._context.copy().run(lambda: tuple(self._make()))
        return self._made

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items()[index]

    def __len__(self) -> int:
        return len(self._items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._items() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._items())

    def __repr__(self) -> str:
        return repr(self._items())


def parse_module(text: str) -> ast.Module:
    """A Python program. Raises SyntaxError, ValueError, RecursionError or MemoryError."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the parser says of `1if` goes to the terminal
        return ast.parse(text)
