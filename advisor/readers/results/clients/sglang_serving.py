"""`python -m sglang.benchmark.serving --output-file` (before: sglang.bench_serving): JSON lines,
one run a line.

The inter-token latency of this client is divided by the tokens of each chunk, so it is per token,
unlike vLLM's. `accept_length` counts the bonus token and is null where the server is not SGLang.
`request_rate` is `Infinity`. The model's name is not in it. A TTFT of 0 says that the answers did
not stream: the times per token then hold the prompt's as well, and are left out.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from advisor.readers.results.document import Document
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Count,
    EngineName,
    Foreign,
    Latency,
    Number,
    finite,
    per_request,
)
from advisor.readers.results.tables import bare_cell, grid_tables

FORMAT = "sglang-bench-serving"
_BATCH_COLUMNS = {
    "batch size": "batch_size", "input len": "input_len", "latency (s)": "latency",
    "input throughput (tok/s)": "input_throughput",
    "output throughput (tok/s)": "output_throughput", "acc length": "acc_length",
}  # fmt: skip
_ENGINES: dict[str, EngineName] = {"sglang": "sglang", "vllm": "vllm"}


class Result(Foreign):
    """What is read of one line; names are the file's own."""

    backend: str | None = None
    dataset_name: str | None = None
    request_rate: Number | str = None
    max_concurrency: Count = None
    duration: Number
    completed: Count
    total_input_tokens: Count = None
    total_output_tokens: Count = None
    output_throughput: Number = None
    concurrency: Number = None
    accept_length: Number = None
    server_info: dict[str, Any] | None = None
    ttfts: list[float] = []
    itls: list[list[float]] = []
    output_lens: list[int] = []
    tag: str | None = None


class Offline(Foreign):
    """One line of bench_offline_throughput, whose last_gen_throughput is of its last batch."""

    successful_requests: Count
    total_latency: Number
    total_input_tokens: Count = None
    total_output_tokens: Count = None
    output_throughput: Number = None


class Batch(Foreign):
    """One line or row of bench_one_batch_server; -1 stands for no drafts."""

    batch_size: Count
    input_len: Count = None
    output_len: Count = None
    latency: Number = None
    input_throughput: Number = None
    output_throughput: Number = None
    last_ttft: Number = None
    acc_length: Annotated[float | None, BeforeValidator(finite)] = None
    model_path: str | None = None


def matches(doc: Document) -> bool:
    """Whether the document is a result of SGLang's bench_serving, bench_one_batch_server or
    bench_offline_throughput.
    """
    if not doc.values:
        return bool(_batch_rows(doc.text))
    return bool(doc.objects) and all(
        _is_result(row) or _is_batch(row) or _is_offline(row) for row in doc.objects
    )


def _is_offline(row: dict[str, Any]) -> bool:
    return {"successful_requests", "total_latency", "last_gen_throughput"} <= row.keys()


def _is_batch(row: dict[str, Any]) -> bool:
    return {"batch_size", "input_len", "output_len", "latency", "output_throughput"} <= row.keys()


def _batch_rows(text: str) -> list[dict[str, str]]:
    """The rows of the table that bench_one_batch_server prints, under its JSON's names."""
    if "| batch size |" not in text:
        return []
    return [
        {field: value for name, field in _BATCH_COLUMNS.items() if (value := row.get((name,), ""))}
        for rows in grid_tables(text)
        if ("batch size",) in rows[0] and ("output throughput (tok/s)",) in rows[0]
        for row in ({name: bare_cell(cell) for name, cell in full.items()} for full in rows)
    ]


def _is_result(row: dict[str, Any]) -> bool:
    return (
        {"backend", "completed", "duration", "output_throughput"} <= row.keys()
        and bool({"total_throughput", "input_throughput"} & row.keys())  # the second since 2025
        and "tokenizer_id" not in row  # vLLM's of 2024 has the second too
    )


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result."""
    if not doc.values:
        rows = _batch_rows(doc.text)
        return [_batch_run(doc, Batch.model_validate(row)) for row in rows]
    return [_run_of_line(doc, row, part) for part, row in doc.parts()]


def _run_of_line(doc: Document, row: dict[str, Any], part: str) -> BenchmarkRun:
    if _is_batch(row):
        return _batch_run(doc, Batch.model_validate(row))
    if _is_offline(row):
        return _offline_run(doc, Offline.model_validate(row), part)
    return _run(doc, row, Result.model_validate(row), part)


def _offline_run(doc: Document, made: Offline, part: str) -> BenchmarkRun:
    done = made.successful_requests
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="offline", part=part, sha256=doc.sha256,
        client="sglang.bench_offline_throughput", engine="sglang", requests=done,
        input_tokens=per_request(made.total_input_tokens, done),
        output_tokens=per_request(made.total_output_tokens, done),
        duration_s=made.total_latency, output_tok_s=made.output_throughput,
    )  # fmt: skip


def _batch_run(doc: Document, made: Batch) -> BenchmarkRun:
    speed, streams = made.output_throughput, made.batch_size
    each = speed / streams if speed and streams else None
    part = f"B{streams} in{made.input_len}" if made.input_len else f"B{streams}"
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="offline", part=part, sha256=doc.sha256,
        client="sglang.bench_one_batch_server", engine="sglang", model=made.model_path,
        concurrency=streams, requests=streams, input_tokens=made.input_len,
        output_tokens=made.output_len, duration_s=made.latency,
        output_tok_s=speed, request_tok_s=each, prompt_tok_s=made.input_throughput,
        tpot_ms=Latency.from_statistics(mean=1e3 / each) if each else None,
        ttft_ms=Latency.from_statistics(mean=made.last_ttft * 1e3) if made.last_ttft else None,
        acceptance=Acceptance(length=made.acc_length)
        if made.acc_length and made.acc_length > 1 else None,
        notes=("output tok/s of the generation phase alone; TTFT is the last request's",),
    )  # fmt: skip


def _run(doc: Document, row: dict[str, Any], made: Result, part: str) -> BenchmarkRun:
    info = made.server_info or {}
    engine = next(
        (name for word, name in _ENGINES.items() if (made.backend or "").startswith(word)), None
    )
    steps = finite(info.get("speculative_num_steps"))
    least = (
        1.0 if steps else 1.0 + 1e-9
    )  # exactly 1 without draft steps: a server that does not speculate
    length = made.accept_length if made.accept_length and made.accept_length >= least else None
    version = info.get("version")
    streamed = row.get("mean_ttft_ms") != 0
    pairs = zip(made.itls, made.output_lens, strict=False)
    tpots = [sum(gaps) * 1e3 / (n - 1) for gaps, n in pairs if n > 1 and gaps]
    return BenchmarkRun(
        file=doc.name, format=FORMAT, part=part or (made.tag or ""), sha256=doc.sha256,
        client="sglang.benchmark.serving", engine=engine,
        engine_version=str(version) if engine == "sglang" and version else None,
        k=steps if isinstance(steps, int) else None, dataset=made.dataset_name,
        model=info.get("model_path") if isinstance(info.get("model_path"), str) else None,
        concurrency=made.max_concurrency,
        request_rate=made.request_rate if isinstance(made.request_rate, float) else None,
        requests=made.completed,
        input_tokens=per_request(made.total_input_tokens, made.completed),
        output_tokens=per_request(made.total_output_tokens, made.completed),
        duration_s=made.duration, output_tok_s=made.output_throughput,
        ttft_ms=_latency(row, "ttft", [v * 1e3 for v in made.ttfts]) if streamed else None,
        tpot_ms=_latency(row, "tpot", tpots) if streamed else None,
        itl_ms=_latency(row, "itl", ()) if streamed else None,
        e2e_ms=_latency(row, "e2e_latency", ()),
        acceptance=Acceptance(length=length) if length is not None else None,
        notes=("inter-token latency is per token, not per chunk",)
        if streamed
        else ("the answers did not stream: no TTFT, TPOT and ITL",),
    )  # fmt: skip


def _latency(row: dict[str, Any], name: str, values: Any) -> Latency | None:
    words = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99", "sd": "std"}
    known = {field: row.get(f"{word}_{name}_ms") for field, word in words.items()}
    of = Latency.of(values)
    known = {key: value for key, value in known.items() if value is not None}
    return Latency.from_statistics(**known, values=of.values if of else ()) if known else of
