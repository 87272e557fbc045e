"""A progress bar for long commands: rich where a terminal watches, silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator


def bar(what: str) -> Callable[[Iterable[str]], Iterator[str]]:
    """A function that passes an iterable through and shows how far it is."""

    def watch(items: Iterable[str]) -> Iterator[str]:
        todo = list(items)
        if not sys.stderr.isatty():
            yield from todo
            return
        from rich.console import Console
        from rich.progress import track

        yield from track(todo, description=what, console=Console(stderr=True), transient=True)

    return watch
