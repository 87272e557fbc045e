"""Which reader takes a file: the one whose marks its content has. Two that both would take it are
a defect, and a test says so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from advisor.domain.printable import excerpt
from advisor.readers.results import (
    answers,
    comparison_tables,
    engine_logs,
    exposition,
    own_runs,
)
from advisor.readers.results.clients import (
    aiperf,
    aisbench,
    cluster_reports,
    evalscope,
    guidellm,
    llama_tests,
    llmperf,
    offline,
    serving,
    serving_console,
    trtllm_bench,
)
from advisor.readers.results.document import Document, Unreadable, find_inside, load
from advisor.readers.results.run import BenchmarkRun

READERS: tuple[ModuleType, ...] = (
    own_runs, serving, serving_console, offline, llama_tests, answers, engine_logs, guidellm,
    evalscope, aiperf, exposition, trtllm_bench, aisbench, cluster_reports, llmperf,
)  # fmt: skip
KNOWN = (
    "vllm bench serve, throughput or latency, sglang.benchmark.serving, llama-bench, "
    "llama-batched-bench, llama-sweep-bench, answers of llama-server or vLLM, engine logs, "
    "GuideLLM, evalscope perf, AIPerf, GenAI-Perf, llama-benchy, trtllm-bench, AISBench, llmperf, "
    "genai-bench, llm-d-benchmark, inference-perf, InferenceX, a server's /metrics, or a table "
    "with k and tok/s"
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


def _kin(doc: Document) -> str:
    """What a file is that no reader takes, where that is known; else empty."""
    names = set(doc.objects[0]) if doc.objects else set(re.split(r"[,\n]", doc.text[:400]))
    return next((what for marks, what in _KIN if marks <= names), "")


def readers_of(doc: Document) -> list[ModuleType]:
    """The readers that take a document: none or one. What people wrote themselves comes last."""
    taken = [reader for reader in READERS if reader.matches(doc)]
    return taken or ([comparison_tables] if comparison_tables.matches(doc) else [])


def read_document(doc: Document) -> list[BenchmarkRun]:
    """The runs of a document. Raises Unreadable where no reader takes it, or a value makes no
    sense.
    """
    taken = readers_of(doc)
    if not taken and (within := find_inside(doc)) is not None:
        doc, taken = within, readers_of(within)
    if not taken:
        raise Unreadable(f"{doc.name}: {_kin(doc) or f'no result of {KNOWN}'}")
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
