"""The same work for every fold, one forked process for each core; one by one if not on Linux."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

Progress = Callable[[Iterable[str]], Iterable[str]]  # sees the names pass

LEAST = 8  # fewer folds are done before a second process has started
MOST = 8  # workers; each holds its own copy of what it computes

_work: Callable[[str], Any] | None = None


def each(work: Callable[[str], Any], names: Sequence[str], progress: Progress) -> Iterator[Any]:
    """`work(name)` for every name, in the order of `names`; what it returns must be picklable."""
    global _work  # noqa: PLW0603  (forked workers find it there)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if cores < 2 or len(names) < LEAST:
        yield from map(work, progress(names))
        return
    _work = work
    try:
        with ProcessPoolExecutor(min(cores, MOST), mp_context=get_context("fork")) as pool:
            results = pool.map(_call, names)
            yield from (next(results) for _ in progress(names))
    finally:
        _work = None


def _call(name: str) -> Any:
    assert _work is not None, "forked before the work was set"
    return _work(name)
