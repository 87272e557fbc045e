"""`python -m sglang.benchmark.serving --output-file` (before: sglang.bench_serving): JSON lines,
one run a line.

The inter-token latency of this client is divided by the tokens of each chunk, so it is per token,
unlike vLLM's. `accept_length` counts the bonus token and is null where the server is not SGLang.
`request_rate` is `Infinity`. The model's name is not in it. A TTFT of 0 says that the answers did
not stream: the times per token then hold the prompt's as well, and are left out.
"""

from __future__ import annotations

from typing import Any

from advisor.readers.results.document import Document
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Count,
    EngineName,
    Foreign,
    Latency,
    Number,
    finite,
    per_request,
)

FORMAT = "sglang-bench-serving"
_ENGINES: dict[str, EngineName] = {"sglang": "sglang", "vllm": "vllm"}


class Result(Foreign):
    """What is read of one line; names are the file's own."""

    backend: str | None = None
    dataset_name: str | None = None
    request_rate: Number | str = None
    max_concurrency: Count = None
    duration: Number
    completed: Count
    total_input_tokens: Count = None
    total_output_tokens: Count = None
    output_throughput: Number = None
    concurrency: Number = None
    accept_length: Number = None
    server_info: dict[str, Any] | None = None
    ttfts: list[float] = []
    itls: list[list[float]] = []
    output_lens: list[int] = []
    tag: str | None = None


def matches(doc: Document) -> bool:
    """Whether the document is a result file of SGLang's bench_serving."""
    return bool(doc.objects) and all(_is_result(row) for row in doc.objects)


def _is_result(row: dict[str, Any]) -> bool:
    return {"backend", "completed", "duration", "output_throughput"} <= row.keys() and bool(
        {"total_throughput", "input_throughput"} & row.keys()  # clients of 2025 write the second
    )


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result."""
    return [_run(doc, row, Result.model_validate(row), part) for part, row in doc.parts()]


def _run(doc: Document, row: dict[str, Any], made: Result, part: str) -> BenchmarkRun:
    info = made.server_info or {}
    engine = next(
        (name for word, name in _ENGINES.items() if (made.backend or "").startswith(word)), None
    )
    steps = finite(info.get("speculative_num_steps"))
    least = (
        1.0 if steps else 1.0 + 1e-9
    )  # exactly 1 without draft steps: a server that does not speculate
    length = made.accept_length if made.accept_length and made.accept_length >= least else None
    version = info.get("version")
    streamed = row.get("mean_ttft_ms") != 0
    pairs = zip(made.itls, made.output_lens, strict=False)
    tpots = [sum(gaps) * 1e3 / (n - 1) for gaps, n in pairs if n > 1 and gaps]
    return BenchmarkRun(
        file=doc.name, format=FORMAT, part=part or (made.tag or ""), sha256=doc.sha256,
        client="sglang.benchmark.serving", engine=engine,
        engine_version=str(version) if engine == "sglang" and version else None,
        k=steps if isinstance(steps, int) else None, dataset=made.dataset_name,
        model=info.get("model_path") if isinstance(info.get("model_path"), str) else None,
        concurrency=made.max_concurrency,
        request_rate=made.request_rate if isinstance(made.request_rate, float) else None,
        requests=made.completed,
        input_tokens=per_request(made.total_input_tokens, made.completed),
        output_tokens=per_request(made.total_output_tokens, made.completed),
        duration_s=made.duration, output_tok_s=made.output_throughput,
        ttft_ms=_latency(row, "ttft", [v * 1e3 for v in made.ttfts]) if streamed else None,
        tpot_ms=_latency(row, "tpot", tpots) if streamed else None,
        itl_ms=_latency(row, "itl", ()) if streamed else None,
        e2e_ms=_latency(row, "e2e_latency", ()),
        acceptance=Acceptance(length=length) if length is not None else None,
        notes=("inter-token latency is per token, not per chunk",)
        if streamed
        else ("the answers did not stream: no TTFT, TPOT and ITL",),
    )  # fmt: skip


def _latency(row: dict[str, Any], name: str, values: Any) -> Latency | None:
    words = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99", "sd": "std"}
    known = {field: row.get(f"{word}_{name}_ms") for field, word in words.items()}
    of = Latency.of(values)
    known = {key: value for key, value in known.items() if value is not None}
    return Latency.from_statistics(**known, values=of.values if of else ()) if known else of
