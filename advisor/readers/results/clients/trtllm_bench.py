"""`trtllm-bench throughput` and `latency`: the report that it logs, and `--report_json`.

Its engine is TensorRT-LLM, for which there is no prediction: gains and their noise can be judged.
The number of concurrent requests is the mean of the run, not the client's limit. A report has
decoding statistics only where tokens were drafted; their lengths count the step of the prompt in.
"""

from __future__ import annotations

import re
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import (
    FileLayout,
    Row,
    number_at,
    part_at,
    parts_of,
    plain_number,
    text_at,
)
from advisor.readers.results.run import BenchmarkRun

FORMAT = "trtllm-bench"
LAYOUT = FileLayout(  # the JSON's names, the labels that are logged
    format=FORMAT,
    client="trtllm-bench",
    engine="tensorrt-llm",
    kind="offline",
    fields={
        "model": ("engine > model", "model"),
        "engine_version": ("engine > version", "tensorrt llm version", "tensorrt-llm version"),
        "hardware": ("machine > name", "card"),
        "concurrency": (
            "request_info > avg_num_concurrent_requests", "number of concurrent requests",
        ),
        "requests": ("request_info > num_requests", "number of requests"),
        "input_tokens": ("request_info > avg_input_length", "average input length (tokens)"),
        "output_tokens": ("request_info > avg_output_length", "average output length (tokens)"),
        "duration_s": ("performance > total_latency_ms", "total latency (ms)"),
        "output_tok_s": (
            "performance > system_output_throughput_tok_s", "total output throughput (tokens/sec)",
        ),
    },
    times={
        "ttft_ms": (
            "streaming_metrics > ttft_percentiles > {}", "ttft > {}",
            "streaming_metrics > avg_ttft_ms{}", "average time-to-first-token [ttft] (ms){}",
        ),
        "tpot_ms": (
            "streaming_metrics > tpot_percentiles > {}", "tpot > {}",
            "streaming_metrics > avg_tpot_ms{}", "average time-per-output-token [tpot] (ms){}",
        ),
        "e2e_ms": (
            "performance > request_latency_percentiles_ms > {}", "latency > {}",
            "performance > avg_request_latency_ms{}", "average request latency (ms){}",
        ),
    },
    words={"mean": ("average", ""), "p50": "p50", "p90": "p90", "p99": "p99"},
    acceptance={
        "length": ("decoding_stats > acceptance_length_percentiles > average", "al > average"),
        "rate": ("decoding_stats > draft_acceptance_rate_percentiles > average", "dar > average"),
    },
    scale={"duration_s": 1e-3},
    notes=("concurrency is the mean of the run, not the limit of the client",),
)  # fmt: skip
_MODE_AT = ("decoding_stats > mode", "mode")
_DRAFTED = ("decoding_stats > num_draft_tokens_percentiles > average", "dt > average")
_TITLE = re.compile(r"^= PERFORMANCE OVERVIEW *$", re.M)
_LINE = re.compile(r"^[ \t]*([A-Z][\w ()/.,\[\]-]{2,60}?):[ \t]+(\S[^\n]*?)[ \t]*$", re.M)
_SHARE = re.compile(
    r"^[ \t]*\[(TPOT|TTFT|Latency|DT|AL|DAR)\][ \t]+(\w+)[ \t]*:[ \t]*([0-9.]+)[ \t]*$", re.M
)
_MODE = re.compile(r"^= DECODING STATISTICS \(([^)\n]{1,40})\)", re.M)
_CARD = re.compile(r"^= MACHINE DETAILS *\n=+\n([^,\n]{2,80}),", re.M)
_METHODS = {"mtp": "mtp", "eagle": "eagle", "eagle3": "eagle3", "ngram": "ngram",
            "drafttarget": "draft_model", "draft_target": "draft_model"}  # fmt: skip
WHOLE = 0.1  # how far the drafted tokens of a step may lie from a whole number to be one


def matches(doc: Document) -> bool:
    """Whether the document is a report of trtllm-bench."""
    if doc.values:
        return bool(doc.objects) and all(
            "system_output_throughput_tok_s" in part_at(row, "performance") for row in doc.objects
        )
    return _TITLE.search(doc.text) is not None and "(tokens/sec)" in doc.text


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per report. Raises Unreadable where the output throughput is missing."""
    if doc.values:
        return [_run(doc, row, part) for part, row in doc.parts()]
    starts = [title.start() for title in _TITLE.finditer(doc.text)]
    # what was set stands above the title, what was drafted below it
    heads = [0, *(_next_head(doc.text, start) for start in starts)]
    reports = [
        _from_text(doc.text[head:start], doc.text[start:end])
        for head, start, end in zip(heads, starts, [*starts[1:], len(doc.text)], strict=False)
    ]
    return [_run(doc, report, part) for part, report in parts_of(reports)]


def _next_head(text: str, start: int) -> int:
    """Where the report after one that starts here begins."""
    details = text.find("= REQUEST DETAILS", start)
    above = max(text.rfind(f"= {word}", start, max(details, 0)) for word in ("PYTORCH", "ENGINE"))
    return above if above > start else max(details, start)


def _from_text(head: str, body: str) -> Row:
    """The labels of a logged report, and its statistics by metric."""
    report: dict[str, Any] = {
        " ".join(name.lower().split()): value if (n := plain_number(value)) is None else n
        for text in (head[-20_000:], body)
        for name, value in _LINE.findall(text)
    }
    shares: dict[str, dict[str, str]] = {}
    for name, word, value in _SHARE.findall(body):
        shares.setdefault(name.lower(), {}).setdefault(word.lower(), value)
    mode, card = _MODE.search(body), _CARD.search(head)
    about = {"mode": mode[1] if mode else None, "card": card[1].strip() if card else None}
    return report | shares | about


def _run(doc: Document, row: Row, part: str) -> BenchmarkRun:
    run = LAYOUT.run(doc, row, part)
    if run.output_tok_s is None:
        raise Unreadable(f"{doc.name}: {FORMAT}: no output throughput is stated; cut off?")
    accepted = run.acceptance if run.acceptance and run.acceptance.length is not None else None
    mode = re.sub(r"[^a-z0-9_]", "", (text_at(row, _MODE_AT) or "").lower())
    drafts = accepted is not None or bool(mode)
    drafted = number_at(row, _DRAFTED)
    # drafted tokens of a request over its steps, where that is a whole number
    k = 0.0
    if accepted and accepted.length and drafted and run.output_tokens:
        k = drafted * accepted.length / run.output_tokens
    whole = round(k) if abs(k - round(k)) <= WHOLE and round(k) > 0 else None
    return run.model_copy(
        update={
            "method": _METHODS.get(mode) if drafts else "none",
            "k": whole if drafts else 0,
            "acceptance": accepted,
        }
    )
