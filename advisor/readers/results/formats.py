"""Which reader takes a file: the one whose marks its content has, and never two."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from advisor.domain.printable import excerpt
from advisor.readers.results import card_tables, engine_logs, exposition, own_runs
from advisor.readers.results.clients import (
    aiperf,
    atlas,
    llama_tests,
    load_tools,
    serving,
    serving_console,
)
from advisor.readers.results.document import Document, Unreadable, find_inside, load
from advisor.readers.results.run import BenchmarkRun


class ResultFormat(NamedTuple):
    """One form of file: whether a document is of it, and its runs."""

    format: str
    matches: Callable[[Document], bool]
    read: Callable[[Document], list[BenchmarkRun]]


_CLIENTS = (serving, llama_tests, load_tools, aiperf, atlas)
_TEXTS = (
    own_runs, serving, serving_console, llama_tests, engine_logs, exposition, card_tables,
)  # fmt: skip
READERS = (
    *(
        ResultFormat(one.format, one.matches, one.read)
        for client in _CLIENTS
        for one in client.LAYOUTS
    ),
    *(ResultFormat(text.FORMAT, text.matches, text.read) for text in _TEXTS),
)
KNOWN = (
    "vllm bench serve, sglang.benchmark.serving, llama-bench, engine logs, "
    "the JSON of GuideLLM, evalscope perf, AIPerf, GenAI-Perf, llama-benchy or atlas-bench, a "
    "public table with a card a row, or a server's /metrics"
)


def readers_of(doc: Document) -> list[ResultFormat]:
    """The readers that take a document: none or one."""
    return [reader for reader in READERS if reader.matches(doc)]


def read_document(doc: Document) -> list[BenchmarkRun]:
    """The runs of a document. Raises Unreadable for no reader, or a senseless value."""
    taken = readers_of(doc)
    if not taken and (within := find_inside(doc)) is not None:
        doc, taken = within, readers_of(within)
    if not taken:
        raise Unreadable(f"{doc.name}: no result of {KNOWN}")
    if len(taken) > 1:
        names = " and ".join(reader.format for reader in taken)
        raise Unreadable(f"{doc.name}: holds results of several formats ({names}); split it")
    try:
        runs: list[BenchmarkRun] = taken[0].read(doc)
    except ValidationError as error:
        first = error.errors()[0]
        where = excerpt(".".join(str(part) for part in first["loc"]) or "value")
        why = f"{where}: {first['msg'].lower()} (got {excerpt(repr(first.get('input')), 40)})"
        raise Unreadable(f"{doc.name}: {taken[0].format}: {why}") from error
    except csv.Error as error:
        raise Unreadable(f"{doc.name}: {taken[0].format}: damaged table ({error})") from error
    if not runs:
        raise Unreadable(f"{doc.name}: {taken[0].format} without a single finished run")
    return runs


def read_results(path: Path) -> list[BenchmarkRun]:
    """The runs of a file. Raises Unreadable."""
    return read_document(load(path))


def read_all(paths: Sequence[Path]) -> list[BenchmarkRun]:
    """The runs of several files, in order. Raises Unreadable at the first that cannot be read."""
    return [run for path in paths for run in read_results(path)]
