"""The JSON of GuideLLM (0.3 to 0.8) and evalscope perf. `time_per_output_token_ms` of the one and
"package latency" of the other count the first token's wait: our TPOT leaves it out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from advisor.readers.results.fields import (
    BY_MEANS,
    FileLayout,
    Row,
    list_at,
    mean_after_first,
    number_at,
    plain_number,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency

SHARES = {"p50": "p50", "p90": "p90", "p99": "p99"}
STREAMED = 0.999  # share of the whole latency from which the first token is the whole answer
DRAFTED = 1.02  # tokens per chunk above which a server sent several at once


def times_of(rows: Iterable[Row], keys: Mapping[str, str], scale: float = 1.0) -> Row:
    """The times of each request under our names, ms."""
    rows = list(rows)
    return {
        name: [value for row in rows if (value := number_at(row, key, scale)) is not None]
        for name, key in keys.items()
    }


def _guidellm_each(row: Row) -> Row:
    keys = {"ttft_ms": "time_to_first_token_ms", "tpot_ms": "inter_token_latency_ms"}
    return times_of(list_at(row, "requests > successful"), keys)


def _guidellm_finish(_: BenchmarkRun, row: Row) -> Row:
    whole = times_of(list_at(row, "requests > successful"), {"e2e": "request_latency"}, 1e3)
    return {"e2e_ms": Latency.of(value for value in whole["e2e"] if value)}


_STRATEGY = ("config > strategy > {}", "scheduler > strategy > {}", "args > strategy > {}")
GUIDELLM = FileLayout(
    format="guidellm",
    client="guidellm",
    marks=("metrics > inter_token_latency_ms",),
    loads=lambda report: [row | {"report": report} for row in list_at(report, "benchmarks")],
    word="benchmark",
    fields={
        "client_version": "report > metadata > guidellm_version",
        "model": (
            "config > backend > model", "report > args > backend > model", "worker > backend_model",
        ),
        "concurrency": tuple(place.format("streams") for place in _STRATEGY),
        "request_rate": tuple(place.format("rate") for place in _STRATEGY),
        "requests": ("metrics > request_totals > successful", "request_totals > successful"),
        "failed": ("metrics > request_totals > errored", "request_totals > errored"),
        "duration_s": "duration",
        "input_tokens": "metrics > prompt_token_count > successful > mean",
        "output_tokens": "metrics > output_token_count > successful > mean",
        "output_tok_s": "metrics > output_tokens_per_second > successful > mean",
    },
    times={
        "ttft_ms": "metrics > time_to_first_token_ms > successful > {}",
        "tpot_ms": "metrics > inter_token_latency_ms > successful > {}",
    },
    words={"mean": "mean", "p50": "median", "sd": "std_dev", "p90": "percentiles > p90",
           "p99": "percentiles > p99"},
    notes=("TPOT is GuideLLM's inter_token_latency_ms: per token after the first",),
    needs="output_tok_s",
    each=_guidellm_each,
    finish=_guidellm_finish,
)  # fmt: skip

_EVALSCOPE_KEYS = (  # of any of the two generations
    {"Number of concurrency", "Succeed requests"},
    {"Concurrency", "Success Requests", "Avg Latency (s)"},
)


def _evalscope_loads(row: Row) -> list[Row]:
    """Labels in lower case, times in ms; a figure of 0 is not set."""
    if not any(keys <= row.keys() for keys in _EVALSCOPE_KEYS):
        return []
    out = {}
    for label, cell in row.items():
        name, value = " ".join(label.lower().split()), plain_number(cell)
        if value is not None and value >= 0 and (value or "requests" in name):
            seconds = name.endswith("(s)") and name not in EVALSCOPE.fields["duration_s"]
            out[name] = value * 1e3 if seconds else value
    return [out]


def _evalscope_finish(run: BenchmarkRun, row: Row) -> Row:
    first, whole = run.ttft_ms and run.ttft_ms.mean, run.e2e_ms and run.e2e_ms.mean
    after = mean_after_first(run)
    update: dict[str, Any] = {}
    notes = []
    if whole and first and first >= STREAMED * whole:
        update = dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms"))
        notes = ["the answers did not stream: neither TTFT nor TPOT is known"]
    elif "average package latency (s)" in row and after and _counts_first(run, after):
        update["tpot_ms"] = (run.tpot_ms or after).model_copy(update={"mean": after.mean})
        notes = [f"{BY_MEANS}this release counts the first token's wait in"]
    per_step = number_at(row, ("avg decoded tok/iter", "average decoded tokens per iter")) or 0.0
    if per_step > DRAFTED:
        update["acceptance"] = Acceptance(length=per_step)
        notes.append("tokens per step are those of a streamed chunk")
    return update | {"notes": tuple(notes)}


def _counts_first(run: BenchmarkRun, after: Latency) -> bool:
    """Whether the stated time per token is nearer to the whole latency over all tokens."""
    if run.tpot_ms is None or run.e2e_ms is None or not run.output_tokens:
        return False
    stated, whole, other = (time.mean or 0.0 for time in (run.tpot_ms, run.e2e_ms, after))
    return abs(stated - whole / run.output_tokens) < abs(stated - other)


EVALSCOPE = FileLayout(  # benchmark_summary.json: until 1.7, then since
    format="evalscope-perf",
    client="evalscope perf",
    loads=_evalscope_loads,
    fields={
        "concurrency": ("number of concurrency", "concurrency"),
        "request_rate": "request rate (req/s)",
        "requests": ("succeed requests", "success requests"),
        "failed": "failed requests",
        "input_tokens": ("average input tokens per request", "avg input tokens"),
        "output_tokens": ("average output tokens per request", "avg output tokens"),
        "duration_s": ("time taken for tests (s)", "test duration (s)"),
        "output_tok_s": ("output token throughput (tok/s)", "output throughput (tok/s)"),
    },
    times={
        "ttft_ms": ("average time to first token (s){}", "avg ttft (ms){}", "ttft (ms){}"),
        "tpot_ms": ("average time per output token (s){}", "avg tpot (ms){}", "tpot (ms){}"),
        "itl_ms": (
            "average inter-token latency (s){}", "avg itl (ms){}", "itl (ms){}",
            "average package latency (s){}",
        ),
        "e2e_ms": ("average latency (s){}", "avg latency (s){}"),
    },
    words={"mean": ""},
    needs="output_tok_s",
    finish=_evalscope_finish,
)  # fmt: skip
LAYOUTS = (GUIDELLM, EVALSCOPE)
