"""One thread for the linear algebra of a prediction.

Its matrices are small: waking a second thread costs more than it computes, many times more where
other work holds the cores. And a sum split over two threads may end in another last digit, so that
an answer would depend on the machine that gives it; training and the card count with one thread as
well.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import RLock, local
from typing import Any

VARIABLE = "OPENBLAS_NUM_THREADS"  # of numpy's own wheels; read when numpy is loaded, and not again
_HERE = local()


def within() -> None:
    """Say in a thread that the one which started it is within `one_thread` and waits for it."""
    _HERE.within = True


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it BLAS uses one thread. One caller at a time: the setting is the process's."""
    if os.environ.get(VARIABLE) == "1" or getattr(_HERE, "within", False):
        yield
        return
    lock, pools = _pools()
    with lock, pools.limit(limits=1, user_api="blas"):
        yield


@cache
def _pools() -> tuple[AbstractContextManager[Any], Any]:
    """A lock, and the thread pools of the libraries that numpy has loaded."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return RLock(), ThreadpoolController()
