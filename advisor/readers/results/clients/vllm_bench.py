"""`vllm bench`: `serve --save-result` (and --append-result), one JSON object a run or a row of CSV
as `vllm bench sweep` and spreadsheets hold it; and `throughput` and `latency`, saved or printed.

Latencies are in ms, acceptance in percent. Neither the engine's version nor the hardware is in it,
and k only as the number of draft positions, where it was given by `--metadata`, or as a sweep's
own `speculative_config`. A file without acceptance is a run without speculation or a server whose
/metrics could not be reached: the two look alike, but in a sweep that sets speculation.

`throughput` and `latency` run without a server, so without TTFT. `tokens_per_second` of a saved
throughput counts prompt and output tokens together: only the printed line tells them apart.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import AliasChoices, Field

from advisor.readers.results import engine_logs
from advisor.readers.results.document import Document
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Count,
    EngineName,
    Foreign,
    Latency,
    Number,
    per_request,
)
from advisor.readers.results.tables import has_table, table_records

FORMAT = "vllm-bench"
SERVE, OFFLINE = "vllm-bench-serve", "vllm-bench-offline"
_THROUGHPUT = re.compile(
    r"Throughput: ([0-9]+(?:\.[0-9]*)?) requests/s, ([0-9]+(?:\.[0-9]*)?) total tokens/s, "
    r"([0-9]+(?:\.[0-9]*)?) output tokens/s"
)
_TOTAL = re.compile(r"Total num (prompt|output) tokens:\s+(\d+)")
_LATENCY = re.compile(r"^Avg latency: ([0-9]+(?:\.[0-9]*)?) seconds", re.M)

_SHARE = re.compile(r"^(\d{1,2})% percentile latency: ([0-9]+(?:\.[0-9]*)?) seconds", re.M)
_PERCENTILES = {"p50": "50", "p90": "90", "p99": "99"}
_COLUMNS = {"completed", "duration", "request_throughput", "output_throughput", "mean_ttft_ms"}
_SWEPT = ("speculative_config", "speculative-config")  # columns of a sweep over servers
_LISTS = {  # a table holds them as text
    "input_lens", "output_lens", "ttfts", "itls", "latencies", "errors", "generated_texts",
    "spec_decode_per_position_acceptance_rates",
}  # fmt: skip


class Result(Foreign):
    """What is read of one saved result; names are the file's own."""

    date: str | None = None
    backend: str | None = Field(None, validation_alias=AliasChoices("backend", "endpoint_type"))
    model_id: str | None = None
    num_prompts: Count = None
    request_rate: Number = None
    max_concurrency: Count = None
    duration: Number
    completed: Count
    failed: Count = None
    total_input_tokens: Count = None
    total_output_tokens: Count = None
    output_throughput: Number = None
    input_lens: list[int] = []
    output_lens: list[int] = []
    ttfts: list[float] = []
    itls: list[list[float]] = []
    latencies: list[float] = []
    spec_decode_acceptance_rate: Number = None  # percent
    spec_decode_acceptance_length: Number = None
    spec_decode_num_drafts: Count = None
    spec_decode_draft_tokens: Count = None
    spec_decode_accepted_tokens: Count = None
    spec_decode_per_position_acceptance_rates: list[float] = []
    k: Count = Field(
        None, validation_alias=AliasChoices("k", "num_speculative_tokens", "spec_tokens")
    )
    method: str | None = Field(None, validation_alias=AliasChoices("method", "spec_method"))
    engine_version: str | None = Field(
        None, validation_alias=AliasChoices("engine_version", "vllm_version", "version")
    )
    hardware: str | None = Field(None, validation_alias=AliasChoices("hardware", "gpu", "hw"))
    seed: Count = None


def matches(doc: Document) -> bool:
    """Whether the document is a result of `vllm bench`."""
    return _is_serve(doc) or _is_offline(doc)


def _is_serve(doc: Document) -> bool:
    """Whether the document is a result file of `vllm bench serve`."""
    if not doc.values:
        return has_table(doc.text, _COLUMNS)
    return bool(doc.objects) and all(_is_result(row) for row in doc.objects)


def _is_result(row: dict[str, Any]) -> bool:
    return (
        {"completed", "duration", "request_throughput", "output_throughput"} <= row.keys()
        and ("tokenizer_id" in row or "endpoint_type" in row)
        and "total_throughput" not in row
    )


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result."""
    if not _is_serve(doc):
        return _offline_runs(doc)
    if not doc.values:
        rows = [
            {n: v for n, v in row.items() if (v or n in _SWEPT) and n not in _LISTS}
            for row in table_records(doc.text, _COLUMNS)
            if row.get("completed")  # not what a page has below the table
        ]
        return [
            _run(doc, row, Result.model_validate(row), f"row {i}" if len(rows) > 1 else "")
            for i, row in enumerate(rows, 1)
        ]
    return [_run(doc, row, Result.model_validate(row), part) for part, row in doc.parts()]


def _run(doc: Document, row: dict[str, Any], made: Result, part: str) -> BenchmarkRun:
    engine: EngineName | None = (
        "vllm" if made.backend in ("vllm", "vllm-chat", "openai", "openai-chat", None) else None
    )
    acceptance = _acceptance(made)
    swept = _swept(row)
    positions = len(made.spec_decode_per_position_acceptance_rates) or None
    return BenchmarkRun(
        file=doc.name, format=SERVE, part=part, sha256=doc.sha256,
        client="vllm bench serve", date=made.date,
        engine=engine if acceptance is not None or made.backend == "vllm" else None,
        engine_version=made.engine_version, model=made.model_id, hardware=made.hardware,
        k=made.k if made.k is not None else positions or swept.get("k"),
        method=made.method or swept.get("method"), seed=made.seed,
        concurrency=made.max_concurrency, request_rate=made.request_rate,
        requests=made.completed, failed=made.failed,
        input_tokens=per_request(made.total_input_tokens, made.completed),
        output_tokens=per_request(made.total_output_tokens, made.completed),
        duration_s=made.duration, output_tok_s=made.output_throughput,
        ttft_ms=_latency(row, "ttft", [v * 1e3 for v in made.ttfts]),
        tpot_ms=_latency(row, "tpot", _tpots(made)),
        itl_ms=_latency(row, "itl", ()),
        e2e_ms=_latency(row, "e2el", [v * 1e3 for v in made.latencies]),
        acceptance=acceptance,
    )  # fmt: skip


def _swept(row: dict[str, Any]) -> dict[str, Any]:
    """Method and k of a sweep's setting, "none" where it left speculation out."""
    name = next((name for name in _SWEPT if name in row), None)
    if name is None:
        return {}
    try:
        found = json.loads(row[name]) if isinstance(row[name], str) and row[name] else row[name]
    except (ValueError, RecursionError):
        return {}
    if not found:
        return {"k": 0, "method": "none"}
    k = found.get("num_speculative_tokens") if isinstance(found, dict) else None
    word = found.get("method") if isinstance(found, dict) else None
    return {
        "k": k if isinstance(k, int) and 0 < k <= 128 else None,
        "method": word if isinstance(word, str) else None,
    }


def _acceptance(made: Result) -> Acceptance | None:
    if made.spec_decode_acceptance_length is None and made.spec_decode_acceptance_rate is None:
        return None
    rate = made.spec_decode_acceptance_rate
    return Acceptance(
        length=made.spec_decode_acceptance_length,
        rate=None if rate is None else rate / 100,
        by_position=tuple(made.spec_decode_per_position_acceptance_rates),
        drafts=made.spec_decode_num_drafts,
        draft_tokens=made.spec_decode_draft_tokens,
        accepted_tokens=made.spec_decode_accepted_tokens,
    )


def _tpots(made: Result) -> list[float]:
    """Per request, ms: the time after the first token over the tokens after the first."""
    pairs = zip(made.itls, made.output_lens, strict=False)
    return [sum(gaps) * 1e3 / (count - 1) for gaps, count in pairs if count > 1 and gaps]


def _latency(row: dict[str, Any], name: str, values: Any) -> Latency | None:
    """Statistics as stated, with the per-request values where they are there."""
    of = Latency.of(values)
    stated = {
        "mean": row.get(f"mean_{name}_ms"),
        "p50": row.get(f"median_{name}_ms"),
        "p90": row.get(f"p90_{name}_ms"),
        "p99": row.get(f"p99_{name}_ms"),
        "sd": row.get(f"std_{name}_ms"),
    }
    known = {key: value for key, value in stated.items() if value is not None}
    if not known:
        return of
    return Latency.from_statistics(
        **(of.model_dump() if of else {}) | known, values=of.values if of else ()
    )


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


def _is_offline(doc: Document) -> bool:
    """Whether the document is output of `vllm bench throughput` or `vllm bench latency`."""
    one = doc.object
    saved = {"elapsed_time", "total_num_tokens", "tokens_per_second"} <= one.keys()
    saved = saved or {"avg_latency", "latencies"} <= one.keys()
    printed = not doc.values and (_THROUGHPUT.search(doc.text) or _LATENCY.search(doc.text))
    return saved or bool(printed)


def _offline_runs(doc: Document) -> list[BenchmarkRun]:
    """The runs of `vllm bench throughput` or `latency`."""
    if "avg_latency" in doc.object:
        return [_batch_run(doc, LatencyResult.model_validate(doc.object))]
    if doc.object:
        made = Throughput.model_validate(doc.object)
        note = f"{made.tokens_per_second or 0:.1f} tok/s count prompt and output tokens together"
        note += ": the printed line tells them apart"
        return [
            BenchmarkRun(
                file=doc.name, format=OFFLINE, kind="offline", sha256=doc.sha256, engine="vllm",
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
                file=doc.name, format=OFFLINE, kind="offline", sha256=doc.sha256, engine="vllm",
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
        out.append(_batch_run(doc, made).model_copy(update=about))
    return out


def _batch_run(doc: Document, made: LatencyResult) -> BenchmarkRun:
    of = Latency.of(v * 1e3 for v in made.latencies)
    stated = {name: made.percentiles.get(share) for name, share in _PERCENTILES.items()}
    known = {"mean": made.avg_latency} | stated
    printed = {name: value * 1e3 for name, value in known.items() if value is not None}
    return BenchmarkRun(
        file=doc.name, format=OFFLINE, kind="offline", sha256=doc.sha256, engine="vllm",
        client="vllm bench latency", model=made.model_id, repeats=len(made.latencies) or None,
        e2e_ms=of or Latency.from_statistics(**printed),
        notes=("the time of one whole batch; its size and lengths are not in the file",),
    )  # fmt: skip
