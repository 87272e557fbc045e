"""`vllm bench throughput` and `vllm bench latency`: the saved JSON and the printed lines. No
server, so no TTFT.

`tokens_per_second` of the saved throughput counts prompt and output tokens together: only the
printed line tells them apart.
"""

from __future__ import annotations

import re

from advisor.readers.results import engine_logs
from advisor.readers.results.document import Document
from advisor.readers.results.run import BenchmarkRun, Count, Foreign, Latency, Number, per_request

FORMAT = "vllm-bench-offline"
_THROUGHPUT = re.compile(
    r"Throughput: ([0-9]+(?:\.[0-9]*)?) requests/s, ([0-9]+(?:\.[0-9]*)?) total tokens/s, "
    r"([0-9]+(?:\.[0-9]*)?) output tokens/s"
)
_TOTAL = re.compile(r"Total num (prompt|output) tokens:\s+(\d+)")
_LATENCY = re.compile(r"^Avg latency: ([0-9]+(?:\.[0-9]*)?) seconds", re.M)

_SHARE = re.compile(r"^(\d{1,2})% percentile latency: ([0-9]+(?:\.[0-9]*)?) seconds", re.M)
_PERCENTILES = {"p50": "50", "p90": "90", "p99": "99"}


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
    percentiles: dict[str, Number] = {}


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
        note += ": the printed line tells them apart"
        return [
            BenchmarkRun(
                file=doc.name, format=FORMAT, kind="offline", sha256=doc.sha256, engine="vllm",
                client="vllm bench throughput", model=made.model_id, requests=made.num_requests,
                duration_s=made.elapsed_time, notes=(note,),
            )
        ]  # fmt: skip
    return _printed_runs(doc)


def _printed_runs(doc: Document) -> list[BenchmarkRun]:
    """The printed lines; the totals below a throughput make its rounded figures exact."""
    found = list(_THROUGHPUT.finditer(doc.text))
    ends = [*(m.start() for m in found), len(doc.text)][1:]
    about = engine_logs.start_of(doc.text)
    out: list[BenchmarkRun] = []
    for match, end in zip(found, ends, strict=True):
        requests_s, total_s, output_s = (float(number) for number in match.groups())
        if not requests_s or not output_s:
            continue
        totals = {name: int(count) for name, count in _TOTAL.findall(doc.text[match.end() : end])}
        seconds = totals["output"] / output_s if totals.get("output") else None
        requests = round(requests_s * seconds) if seconds else None
        per = per_request(totals.get("output"), requests) or output_s / requests_s
        prompt = per_request(totals.get("prompt"), requests) or total_s / requests_s - per
        out.append(
            BenchmarkRun(
                file=doc.name, format=FORMAT, kind="offline", sha256=doc.sha256, engine="vllm",
                client="vllm bench throughput", part=f"run {len(out) + 1}" if found[1:] else "",
                duration_s=seconds, requests=requests, output_tok_s=output_s, output_tokens=per,
                input_tokens=max(prompt, 0.0), **about,
            )
        )  # fmt: skip
    lines = list(_LATENCY.finditer(doc.text))
    ends = [*(m.start() for m in lines), len(doc.text)][1:]
    for line, end in zip(lines, ends, strict=True):
        shares = dict(_SHARE.findall(doc.text[line.end() : end]))
        made = LatencyResult.model_validate({"avg_latency": line[1], "percentiles": shares})
        out.append(_latency(doc, made).model_copy(update=about))
    return out


def _latency(doc: Document, made: LatencyResult) -> BenchmarkRun:
    of = Latency.of(v * 1e3 for v in made.latencies)
    stated = {name: made.percentiles.get(share) for name, share in _PERCENTILES.items()}
    known = {"mean": made.avg_latency} | stated
    printed = {name: value * 1e3 for name, value in known.items() if value is not None}
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="offline", sha256=doc.sha256, engine="vllm",
        client="vllm bench latency", model=made.model_id, repeats=len(made.latencies) or None,
        e2e_ms=of or Latency.from_statistics(**printed),
        notes=("the time of one whole batch; its size and lengths are not in the file",),
    )  # fmt: skip
