"""The benchmarks of vLLM and SGLang without a server: `vllm bench throughput` and `latency`, saved
or printed, SGLang's bench_offline_throughput and bench_one_batch_server, saved.

They have no TTFT. `tokens_per_second` of a saved throughput counts prompt and output tokens
together: only the printed line tells them apart. `last_gen_throughput` of SGLang is of its last
batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from advisor.readers.results import engine_logs
from advisor.readers.results.document import Document
from advisor.readers.results.fields import (
    FileLayout,
    Place,
    Row,
    floats_at,
    number_at,
    plain_number,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency, per_request
from advisor.readers.results.tables import pieces

FORMAT = "offline-benchmark"


def _throughput_finish(_: BenchmarkRun, row: Row) -> Row:
    note = f"{number_at(row, 'tokens_per_second') or 0:.1f} tok/s count prompt and output "
    return {"notes": (note + "tokens together: the printed line tells them apart",)}


def _latency_finish(run: BenchmarkRun, row: Row) -> Row:
    seconds = floats_at(row, "latencies", 1e3)
    return {"repeats": len(seconds) or None, "e2e_ms": Latency.of(seconds) or run.e2e_ms}


def _batch_finish(run: BenchmarkRun, row: Row) -> Row:
    each = run.output_tok_s / run.concurrency if run.output_tok_s and run.concurrency else None
    length = plain_number(row.get("acc_length"))  # -1 without drafts
    return {
        "part": f"B{run.requests}" + (f" in{run.input_tokens:.0f}" if run.input_tokens else ""),
        "request_tok_s": each,
        "tpot_ms": Latency.from_statistics(mean=1e3 / each) if each else None,
        "acceptance": Acceptance(length=length) if length and length > 1 else None,
    }


# what the log of the engine's start says beside a printed result
_STARTED: dict[str, Place] = {name: name for name in ("engine_version", "method", "k")}
THROUGHPUT = FileLayout(
    format="vllm-bench-offline", client="vllm bench throughput", engine="vllm", kind="offline",
    fields={
        "model": ("model_id", "model"), "requests": "num_requests", "duration_s": "elapsed_time",
        "output_tok_s": "output_tok_s", "input_tokens": "input", "output_tokens": "output",
        **_STARTED,
    },
    marks=("elapsed_time", "total_num_tokens", "tokens_per_second"), finish=_throughput_finish,
)  # fmt: skip
LATENCY = FileLayout(
    format="vllm-bench-offline", client="vllm bench latency", engine="vllm", kind="offline",
    fields={"model": ("model_id", "model"), **_STARTED},
    marks=("avg_latency", "latencies"), finish=_latency_finish, ms=1e3,
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
    marks=("successful_requests", "total_latency", "last_gen_throughput"),
)  # fmt: skip
BATCH = FileLayout(
    format="sglang-bench-serving", client="sglang.bench_one_batch_server", engine="sglang",
    kind="offline",
    fields={
        "model": "model_path", "concurrency": "batch_size", "requests": "batch_size",
        "input_tokens": "input_len", "output_tokens": "output_len", "duration_s": "latency",
        "output_tok_s": "output_throughput", "prompt_tok_s": "input_throughput",
    },
    marks=("batch_size", "input_len", "output_len", "latency", "output_throughput"),
    finish=_batch_finish,
    times={"ttft_ms": "last_ttft{}"}, words={"mean": ""}, ms=1e3,
    notes=("output tok/s of the generation phase alone; TTFT is the last request's",),
)  # fmt: skip
LAYOUTS = (THROUGHPUT, LATENCY, SGLANG, BATCH)
_NUMBER = r"([0-9]+(?:\.[0-9]*)?)"
_THROUGHPUT = re.compile(
    rf"Throughput: {_NUMBER} requests/s, {_NUMBER} total tokens/s, {_NUMBER} output tokens/s"
)
_TOTAL = re.compile(r"Total num (prompt|output) tokens:\s+(\d+)")
_LATENCY = re.compile(rf"^Avg latency: {_NUMBER} seconds", re.M)
_SHARE = re.compile(rf"^(\d{{1,2}})% percentile latency: {_NUMBER} seconds", re.M)


PRINTED = replace(THROUGHPUT, finish=None)


def matches(doc: Document) -> bool:
    """Whether the text is printed output of one of vLLM's two."""
    return not doc.values and bool(_THROUGHPUT.search(doc.text) or _LATENCY.search(doc.text))


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result."""
    about = engine_logs.start_of(doc.text)
    latencies = (
        about | {"avg_latency": line[1], "percentiles": dict(_SHARE.findall(below))}
        for line, below in pieces(doc.text, _LATENCY)
    )
    throughputs = ({**about, **row} for row in _throughputs(doc.text))
    return PRINTED.runs(doc, throughputs) + LATENCY.runs(doc, latencies)


def _throughputs(text: str) -> Iterator[Row]:
    """The printed lines; the totals below a throughput make its rounded figures exact."""
    for line, below in pieces(text, _THROUGHPUT):
        requests_s, total_s, output_s = map(float, line.groups())
        if not requests_s or not output_s:
            continue
        totals = {name: int(count) for name, count in _TOTAL.findall(below)}
        seconds = totals["output"] / output_s if totals.get("output") else None
        requests = round(requests_s * seconds) if seconds else None
        output = per_request(totals.get("output"), requests) or output_s / requests_s
        prompt = per_request(totals.get("prompt"), requests) or total_s / requests_s - output
        yield {
            "num_requests": requests, "elapsed_time": seconds, "output_tok_s": output_s,
            "input": max(prompt, 0.0), "output": output,
        }  # fmt: skip
