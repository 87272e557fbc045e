"""Answers as saved, one request each: those of llama-server with their `timings`, or the timings
alone, and those of vLLM with `--per-request-spec-decode-metrics` (since 0.27) or
`--enable-per-request-metrics`.

`predicted_per_second` is of one stream after its first token. `draft_n` counts drafted tokens, not
drafts: without the number of steps the acceptance length cannot be told. vLLM's tell times with the
second option alone; its `time_to_first_token_ms` begins after the queue, its `mean_itl_ms` is the
time after the first token over the tokens after it.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from advisor.readers.results.document import Document
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Count,
    Foreign,
    Latency,
    Number,
    finite,
)

FORMAT = "llama-server-answer"
_VLLM = {"speculative_decoding", "generation_time_ms"}


class Timings(Foreign):
    """The `timings` object of an answer."""

    prompt_n: Count = None
    cache_n: Count = None
    prompt_ms: Number = None
    predicted_n: Count
    predicted_per_token_ms: Number = None
    predicted_per_second: float = Field(gt=0, le=1e9)
    draft_n: Count = None
    draft_n_accepted: Count = None


class Speculation(Foreign):
    """vLLM's `metrics.speculative_decoding` of an answer."""

    mean_acceptance_length: Number = None
    num_spec_steps: Count = None
    num_draft_tokens: Count = None
    num_accepted_draft_tokens: Count = None
    num_spec_tokens: Count = None


class Times(Foreign):
    """vLLM's other `metrics` of an answer."""

    time_to_first_token_ms: Number = None
    queue_time_ms: Number = None
    generation_time_ms: Number = None
    mean_itl_ms: Number = None


def matches(doc: Document) -> bool:
    """Whether the document holds answers of llama-server with timings, or of vLLM with drafts."""
    rows = [_whole(row) for row in doc.objects]
    return bool(rows) and all(_timings(row) or _metrics(row) for row in rows)


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """The answer of an event that was captured."""
    inner = row.get("data")
    return inner if isinstance(inner, dict) and "timings" not in row else row


def _metrics(row: dict[str, Any]) -> dict[str, Any]:
    """vLLM's metrics of an answer; empty where it has none."""
    found = row.get("metrics")
    return found if isinstance(found, dict) and "choices" in row and found.keys() & _VLLM else {}


def _drafts(row: dict[str, Any]) -> dict[str, Any]:
    found = _metrics(row).get("speculative_decoding")
    return found if isinstance(found, dict) else {}


def _timings(row: dict[str, Any]) -> dict[str, Any]:
    """The timings of an answer; empty where it has none."""
    found = row.get("timings", row if "prompt_per_second" in row else None)
    return found if isinstance(found, dict) and "predicted_per_second" in found else {}


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per answer."""
    rows = [_whole(row) for row in doc.objects]
    return [
        _of_vllm(doc, row, part) if _metrics(row) else _of_llama(doc, row, part)
        for i, row in enumerate(rows, 1)
        for part in (f"answer {i}" if len(rows) > 1 else "",)
    ]


def _model(row: dict[str, Any]) -> str | None:
    found = row.get("model")
    return found if isinstance(found, str) else None


def _of_vllm(doc: Document, row: dict[str, Any], part: str) -> BenchmarkRun:
    made, times = Speculation.model_validate(_drafts(row)), Times.model_validate(_metrics(row))
    first, token = times.time_to_first_token_ms, times.mean_itl_ms
    raw = row.get("usage")
    usage: dict[str, Any] = raw if isinstance(raw, dict) else {}
    return BenchmarkRun(
        file=doc.name, format="vllm-answer", kind="log", sha256=doc.sha256, engine="vllm",
        part=part, client="one request", model=_model(row), concurrency=1, requests=1,
        k=made.num_spec_tokens,
        input_tokens=finite(usage.get("prompt_tokens")),
        output_tokens=finite(usage.get("completion_tokens")),
        acceptance=Acceptance.from_counts(
            made.num_spec_steps, made.num_draft_tokens, made.num_accepted_draft_tokens
        ),
        request_tok_s=1e3 / token if token else None,
        tpot_ms=Latency.from_statistics(mean=token) if token else None,
        ttft_ms=Latency.from_statistics(mean=first + (times.queue_time_ms or 0)) if first else None,
        notes=()
        if token
        else ("this answer of vLLM says what was accepted, not how long it took",),
    )  # fmt: skip


def _of_llama(doc: Document, row: dict[str, Any], part: str) -> BenchmarkRun:
    made = Timings.model_validate(_timings(row))
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="log", sha256=doc.sha256, engine="llama-server",
        part=part, client="one request", model=_model(row), concurrency=1, requests=1,
        method=None if made.draft_n else "none",
        input_tokens=(made.prompt_n or 0) + (made.cache_n or 0) or None,
        depth_tokens=made.cache_n, output_tokens=made.predicted_n,
        request_tok_s=made.predicted_per_second,
        tpot_ms=Latency.from_statistics(mean=made.predicted_per_token_ms),
        ttft_ms=Latency.from_statistics(mean=made.prompt_ms),
        acceptance=Acceptance.from_counts(None, made.draft_n, made.draft_n_accepted),
        notes=("TTFT is the time of the prompt in the server, without the queue",),
    )  # fmt: skip
