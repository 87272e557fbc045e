"""Sentences that are made when they are first read: what most readers never ask costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload


class Later(Sequence[str]):
    """A sequence of texts behind a function that is called once, at the first look at it."""

    def __init__(self, make: Callable[[], Iterable[str]]) -> None:
        self._make = make
        self._made: tuple[str, ...] | None = None

    def _texts(self) -> tuple[str, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._texts()[index]

    def __len__(self) -> int:
        return len(self._texts())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._texts() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._texts())

    def __repr__(self) -> str:
        return repr(self._texts())
