"""llmperf's `token_benchmark_ray.py`: `*_summary.json`, and what it prints; and a load's JSON of
genai-bench, which states its unit of time (`_time_unit`) and each request.

llmperf's "inter-token latency" is the whole latency over all tokens, the wait for the first one
included, so the time per token after the first follows from the means. Tokens are counted by its
own tokenizer. "Overall output throughput" is of the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import (
    MAX_MS,
    MAX_VALUES,
    BenchmarkRun,
    Count,
    Foreign,
    Latency,
    Number,
    after_first,
    finite,
)

FORMAT = "llmperf"
_SPEED = "results_mean_output_throughput_token_per_s"
_NAMES = ("ttft_s", "end_to_end_latency_s", "number_input_tokens", "number_output_tokens")
_OVERALL = re.compile(r"^Overall Output Throughput: ([0-9.]+)[ \t]*$", re.M)
_DONE = re.compile(r"^Number Of Completed Requests: (\d+)[ \t]*$", re.M)
_ERRORS = re.compile(r"^Number Of Errored Requests: (\d+)[ \t]*$", re.M)
_ABOUT = re.compile(r"Results for token benchmark for (\S{1,200}) queried with")
_BLOCK = re.compile(r"^([a-z_]{4,60})[ \t]*\n((?:[ \t]*\w{3,6} = [0-9.e+-]+[ \t]*\n?){1,20})", re.M)
_SHARE = re.compile(r"(\w{3,6}) = ([0-9.e+-]+)")


class Shares(Foreign):
    """One metric over the requests, in its own unit."""

    mean: Number = None
    p50: Number = None
    p90: Number = None
    p99: Number = None
    stddev: Number = None

    def latency(self, scale: float = 1e3, values: Iterable[float] = ()) -> Latency | None:
        """As a time, ms: from seconds, or by another factor. With those of each request."""
        stated = {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99,
                  "sd": self.stddev}  # fmt: skip
        kept = tuple(value * scale for value in values)
        known = {name: v and v * scale for name, v in stated.items()}
        return Latency.from_statistics(**known, values=kept)


class Summary(Foreign):
    """What is read of a run."""

    model: str | None = None
    num_concurrent_requests: Number = None
    additional_sampling_params_temperature: Number = None
    speed: Number = None
    done: Number = None
    errors: Number = None
    shares: dict[str, Shares] = {}


class Aggregate(Foreign):
    """What is read of genai-bench's `aggregated_metrics`."""

    scenario: str | None = None
    num_concurrency: Number = None
    run_duration: Number = None  # seconds, whatever the unit of the rest
    mean_output_throughput_tokens_per_s: Number
    num_completed_requests: Count = None
    num_error_requests: Count = None
    stats: dict[str, Shares] = {}


def matches(doc: Document) -> bool:
    """Whether the document is a result of llmperf or genai-bench."""
    if doc.values:
        return bool(doc.objects) and all(_SPEED in row or _is_genai(row) for row in doc.objects)
    return _OVERALL.search(doc.text) is not None and "end_to_end_latency_s" in doc.text


def _is_genai(row: dict[str, Any]) -> bool:
    made = row.get("aggregated_metrics")
    return isinstance(made, dict) and "mean_output_throughput_tokens_per_s" in made


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per summary. Raises Unreadable where no request has finished."""
    if doc.values:
        return [
            _genai_run(doc, row, part) if _is_genai(row) else _run(doc, _from_json(row), part)
            for part, row in doc.parts()
        ]
    ends = [found.end() for found in _OVERALL.finditer(doc.text)]
    texts = [doc.text[a:b] for a, b in zip([0, *ends], [*ends[1:], len(doc.text)], strict=False)]
    many = len(texts) > 1
    return [
        _run(doc, _from_text(text), f"run {i}" if many else "") for i, text in enumerate(texts, 1)
    ]


def _from_json(row: dict[str, Any]) -> Summary:
    words = {"mean": "mean", "stddev": "stddev"} | {
        name: f"quantiles_{name}" for name in ("p50", "p90", "p99")
    }
    return Summary.model_validate(
        {
            **row, "speed": row[_SPEED], "done": row.get("results_num_completed_requests"),
            "errors": row.get("results_number_errors"),
            "shares": {
                name: {ours: row.get(f"results_{name}_{theirs}") for ours, theirs in words.items()}
                for name in _NAMES
            },
        }
    )  # fmt: skip


def _from_text(text: str) -> Summary:
    about, done, errors = _ABOUT.search(text), _DONE.search(text), _ERRORS.search(text)
    speed = _OVERALL.search(text)
    return Summary.model_validate(
        {
            "model": about[1] if about else None, "speed": speed[1] if speed else None,
            "done": done[1] if done else None, "errors": errors[1] if errors else None,
            "shares": {
                name: dict(_SHARE.findall(rows))
                for name, rows in _BLOCK.findall(text)
                if name in _NAMES
            },
        }
    )  # fmt: skip


def _run(doc: Document, made: Summary, part: str) -> BenchmarkRun:
    empty = Shares()
    first, whole, prompt, answer = (made.shares.get(name, empty) for name in _NAMES)
    if not made.speed:
        raise Unreadable(f"{doc.name}: {FORMAT}: no request has finished")
    tpot = after_first(
        whole.mean and whole.mean * 1e3, first.mean and first.mean * 1e3, answer.mean
    )
    done, errors = finite(made.done), finite(made.errors)
    return BenchmarkRun(
        file=doc.name, format=FORMAT, part=part, sha256=doc.sha256, client="llmperf",
        model=made.model, concurrency=made.num_concurrent_requests,
        temperature=made.additional_sampling_params_temperature,
        requests=None if done is None else round(done),
        failed=None if errors is None else round(errors),
        input_tokens=prompt.mean, output_tokens=answer.mean, output_tok_s=made.speed,
        ttft_ms=first.latency(), tpot_ms=Latency.from_statistics(mean=tpot),
        e2e_ms=whole.latency(),
        notes=("TPOT from the means of latency, TTFT and tokens: llmperf's own counts the first "
               "token's wait in",) if tpot else (),
    )  # fmt: skip


def _genai_run(doc: Document, row: dict[str, Any], part: str) -> BenchmarkRun:
    made = Aggregate.model_validate(row["aggregated_metrics"])
    if not made.mean_output_throughput_tokens_per_s:
        raise Unreadable(f"{doc.name}: genai-bench: no request has finished")
    scale = 1.0 if row.get("_time_unit") == "ms" else 1e3
    each = row.get("individual_request_metrics")
    requests = [one for one in each if isinstance(one, dict)] if isinstance(each, list) else []

    def time(name: str) -> Latency | None:
        values = [
            v for one in requests if isinstance(v := one.get(name), int | float) and 0 <= v < MAX_MS
        ]
        return made.stats.get(name, Shares()).latency(scale, values[:MAX_VALUES])

    empty = Shares()
    return BenchmarkRun(
        file=doc.name, format="genai-bench", part=part, sha256=doc.sha256, client="genai-bench",
        concurrency=made.num_concurrency, dataset=made.scenario,
        requests=made.num_completed_requests, failed=made.num_error_requests,
        input_tokens=made.stats.get("num_input_tokens", empty).mean,
        output_tokens=made.stats.get("num_output_tokens", empty).mean,
        duration_s=made.run_duration, output_tok_s=made.mean_output_throughput_tokens_per_s,
        ttft_ms=time("ttft"), tpot_ms=time("tpot"), e2e_ms=time("e2e_latency"),
    )  # fmt: skip
