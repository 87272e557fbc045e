"""A progress bar for long commands, where a terminal watches."""

import sys
from collections.abc import Callable, Iterable
from functools import partial


def bar(what: str) -> Callable[[Iterable[str]], Iterable[str]]:
    """A function that passes an iterable through and shows how far it is."""
    from rich.console import Console
    from rich.progress import track

    return partial(
        track, description=what, console=Console(stderr=True), transient=True,
        disable=not sys.stderr.isatty(),
    )  # fmt: skip
