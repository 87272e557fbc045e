"""`vllm bench throughput` and `vllm bench latency`: the saved JSON and the printed lines. No
server, so no TTFT.

`tokens_per_second` of the saved throughput counts prompt and output tokens together: only the
printed line tells them apart.
"""

from __future__ import annotations

import re

from advisor.readers.results.document import Document
from advisor.readers.results.run import BenchmarkRun, Count, Foreign, Latency, Number, per_request

FORMAT = "vllm-bench-offline"
_THROUGHPUT = re.compile(
    r"Throughput: ([0-9]+(?:\.[0-9]*)?) requests/s, ([0-9]+(?:\.[0-9]*)?) total tokens/s, "
    r"([0-9]+(?:\.[0-9]*)?) output tokens/s"
)
_TOTAL = re.compile(r"Total num (prompt|output) tokens:\s+(\d+)")
_LATENCY = re.compile(r"^Avg latency: ([0-9]+(?:\.[0-9]*)?) seconds", re.M)


class Throughput(Foreign):
    """The file of `vllm bench throughput --output-json`."""

    model_id: str | None = None
    elapsed_time: Number
    num_requests: Count
    total_num_tokens: Count
    tokens_per_second: Number


class LatencyResult(Foreign):
    """The file of `vllm bench latency --output-json`; seconds of a whole batch."""

    model_id: str | None = None
    avg_latency: Number
    latencies: list[float] = []


def matches(doc: Document) -> bool:
    """Whether the document is output of `vllm bench throughput` or `vllm bench latency`."""
    one = doc.object
    saved = {"elapsed_time", "total_num_tokens", "tokens_per_second"} <= one.keys()
    saved = saved or {"avg_latency", "latencies"} <= one.keys()
    printed = not doc.values and (_THROUGHPUT.search(doc.text) or _LATENCY.search(doc.text))
    return saved or bool(printed)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return the run of the benchmark."""
    if "avg_latency" in doc.object:
        return [_latency(doc, LatencyResult.model_validate(doc.object))]
    if doc.object:
        made = Throughput.model_validate(doc.object)
        note = f"{made.tokens_per_second or 0:.1f} tok/s count prompt and output tokens together"
        return [
            BenchmarkRun(
                file=doc.name, format=FORMAT, kind="offline", sha256=doc.sha256, engine="vllm",
                client="vllm bench throughput", model=made.model_id, requests=made.num_requests,
                duration_s=made.elapsed_time, notes=(note,),
            )
        ]  # fmt: skip
    return _printed_runs(doc)


def _printed_runs(doc: Document) -> list[BenchmarkRun]:
    totals = dict(_TOTAL.findall(doc.text))
    out = []
    for requests_s, total_s, output_s in _THROUGHPUT.findall(doc.text):
        if not float(requests_s) or not float(total_s):
            continue
        per = float(output_s) / float(requests_s)
        seconds = per_request(float(totals.get("output", 0)), float(output_s))
        out.append(
            BenchmarkRun(
                file=doc.name, format=FORMAT, kind="offline", sha256=doc.sha256, engine="vllm",
                client="vllm bench throughput", duration_s=seconds, output_tok_s=float(output_s),
                output_tokens=per, input_tokens=float(total_s) / float(requests_s) - per,
            )
        )  # fmt: skip
    for mean in _LATENCY.findall(doc.text):
        out.append(_latency(doc, LatencyResult(avg_latency=float(mean))))
    return out


def _latency(doc: Document, made: LatencyResult) -> BenchmarkRun:
    of = Latency.of(v * 1e3 for v in made.latencies)
    mean = (made.avg_latency or 0) * 1e3
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="offline", sha256=doc.sha256, engine="vllm",
        client="vllm bench latency", model=made.model_id, repeats=len(made.latencies) or None,
        e2e_ms=of or Latency.from_statistics(mean=mean),
        notes=("the time of one whole batch; its size and lengths are not in the file",),
    )  # fmt: skip
