"""llmperf's `token_benchmark_ray.py`: `*_summary.json`, and what it prints; and a load's JSON of
genai-bench, which states its unit of time (`_time_unit`) and each request.

llmperf's "inter-token latency" is the whole latency over all tokens, the wait for the first one
included, so the time per token after the first follows from the means. Tokens are counted by its
own tokenizer. "Overall output throughput" is of the server.
"""

from __future__ import annotations

import re
from dataclasses import replace

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import (
    BY_MEANS,
    FileLayout,
    Row,
    list_at,
    mean_after_first,
    number_at,
    part_at,
    parts_of,
)
from advisor.readers.results.run import BenchmarkRun

FORMAT = "llmperf"
_SPEED = "results_mean_output_throughput_token_per_s"
LAYOUT = FileLayout(  # the JSON's names, those of the printed blocks
    format=FORMAT,
    client="llmperf",
    fields={
        "model": "model",
        "concurrency": "num_concurrent_requests",
        "temperature": "additional_sampling_params_temperature",
        "requests": "results_num_completed_requests",
        "failed": "results_number_errors",
        "input_tokens": ("results_number_input_tokens_mean", "number_input_tokens > mean"),
        "output_tokens": ("results_number_output_tokens_mean", "number_output_tokens > mean"),
        "output_tok_s": _SPEED,
    },
    times={
        "ttft_ms": ("results_ttft_s_{}", "ttft_s > {}"),
        "e2e_ms": ("results_end_to_end_latency_s_{}", "end_to_end_latency_s > {}"),
    },
    words={"mean": "mean", "sd": "stddev"}
    | {share: (f"quantiles_{share}", share) for share in ("p50", "p90", "p99")},
    ms=1e3,
)
_AGGREGATED = "aggregated_metrics"
GENAI = FileLayout(
    format="genai-bench",
    client="genai-bench",
    fields={
        "dataset": f"{_AGGREGATED} > scenario",
        "concurrency": f"{_AGGREGATED} > num_concurrency",
        "requests": f"{_AGGREGATED} > num_completed_requests",
        "failed": f"{_AGGREGATED} > num_error_requests",
        "duration_s": f"{_AGGREGATED} > run_duration",  # s, whatever the unit of the rest
        "input_tokens": f"{_AGGREGATED} > stats > num_input_tokens > mean",
        "output_tokens": f"{_AGGREGATED} > stats > num_output_tokens > mean",
        "output_tok_s": f"{_AGGREGATED} > mean_output_throughput_tokens_per_s",
    },
    times={
        f"{name}_ms": f"{_AGGREGATED} > stats > {key} > {{}}"
        for name, key in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", "e2e_latency"))
    },
    words={"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "sd": "stddev"},
    ms=1e3,
)
_OVERALL = re.compile(r"^Overall Output Throughput: ([0-9.]+)[ \t]*$", re.M)
_LINES = {
    "results_num_completed_requests": re.compile(
        r"^Number Of Completed Requests: (\d+)[ \t]*$", re.M
    ),
    "results_number_errors": re.compile(r"^Number Of Errored Requests: (\d+)[ \t]*$", re.M),
    "model": re.compile(r"Results for token benchmark for (\S{1,200}) queried with"),
    _SPEED: _OVERALL,
}
_BLOCK = re.compile(r"^([a-z_]{4,60})[ \t]*\n((?:[ \t]*\w{3,6} = [0-9.e+-]+[ \t]*\n?){1,20})", re.M)
_SHARE = re.compile(r"(\w{3,6}) = ([0-9.e+-]+)")


def matches(doc: Document) -> bool:
    """Whether the document is a result of llmperf or genai-bench."""
    if doc.values:
        return bool(doc.objects) and all(_SPEED in row or _is_genai(row) for row in doc.objects)
    return _OVERALL.search(doc.text) is not None and "end_to_end_latency_s" in doc.text


def _is_genai(row: Row) -> bool:
    return "mean_output_throughput_tokens_per_s" in part_at(row, _AGGREGATED)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per summary. Raises Unreadable where no request has finished."""
    if doc.values:
        return [
            _genai_run(doc, row, part) if _is_genai(row) else _run(doc, row, part)
            for part, row in doc.parts()
        ]
    ends = [line.end() for line in _OVERALL.finditer(doc.text)]
    texts = [doc.text[a:b] for a, b in zip([0, *ends], [*ends[1:], len(doc.text)], strict=False)]
    return [_run(doc, _from_text(text), part) for part, text in parts_of(texts)]


def _from_text(text: str) -> Row:
    lines = {name: match[1] for name, line in _LINES.items() if (match := line.search(text))}
    return lines | {name: dict(_SHARE.findall(rows)) for name, rows in _BLOCK.findall(text)}


def _run(doc: Document, row: Row, part: str) -> BenchmarkRun:
    run = LAYOUT.run(doc, row, part)
    if not run.output_tok_s:
        raise Unreadable(f"{doc.name}: {FORMAT}: no request has finished")
    tpot = mean_after_first(run.e2e_ms, run.ttft_ms, run.output_tokens)
    note = f"{BY_MEANS}llmperf's own counts the first token's wait in"
    return run.model_copy(update={"tpot_ms": tpot, "notes": (note,) if tpot else ()})


def _genai_run(doc: Document, row: Row, part: str) -> BenchmarkRun:
    scale = 1.0 if row.get("_time_unit") == "ms" else 1e3
    requests = list_at(row, "individual_request_metrics")
    values = {
        name: [v for one in requests if (v := number_at(one, key, scale)) is not None]
        for name, key in (("ttft_ms", "ttft"), ("tpot_ms", "tpot"), ("e2e_ms", "e2e_latency"))
    }
    run = replace(GENAI, ms=scale).run(doc, row, part, values)
    if not run.output_tok_s:
        raise Unreadable(f"{doc.name}: genai-bench: no request has finished")
    return run
