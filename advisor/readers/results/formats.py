"""Which reader takes a file: the one whose marks its content has. Two that both would take it are
a defect, and a test says so.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from advisor.domain.printable import excerpt
from advisor.readers.results import (
    aiperf,
    answers,
    engine_logs,
    evalscope,
    exposition,
    guidellm,
    guidellm_console,
    llama_bench,
    llama_benchy,
    own_runs,
    serving_console,
    sglang_serving,
    vllm_offline,
    vllm_serve,
)
from advisor.readers.results.document import Document, Unreadable, find_inside, load
from advisor.readers.results.run import BenchmarkRun

READERS: tuple[ModuleType, ...] = (
    own_runs,
    vllm_serve,
    sglang_serving,
    serving_console,
    vllm_offline,
    llama_bench,
    answers,
    engine_logs,
    guidellm,
    guidellm_console,
    evalscope,
    aiperf,
    llama_benchy,
    exposition,
)
KNOWN = (
    "vllm bench serve, throughput or latency, sglang.benchmark.serving, llama-bench, "
    "llama-batched-bench, llama-sweep-bench, answers of llama-server or vLLM, engine logs, "
    "GuideLLM, evalscope perf, AIPerf, GenAI-Perf, llama-benchy, or a server's /metrics"
)


def readers_of(doc: Document) -> list[ModuleType]:
    """The readers that take a document: none or one."""
    return [reader for reader in READERS if reader.matches(doc)]


def read_document(doc: Document) -> list[BenchmarkRun]:
    """The runs of a document. Raises Unreadable where no reader takes it, or a value makes no
    sense.
    """
    taken = readers_of(doc)
    if not taken and (within := find_inside(doc)) is not None:
        doc, taken = within, readers_of(within)
    if not taken:
        raise Unreadable(f"{doc.name}: no result of {KNOWN}")
    if len(taken) > 1:
        names = " and ".join(reader.FORMAT for reader in taken)
        raise Unreadable(f"{doc.name}: holds results of several formats ({names}); split it")
    try:
        runs: list[BenchmarkRun] = taken[0].read(doc)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "value"
        got = excerpt(repr(first.get("input")), 40)
        raise Unreadable(
            f"{doc.name}: {taken[0].FORMAT}: {excerpt(where)}: {first['msg'].lower()} (got {got})"
        ) from error
    except csv.Error as error:
        raise Unreadable(f"{doc.name}: {taken[0].FORMAT}: damaged table ({error})") from error
    if not runs:
        raise Unreadable(f"{doc.name}: {taken[0].FORMAT} without a single finished run")
    return runs


def read_results(path: Path) -> list[BenchmarkRun]:
    """The runs of a file. Raises Unreadable."""
    return read_document(load(path))


def read_all(paths: Sequence[Path]) -> list[BenchmarkRun]:
    """The runs of several files, in order. Raises Unreadable at the first that cannot be read."""
    return [run for path in paths for run in read_results(path)]
