"""Answers as saved, one request each: those of llama-server with their `timings`, or the timings
alone, and those of vLLM with `--per-request-spec-decode-metrics` (since 0.27) or
`--enable-per-request-metrics`.

`predicted_per_second` is of one stream after its first token. `draft_n` counts drafted tokens, not
drafts: without the number of steps the acceptance length cannot be told. vLLM's tell times with the
second option alone; its `time_to_first_token_ms` begins after the queue, its `mean_itl_ms` is the
time after the first token over the tokens after it.
"""

from __future__ import annotations

from advisor.readers.results.document import Document
from advisor.readers.results.fields import FileLayout, Row, number_at, part_at, parts_of
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency

FORMAT = "llama-server-answer"
LLAMA = FileLayout(
    format=FORMAT, client="one request", engine="llama-server", kind="log",
    fields={
        "model": "model", "depth_tokens": "timings > cache_n",
        "output_tokens": "timings > predicted_n", "request_tok_s": "timings > predicted_per_second",
    },
    times={
        "tpot_ms": "timings > predicted_per_token_ms{}", "ttft_ms": "timings > prompt_ms{}",
    },
    words={"mean": ""},
    notes=("TTFT is the time of the prompt in the server, without the queue",),
)  # fmt: skip
VLLM = FileLayout(
    format="vllm-answer", client="one request", engine="vllm", kind="log",
    fields={
        "model": "model", "k": "metrics > speculative_decoding > num_spec_tokens",
        "input_tokens": "usage > prompt_tokens", "output_tokens": "usage > completion_tokens",
    },
    times={"tpot_ms": "metrics > mean_itl_ms{}", "ttft_ms": "metrics > time_to_first_token_ms{}"},
    words={"mean": ""},
)  # fmt: skip
_METRICS = {"speculative_decoding", "generation_time_ms"}


def matches(doc: Document) -> bool:
    """Whether the document holds answers of llama-server with timings, or of vLLM with drafts."""
    rows = [_whole(row) for row in doc.objects]
    return bool(rows) and all(_is_llama(row) or _is_vllm(row) for row in rows)


def _whole(row: Row) -> Row:
    """The answer of an event that was captured; timings alone as those of an answer."""
    if "timings" not in row:
        row = part_at(row, "data") or row
    return {"timings": row} if "timings" not in row and "prompt_per_second" in row else row


def _is_llama(row: Row) -> bool:
    return "predicted_per_second" in part_at(row, "timings")


def _is_vllm(row: Row) -> bool:
    return "choices" in row and bool(part_at(row, "metrics").keys() & _METRICS)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per answer."""
    return [
        _of_vllm(doc, row, part) if _is_vllm(row) else _of_llama(doc, row, part)
        for part, row in parts_of(map(_whole, doc.objects), "answer")
    ]


def _of_vllm(doc: Document, row: Row, part: str) -> BenchmarkRun:
    drafts, drafted, accepted = (
        number_at(row, f"metrics > speculative_decoding > {name}")
        for name in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    )
    run = VLLM.run(
        doc, row, part, concurrency=1, requests=1,
        acceptance=Acceptance.from_counts(drafts, drafted, accepted),
    )  # fmt: skip
    token, first = run.value("tpot"), run.value("ttft")
    queue = number_at(row, "metrics > queue_time_ms") or 0.0
    note = "this answer of vLLM says what was accepted, not how long it took"
    return run.model_copy(
        update={
            "request_tok_s": 1e3 / token if token else None,
            "tpot_ms": run.tpot_ms if token else None,
            "ttft_ms": Latency(mean=first + queue) if first else None,
            "notes": () if token else (note,),
        }
    )


def _of_llama(doc: Document, row: Row, part: str) -> BenchmarkRun:
    prompt, cached, drafted, accepted = (
        number_at(row, f"timings > {name}")
        for name in ("prompt_n", "cache_n", "draft_n", "draft_n_accepted")
    )
    return LLAMA.run(
        doc, row, part, concurrency=1, requests=1, method=None if drafted else "none",
        input_tokens=(prompt or 0) + (cached or 0) or None,
        acceptance=Acceptance.from_counts(None, drafted, accepted),
    )  # fmt: skip
