"""llmperf's `token_benchmark_ray.py`: `*_summary.json`, and what it prints.

Its "inter-token latency" is the whole latency over all tokens, the wait for the first one included,
so the time per token after the first follows from the means. Tokens are counted by its own
tokenizer. "Overall output throughput" is of the server.
"""

from __future__ import annotations

import re
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import BenchmarkRun, Foreign, Latency, Number, after_first, finite

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

    def seconds(self) -> Latency | None:
        """As a time, ms."""
        stated = {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99,
                  "sd": self.stddev}  # fmt: skip
        return Latency.from_statistics(**{n: v and v * 1e3 for n, v in stated.items()})


class Summary(Foreign):
    """What is read of a run."""

    model: str | None = None
    num_concurrent_requests: Number = None
    additional_sampling_params_temperature: Number = None
    speed: Number = None
    done: Number = None
    errors: Number = None
    shares: dict[str, Shares] = {}


def matches(doc: Document) -> bool:
    """Whether the document is a result of llmperf."""
    if doc.values:
        return bool(doc.objects) and all(_SPEED in row for row in doc.objects)
    return _OVERALL.search(doc.text) is not None and "end_to_end_latency_s" in doc.text


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per summary. Raises Unreadable where no request has finished."""
    if doc.values:
        return [_run(doc, _from_json(row), part) for part, row in doc.parts()]
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
        ttft_ms=first.seconds(), tpot_ms=Latency.from_statistics(mean=tpot),
        e2e_ms=whole.seconds(),
        notes=("TPOT from the means of latency, TTFT and tokens: llmperf's own counts the first "
               "token's wait in",) if tpot else (),
    )  # fmt: skip
