"""The benchmarks of vLLM and SGLang without a server: `vllm bench throughput` and `latency`, saved
or printed, SGLang's bench_offline_throughput and bench_one_batch_server, saved or as its table.

They have no TTFT. `tokens_per_second` of a saved throughput counts prompt and output tokens
together: only the printed line tells them apart. `last_gen_throughput` of SGLang is of its last
batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.readers.results import engine_logs
from advisor.readers.results.document import Document
from advisor.readers.results.fields import (
    FileLayout,
    Row,
    floats_at,
    number_at,
    parts_of,
    plain_number,
    value_at,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency, per_request
from advisor.readers.results.tables import bare_cell, grid_tables, pieces

FORMAT = "offline-benchmark"
THROUGHPUT = FileLayout(
    format="vllm-bench-offline", client="vllm bench throughput", engine="vllm", kind="offline",
    fields={
        "model": "model_id", "requests": "num_requests", "duration_s": "elapsed_time",
        "output_tok_s": "output_tok_s", "input_tokens": "input", "output_tokens": "output",
    },
)  # fmt: skip
LATENCY = FileLayout(
    format="vllm-bench-offline", client="vllm bench latency", engine="vllm", kind="offline",
    fields={"model": "model_id"}, ms=1e3,
    times={"e2e_ms": ("avg_latency{}", "percentiles > {}")},
    words={"mean": "", "p50": "50", "p90": "90", "p99": "99"},
    notes=("the time of one whole batch; its size and lengths are not in the file",),
)  # fmt: skip
SGLANG = FileLayout(
    format="sglang-bench-serving", client="sglang.bench_offline_throughput", engine="sglang",
    kind="offline",
    fields={
        "requests": "successful_requests", "duration_s": "total_latency",
        "output_tok_s": "output_throughput",
    },
    totals={"input_tokens": "total_input_tokens", "output_tokens": "total_output_tokens"},
)  # fmt: skip
BATCH = FileLayout(  # the JSON's names, the table's
    format="sglang-bench-serving", client="sglang.bench_one_batch_server", engine="sglang",
    kind="offline",
    fields={
        "model": "model_path", "concurrency": ("batch_size", "batch size"),
        "requests": ("batch_size", "batch size"), "input_tokens": ("input_len", "input len"),
        "output_tokens": "output_len", "duration_s": ("latency", "latency (s)"),
        "output_tok_s": ("output_throughput", "output throughput (tok/s)"),
        "prompt_tok_s": ("input_throughput", "input throughput (tok/s)"),
    },
    times={"ttft_ms": "last_ttft{}"}, words={"mean": ""}, ms=1e3,
    notes=("output tok/s of the generation phase alone; TTFT is the last request's",),
)  # fmt: skip
_KEYS = (
    ({"elapsed_time", "total_num_tokens", "tokens_per_second"}, THROUGHPUT),
    ({"avg_latency", "latencies"}, LATENCY),
    ({"successful_requests", "total_latency", "last_gen_throughput"}, SGLANG),
    ({"batch_size", "input_len", "output_len", "latency", "output_throughput"}, BATCH),
)
_NUMBER = r"([0-9]+(?:\.[0-9]*)?)"
_THROUGHPUT = re.compile(
    rf"Throughput: {_NUMBER} requests/s, {_NUMBER} total tokens/s, {_NUMBER} output tokens/s"
)
_TOTAL = re.compile(r"Total num (prompt|output) tokens:\s+(\d+)")
_LATENCY = re.compile(rf"^Avg latency: {_NUMBER} seconds", re.M)
_SHARE = re.compile(rf"^(\d{{1,2}})% percentile latency: {_NUMBER} seconds", re.M)


def matches(doc: Document) -> bool:
    """Whether the document is output of one of the four."""
    if doc.values:
        return bool(doc.objects) and all(_layout(row) for row in doc.objects)
    text = doc.text
    return bool(_THROUGHPUT.search(text) or _LATENCY.search(text) or any(_batches(text)))


def _layout(row: Row) -> FileLayout | None:
    return next((layout for keys, layout in _KEYS if keys <= row.keys()), None)


def _batches(text: str) -> Iterator[Row]:
    """The rows of the table that bench_one_batch_server prints."""
    for rows in grid_tables(text) if "| batch size |" in text else ():
        if ("batch size",) in rows[0] and ("output throughput (tok/s)",) in rows[0]:
            yield from (
                {" ".join(name): bare_cell(cell) for name, cell in row.items()} for row in rows
            )


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result."""
    if doc.values:
        return [_run(doc, row, part) for part, row in doc.parts()]
    return [
        *(_batch_run(doc, row) for row in _batches(doc.text)),
        *_printed_throughputs(doc),
        *_printed_latencies(doc),
    ]


def _run(doc: Document, row: Row, part: str) -> BenchmarkRun:
    layout = _layout(row)
    if layout is LATENCY:
        seconds = floats_at(row, "latencies", 1e3)
        run = LATENCY.run(doc, row, part, repeats=len(seconds) or None)
        return run.model_copy(update={"e2e_ms": Latency.of(seconds) or run.e2e_ms})
    if layout is THROUGHPUT:
        note = f"{number_at(row, 'tokens_per_second') or 0:.1f} tok/s count prompt and output "
        note += "tokens together: the printed line tells them apart"
        return THROUGHPUT.run(doc, row, part, notes=(note,))
    return SGLANG.run(doc, row, part) if layout is SGLANG else _batch_run(doc, row)


def _batch_run(doc: Document, row: Row) -> BenchmarkRun:
    run = BATCH.run(doc, row)
    each = run.output_tok_s / run.concurrency if run.output_tok_s and run.concurrency else None
    part = f"B{run.requests}" + (f" in{run.input_tokens:.0f}" if run.input_tokens else "")
    length = plain_number(value_at(row, ("acc_length", "acc length")))  # -1 without drafts
    return run.model_copy(
        update={
            "part": part,
            "request_tok_s": each,
            "tpot_ms": Latency.from_statistics(mean=1e3 / each) if each else None,
            "acceptance": Acceptance(length=length) if length and length > 1 else None,
        }
    )


def _printed_throughputs(doc: Document) -> Iterator[BenchmarkRun]:
    """The printed lines; the totals below a throughput make its rounded figures exact."""
    lines = pieces(doc.text, _THROUGHPUT)
    about = engine_logs.start_of(doc.text)
    full = [line for line in lines if float(line[0][1]) and float(line[0][3])]
    for number, (line, below) in enumerate(full, 1):
        requests_s, total_s, output_s = map(float, line.groups())
        totals = {name: int(count) for name, count in _TOTAL.findall(below)}
        seconds = totals["output"] / output_s if totals.get("output") else None
        requests = round(requests_s * seconds) if seconds else None
        output = per_request(totals.get("output"), requests) or output_s / requests_s
        prompt = per_request(totals.get("prompt"), requests) or total_s / requests_s - output
        row = {
            "num_requests": requests, "elapsed_time": seconds, "output_tok_s": output_s,
            "input": max(prompt, 0.0), "output": output,
        }  # fmt: skip
        yield THROUGHPUT.run(doc, row, f"run {number}" if lines[1:] else "", **about)


def _printed_latencies(doc: Document) -> Iterator[BenchmarkRun]:
    about = engine_logs.start_of(doc.text)
    for part, (line, below) in parts_of(pieces(doc.text, _LATENCY)):
        row = {"avg_latency": line[1], "percentiles": dict(_SHARE.findall(below))}
        yield LATENCY.run(doc, row, part, **about)
