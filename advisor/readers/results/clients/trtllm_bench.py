"""`trtllm-bench throughput` and `latency`: the report that it logs, and `--report_json`.

Its engine is TensorRT-LLM, for which there is no prediction: gains and their noise can be judged.
The number of concurrent requests is the mean of the run, not the client's limit. A report has
decoding statistics only where tokens were drafted; their lengths count the step of the prompt in.
"""

from __future__ import annotations

import re
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import Acceptance, BenchmarkRun, Foreign, Latency, Number, finite

FORMAT = "trtllm-bench"
_TITLE = re.compile(r"^= PERFORMANCE OVERVIEW *$", re.M)
_LINE = re.compile(r"^[ \t]*([A-Z][\w ()/.,\[\]-]{2,60}?):[ \t]+(\S[^\n]*?)[ \t]*$", re.M)
_SHARE = re.compile(
    r"^[ \t]*\[(TPOT|TTFT|Latency|DT|AL|DAR)\][ \t]+(\w+)[ \t]*:[ \t]*([0-9.]+)[ \t]*$", re.M
)
_MODE = re.compile(r"^= DECODING STATISTICS \(([^)\n]{1,40})\)", re.M)
_CARD = re.compile(r"^= MACHINE DETAILS *\n=+\n([^,\n]{2,80}),", re.M)
_WORDS = {"average": "mean", "p50": "p50", "p90": "p90", "p99": "p99"}
_METHODS = {"mtp": "mtp", "eagle": "eagle", "eagle3": "eagle3", "ngram": "ngram",
            "drafttarget": "draft_model", "draft_target": "draft_model"}  # fmt: skip
WHOLE = 0.1  # how far the drafted tokens of a step may lie from a whole number to be one


class Shares(Foreign):
    """Statistics over the requests; times in ms."""

    average: Number = None
    p50: Number = None
    p90: Number = None
    p99: Number = None

    def latency(self, mean: float | None = None) -> Latency | None:
        """As a time; `mean` where the average is stated elsewhere."""
        middle = self.average if self.average is not None else mean
        return Latency.from_statistics(mean=middle, p50=self.p50, p90=self.p90, p99=self.p99)


class Report(Foreign):
    """What is read of a report, under the names of the JSON."""

    model: str | None = None
    version: str | None = None
    card: str | None = None
    num_requests: Number = None
    concurrent: Number = None
    input_length: Number = None
    output_length: Number = None
    total_latency_ms: Number = None
    output_tok_s: Number = None
    mean_latency_ms: Number = None
    ttft_ms: Number = None
    tpot_ms: Number = None
    latency: Shares = Shares()
    ttft: Shares = Shares()
    tpot: Shares = Shares()
    mode: str | None = None
    drafted: Shares = Shares()
    accepted_length: Shares = Shares()
    accepted_rate: Shares = Shares()


def matches(doc: Document) -> bool:
    """Whether the document is a report of trtllm-bench."""
    if doc.values:
        return bool(doc.objects) and all(_is_report(row) for row in doc.objects)
    return _TITLE.search(doc.text) is not None and "(tokens/sec)" in doc.text


def _is_report(row: dict[str, Any]) -> bool:
    performance = row.get("performance")
    return isinstance(performance, dict) and "system_output_throughput_tok_s" in performance


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per report. Raises Unreadable where the output throughput is missing."""
    if doc.values:
        return [_run(doc, _from_json(row), part) for part, row in doc.parts()]
    starts = [found.start() for found in _TITLE.finditer(doc.text)]
    ends = [*starts[1:], len(doc.text)]
    # what was set stands above the title, what was drafted below it
    heads = [0, *(_next_head(doc.text, start) for start in starts)]
    parts = [
        _from_text(doc.text[head:start], doc.text[start:end])
        for head, start, end in zip(heads, starts, ends, strict=False)
    ]
    many = len(parts) > 1
    return [_run(doc, one, f"run {i}" if many else "") for i, one in enumerate(parts, 1)]


def _next_head(text: str, start: int) -> int:
    """Where the report after one that starts here begins."""
    found = text.find("= REQUEST DETAILS", start)
    above = max(text.rfind(f"= {word}", start, max(found, 0)) for word in ("PYTORCH", "ENGINE"))
    return above if above > start else max(found, start)


def _part(row: dict[str, Any], name: str) -> dict[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}


def _from_json(row: dict[str, Any]) -> Report:
    engine, machine, requests = (_part(row, name) for name in ("engine", "machine", "request_info"))
    speed, stream = _part(row, "performance"), _part(row, "streaming_metrics")
    drafts = _part(row, "decoding_stats")
    return Report.model_validate(
        {
            "model": engine.get("model"), "version": engine.get("version"),
            "card": machine.get("name"), "num_requests": requests.get("num_requests"),
            "concurrent": requests.get("avg_num_concurrent_requests"),
            "input_length": requests.get("avg_input_length"),
            "output_length": requests.get("avg_output_length"),
            "total_latency_ms": speed.get("total_latency_ms"),
            "output_tok_s": speed.get("system_output_throughput_tok_s"),
            "mean_latency_ms": speed.get("avg_request_latency_ms"),
            "ttft_ms": stream.get("avg_ttft_ms"), "tpot_ms": stream.get("avg_tpot_ms"),
            "latency": _part(speed, "request_latency_percentiles_ms"),
            "ttft": _part(stream, "ttft_percentiles"), "tpot": _part(stream, "tpot_percentiles"),
            "mode": drafts.get("mode"), "drafted": _part(drafts, "num_draft_tokens_percentiles"),
            "accepted_length": _part(drafts, "acceptance_length_percentiles"),
            "accepted_rate": _part(drafts, "draft_acceptance_rate_percentiles"),
        }
    )  # fmt: skip


def _from_text(head: str, body: str) -> Report:
    lines = {
        " ".join(name.lower().split()): value
        for text in (head[-20_000:], body)
        for name, value in _LINE.findall(text)
    }
    shares: dict[str, dict[str, str]] = {}
    for name, word, value in _SHARE.findall(body):
        shares.setdefault(name.lower(), {}).setdefault(word.lower(), value)
    mode, card = _MODE.search(body), _CARD.search(head)

    def number(label: str) -> float | None:
        text = lines.get(label, "")
        return float(text) if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?(?:E[+-]?\d+)?", text) else None

    return Report.model_validate(
        {
            "model": lines.get("model"),
            "version": lines.get("tensorrt llm version") or lines.get("tensorrt-llm version"),
            "card": card[1].strip() if card else None,
            "num_requests": number("number of requests"),
            "concurrent": number("number of concurrent requests"),
            "input_length": number("average input length (tokens)"),
            "output_length": number("average output length (tokens)"),
            "total_latency_ms": number("total latency (ms)"),
            "output_tok_s": number("total output throughput (tokens/sec)"),
            "mean_latency_ms": number("average request latency (ms)"),
            "ttft_ms": number("average time-to-first-token [ttft] (ms)"),
            "tpot_ms": number("average time-per-output-token [tpot] (ms)"),
            "latency": shares.get("latency", {}), "ttft": shares.get("ttft", {}),
            "tpot": shares.get("tpot", {}), "mode": mode[1] if mode else None,
            "drafted": shares.get("dt", {}), "accepted_length": shares.get("al", {}),
            "accepted_rate": shares.get("dar", {}),
        }
    )  # fmt: skip


def _run(doc: Document, made: Report, part: str) -> BenchmarkRun:
    if made.output_tok_s is None:
        raise Unreadable(f"{doc.name}: {FORMAT}: no output throughput is stated; cut off?")
    length = made.accepted_length.average
    mode = re.sub(r"[^a-z0-9_]", "", (made.mode or "").lower())
    drafts = length is not None or bool(mode)
    requests = finite(made.num_requests)
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="offline", part=part, sha256=doc.sha256,
        client="trtllm-bench", engine="tensorrt-llm", engine_version=made.version,
        model=made.model, hardware=made.card,
        method=_METHODS.get(mode) if drafts else "none",
        k=_drafts_a_step(made) if drafts else 0,
        concurrency=made.concurrent, requests=None if requests is None else round(requests),
        input_tokens=made.input_length, output_tokens=made.output_length,
        duration_s=None if made.total_latency_ms is None else made.total_latency_ms / 1e3,
        output_tok_s=made.output_tok_s,
        ttft_ms=made.ttft.latency(made.ttft_ms), tpot_ms=made.tpot.latency(made.tpot_ms),
        e2e_ms=made.latency.latency(made.mean_latency_ms),
        acceptance=Acceptance(length=length, rate=made.accepted_rate.average)
        if length is not None else None,
        notes=("concurrency is the mean of the run, not the limit of the client",),
    )  # fmt: skip


def _drafts_a_step(made: Report) -> int | None:
    """k: drafted tokens of a request over its steps, None where that is no whole number."""
    drafted, length, tokens = made.drafted.average, made.accepted_length.average, made.output_length
    if not drafted or not length or not tokens:
        return None
    k = drafted * length / tokens
    return round(k) if abs(k - round(k)) <= WHOLE and round(k) > 0 else None
