"""The cost of a call in ordinary files: a bound that neither the machine nor a tracer moves."""

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


def processor_seconds(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _ordinary() -> float:
    return min(processor_seconds(lambda: read_text(ORDINARY, "a.yaml")) for _ in range(3))


_first = cache(_ordinary)


def ordinary_files(seconds: float) -> float:
    """How many ordinary files of twenty servers could be read in this processor time, by the best
    of three; beside what shares a core such a file takes longer, now or when this process began.
    """
    return seconds / max(_first(), _ordinary())


@contextmanager
def at_most(files: float) -> Iterator[None]:
    """Fails where the block costs more than so many ordinary files of twenty servers."""
    _first()
    begun = time.process_time()
    yield
    spent = time.process_time() - begun
    cost = spent / _first()
    cost = cost if cost < files else ordinary_files(spent)
    assert cost < files, f"cost of {cost:.0f} ordinary files"
