"""Which reader takes a file: the one whose marks its content has, and never two."""

import csv
import re
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

# files that lie beside a result, and results without tokens: marks (keys, or words of the text)
_ASK_SUMMARY = "give benchmark_summary.json of the same folder"
_NO_TOKENS = "measure with the engine's own benchmark (advisor bench plan)"
_KIN: tuple[tuple[set[str], str], ...] = (
    ({"Percentiles", "TTFT (ms)"}, f"evalscope's percentiles have no means: {_ASK_SUMMARY}"),
    (
        {"dataset", "parallel", "max_tokens", "total_timeout"},
        f"the options of a run of evalscope: {_ASK_SUMMARY}",
    ),
    ({"n_samples", "last_window_s", "rows"}, f"evalscope's throughput has no load: {_ASK_SUMMARY}"),
    ({"root_group", "metrics"}, f"k6 counts whole answers, not tokens: {_NO_TOKENS}"),
    (
        {"Request Count", "Average Response Time"},
        f"locust counts whole answers, not tokens: {_NO_TOKENS}",
    ),
)

# what clients print or save beside their JSON: a word of the text, and the file to give
_BESIDE = (
    ("guidellm", "GuideLLM", "its benchmarks.json"),
    ("Benchmarks Stats:", "GuideLLM", "its benchmarks.json"),
    ("Run Summary Info", "GuideLLM", "its benchmarks.json"),
    ("generative_benchmark", "GuideLLM", "its benchmarks.json"),
    ("Benchmarking summary:", "evalscope", "its benchmark_summary.json"),
    ("Performance Test Summary", "evalscope", "its benchmark_summary.json"),
    ("LLM Metrics", "AIPerf", "its profile_export_aiperf.json"),
    ("Output Token Throughput (", "AIPerf", "its profile_export_aiperf.json"),
    ("peak t/s", "llama-benchy", "the file of --save-result with --format json"),
)  # fmt: skip


def _kin(doc: Document) -> str:
    """What a file is that no reader takes, where that is known; else empty."""
    names = set(doc.objects[0]) if doc.objects else set(re.split(r"[,\n]", doc.text[:400]))
    beside = (row for row in _BESIDE if not doc.values and row[0] in doc.text)
    printed = next((f"a table of {tool}: give {file}" for _, tool, file in beside), "")
    return next((what for marks, what in _KIN if marks <= names), printed)


def readers_of(doc: Document) -> list[ResultFormat]:
    """The readers that take a document: none or one."""
    return [reader for reader in READERS if reader.matches(doc)]


def read_document(doc: Document) -> list[BenchmarkRun]:
    """The runs of a document. Raises Unreadable for no reader, or a senseless value."""
    taken = readers_of(doc)
    if not taken and (within := find_inside(doc)) is not None:
        doc, taken = within, readers_of(within)
    if not taken:
        raise Unreadable(f"{doc.name}: {_kin(doc) or f'no result of {KNOWN}'}")
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
