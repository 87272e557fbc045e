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

from advisor.readers.results.fields import FileLayout, Row, number_at, part_at
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency

_ALONE: dict[str, Any] = {"concurrency": 1, "requests": 1}


def _answers(row: Row) -> list[Row]:
    """The answer of an event that was captured; timings alone as those of an answer."""
    if "timings" not in row:
        row = part_at(row, "data") or row
    return [{"timings": row} if "timings" not in row and "prompt_per_second" in row else row]


def _vllm_answers(row: Row) -> list[Row]:
    metrics = {"speculative_decoding", "generation_time_ms"}
    rows = (load for load in _answers(row) if "choices" in load)
    return [load for load in rows if metrics & part_at(load, "metrics").keys()]


def _vllm_finish(run: BenchmarkRun, row: Row) -> Row:
    drafts, drafted, accepted = (
        number_at(row, f"metrics > speculative_decoding > {name}")
        for name in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    )
    token, first = run.value("tpot"), run.value("ttft")
    queue = number_at(row, "metrics > queue_time_ms") or 0.0
    note = "this answer of vLLM says what was accepted, not how long it took"
    return _ALONE | {
        "acceptance": Acceptance.from_counts(drafts, drafted, accepted),
        "request_tok_s": 1e3 / token if token else None,
        "tpot_ms": run.tpot_ms if token else None,
        "ttft_ms": Latency(mean=first + queue) if first else None,
        "notes": () if token else (note,),
    }


def _llama_finish(_: BenchmarkRun, row: Row) -> Row:
    prompt, cached, drafted, accepted = (
        number_at(row, f"timings > {name}")
        for name in ("prompt_n", "cache_n", "draft_n", "draft_n_accepted")
    )
    return _ALONE | {
        "method": None if drafted else "none",
        "input_tokens": (prompt or 0) + (cached or 0) or None,
        "acceptance": Acceptance.from_counts(None, drafted, accepted),
    }


LLAMA = FileLayout(
    format="llama-server-answer", client="one request", engine="llama-server", kind="log",
    loads=_answers, marks=("timings > predicted_per_second",), word="answer",
    fields={
        "model": "model", "depth_tokens": "timings > cache_n",
        "output_tokens": "timings > predicted_n", "request_tok_s": "timings > predicted_per_second",
    },
    times={
        "tpot_ms": "timings > predicted_per_token_ms{}", "ttft_ms": "timings > prompt_ms{}",
    },
    words={"mean": ""},
    notes=("TTFT is the time of the prompt in the server, without the queue",),
    finish=_llama_finish,
)  # fmt: skip
VLLM = FileLayout(
    format="vllm-answer", client="one request", engine="vllm", kind="log",
    loads=_vllm_answers, word="answer",
    fields={
        "model": "model", "k": "metrics > speculative_decoding > num_spec_tokens",
        "input_tokens": "usage > prompt_tokens", "output_tokens": "usage > completion_tokens",
    },
    times={"tpot_ms": "metrics > mean_itl_ms{}", "ttft_ms": "metrics > time_to_first_token_ms{}"},
    words={"mean": ""},
    finish=_vllm_finish,
)  # fmt: skip
LAYOUTS = (LLAMA, VLLM)
