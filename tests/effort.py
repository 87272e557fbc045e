"""The cost of a call in ordinary files: a bound that neither the machine nor a tracer moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from advisor.readers import read_text

ORDINARY = "services:\n" + "".join(
    f"  s{number}:\n    image: vllm/vllm-openai:v0.25.1\n"
    f"    command: --model m/A --port {8000 + number} --max-num-seqs 16\n"
    for number in range(20)
)


def _seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


@cache
def ordinary_file() -> float:
    """Processor time in seconds of reading a compose file of twenty servers, the best of three."""
    return min(_seconds(lambda: read_text(ORDINARY, "a.yaml")) for _ in range(3))


@contextmanager
def at_most(files: float) -> Iterator[None]:
    """Fails where the block costs more than so many ordinary files of twenty servers."""
    ordinary = ordinary_file()
    begun = time.process_time()
    yield
    cost = (time.process_time() - begun) / ordinary
    assert cost < files, f"cost of {cost:.0f} ordinary files"
