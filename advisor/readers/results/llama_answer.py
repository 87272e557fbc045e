"""Answers of llama-server as saved: their `timings`, or those alone, one request each.

`predicted_per_second` is of one stream after its first token. `draft_n` counts drafted tokens, not
drafts: without the number of steps the acceptance length cannot be told.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from advisor.readers.results.document import Document
from advisor.readers.results.run import Acceptance, BenchmarkRun, Count, Foreign, Latency, Number

FORMAT = "llama-server-answer"


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


def matches(doc: Document) -> bool:
    """Whether the document holds answers of llama-server with timings."""
    return bool(doc.objects) and all(_timings(row) for row in doc.objects)


def _timings(row: dict[str, Any]) -> dict[str, Any]:
    """The timings of an answer; empty where it has none."""
    found = row.get("timings", row if "prompt_per_second" in row else None)
    return found if isinstance(found, dict) and "predicted_per_second" in found else {}


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per answer."""
    out = []
    for i, row in enumerate(doc.objects):
        made = Timings.model_validate(_timings(row))
        model = row.get("model")
        out.append(
            BenchmarkRun(
                file=doc.name, format=FORMAT, kind="log", sha256=doc.sha256, engine="llama-server",
                part=f"answer {i + 1}" if len(doc.objects) > 1 else "", client="one request",
                model=model if isinstance(model, str) else None, concurrency=1, requests=1,
                method=None if made.draft_n else "none",
                input_tokens=(made.prompt_n or 0) + (made.cache_n or 0) or None,
                depth_tokens=made.cache_n, output_tokens=made.predicted_n,
                request_tok_s=made.predicted_per_second,
                tpot_ms=Latency.from_statistics(mean=made.predicted_per_token_ms),
                ttft_ms=Latency.from_statistics(mean=made.prompt_ms),
                acceptance=Acceptance.from_counts(None, made.draft_n, made.draft_n_accepted),
                notes=("TTFT is the time of the prompt in the server, without the queue",),
            )
        )  # fmt: skip
    return out
