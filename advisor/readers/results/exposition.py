"""Prometheus text of a server's /metrics: totals since its start, or between two scrapes."""

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Literal, NamedTuple

from advisor.domain.printable import excerpt
from advisor.engines.traits import engines_with
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency, per_request

FORMAT = "prometheus-text"
_TYPE = re.compile(r"^# TYPE (vllm|sglang|llamacpp)[:_]\S+ \w+", re.M)
_SAMPLE = re.compile(
    r"^(vllm|sglang|llamacpp)[:_][a-z_]+(?:\{[^}\n]*\})? [0-9.eE+-]+(?: \d+)?$", re.M
)
# lines of the three engines; a collector may have written the colon of their names as "_"
_OURS = re.compile(r"^(# (?:HELP|TYPE) )?(vllm|sglang|llamacpp)[:_](?=[a-z])")
# which process an exposition is of: when it started, as Prometheus' own clients tell it, or a label
_STARTED = re.compile(r"^process_start_time_seconds(?:\{[^}\n]*\})? ([0-9.eE+-]+)", re.M)
_PLACES = ("pod", "instance", "server", "backend", "worker")
_ENGINE: dict[str, Literal["vllm", "sglang", "llama-server"]] = {
    "vllm": "vllm", "sglang": "sglang", "llamacpp": "llama-server",
}  # fmt: skip
_NAMES = {  # our name -> the engines' names, `_total` left out
    "drafts": ("vllm:spec_decode_num_drafts", "llamacpp:spec_decode_num_drafts"),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens", "llamacpp:spec_decode_num_draft_tokens"),
    "accepted": (
        "vllm:spec_decode_num_accepted_tokens", "llamacpp:spec_decode_num_accepted_tokens",
    ),
    "prompt_tokens": ("vllm:prompt_tokens", "sglang:prompt_tokens", "llamacpp:prompt_tokens"),
    "output_tokens": (
        "vllm:generation_tokens", "sglang:generation_tokens", "llamacpp:tokens_predicted",
    ),
    "requests": (
        "vllm:request_success", "sglang:num_requests",
        "vllm:time_to_first_token_seconds_count", "sglang:time_to_first_token_seconds_count",
    ),
}  # fmt: skip
_GAUGES = {
    "running": (
        "vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing",
    ),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "kv_usage": ("vllm:kv_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio"),
    "accept_length": ("sglang:spec_accept_length",),
    "gen_throughput": ("sglang:gen_throughput",),
}  # fmt: skip
_HISTOGRAMS = {  # of vLLM and SGLang alike
    "ttft": "time_to_first_token_seconds",
    "tpot": "request_time_per_output_token_seconds",
    "itl": "inter_token_latency_seconds",
    "e2e": "e2e_request_latency_seconds",
}


class Scrape(NamedTuple):
    """One exposition, summed over the engines of a server: seconds and tokens, cumulative."""

    engine: Literal["vllm", "sglang", "llama-server"]
    model: str | None
    counters: Mapping[str, float]
    gauges: Mapping[str, float]
    sums: Mapping[str, tuple[float, float]]  # histogram -> (sum, count)
    positions: tuple[float, ...]  # accepted tokens by draft position
    replicas: tuple[str, ...] = ()  # whose counters these are, where the text tells it


def matches(doc: Document) -> bool:
    """Whether the text is a scrape of Prometheus metrics."""
    return not doc.values and bool(_TYPE.search(doc.text) or _SAMPLE.search(doc.text))


def scrape(text: str, name: str = "metrics") -> Scrape:
    """Parse exposition text. Raises Unreadable for broken text, or that of another server."""
    from prometheus_client.parser import text_string_to_metric_families

    values: dict[str, float] = {}
    positions: dict[int, float] = {}
    engine, model, labels = None, None, set[str]()
    try:
        stamp = "started %Y-%m-%d %H:%M:%S UTC"
        times = [min(float(seconds), 1e10) for seconds in _STARTED.findall(text)]
        started = {time.strftime(stamp, time.gmtime(at)) for at in times}
        for family in text_string_to_metric_families(_engine_lines(text)):
            prefix = family.name.split(":")[0]
            if prefix not in _ENGINE:
                continue
            engine = engine or _ENGINE[prefix]
            for sample in family.samples:
                if sample.name.endswith(("_bucket", "_created")):
                    continue
                key = sample.name.removesuffix("_total")
                model = model or sample.labels.get("model_name")
                labels |= {
                    f"{at} {excerpt(sample.labels[at])}" for at in _PLACES if at in sample.labels
                }
                if key.endswith("accepted_tokens_per_pos"):
                    at = int(sample.labels.get("position", "0"))
                    positions[at] = positions.get(at, 0.0) + sample.value
                elif key.endswith("cache_usage_perc") or key.endswith("_length"):
                    values[key] = max(values.get(key, 0.0), sample.value)
                else:
                    values[key] = values.get(key, 0.0) + sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise Unreadable(f"{name}: broken Prometheus text; was it cut off?") from error
    if engine is None:
        raise Unreadable(f"{name}: Prometheus text, but of none of vLLM, SGLang and llama-server")
    return Scrape(
        engine,
        model,
        _pick(values, _NAMES),
        _pick(values, _GAUGES),
        {
            name: (values[f"{key}_sum"], values[f"{key}_count"])
            for name, metric in _HISTOGRAMS.items()
            for key in (f"vllm:{metric}", f"sglang:{metric}")
            if values.get(f"{key}_count") and f"{key}_sum" in values
        },
        tuple(positions.get(i, 0.0) for i in range(min(len(positions), 64))),
        tuple(sorted(labels or started)),
    )


def _engine_lines(text: str) -> str:
    """The lines of the three engines, their names with a colon; a pasted page has others."""
    kept = [line for line in text.splitlines() if _OURS.match(line)]
    return "\n".join([*(_OURS.sub(lambda m: f"{m[1] or ''}{m[2]}:", line) for line in kept), ""])


def _pick(values: Mapping[str, float], names: Mapping[str, Iterable[str]]) -> dict[str, float]:
    stated = {name: [values[key] for key in keys if key in values] for name, keys in names.items()}
    return {name: row[0] for name, row in stated.items() if row and math.isfinite(row[0])}


def together(scrapes: Sequence[Scrape]) -> Scrape:
    """The sum over replicas; shares and lengths are means. Raises Unreadable for other models."""
    first, count = scrapes[0], len(scrapes)
    if len({(one.engine, one.model) for one in scrapes}) > 1:
        raise Unreadable("the replicas run different engines or models")
    gauges = _sum_rows([one.gauges for one in scrapes])
    gauges |= {name: gauges[name] / count for name in gauges.keys() & {"kv_usage", "accept_length"}}
    totals, counts = (
        _sum_rows([{k: v[i] for k, v in s.sums.items()} for s in scrapes]) for i in (0, 1)
    )
    return Scrape(
        first.engine,
        first.model,
        _sum_rows([one.counters for one in scrapes]),
        gauges,
        {name: (totals[name], counts[name]) for name in totals},
        tuple(map(sum, zip_longest(*(one.positions for one in scrapes), fillvalue=0.0))),
        tuple(chain.from_iterable(one.replicas for one in scrapes)),
    )


def _sum_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(chain.from_iterable(rows))
    return {name: sum(row.get(name, 0.0) for row in rows) for name in names}


def between(first: Scrape, last: Scrape) -> Scrape:
    """What happened between two scrapes. Raises Unreadable for those of two servers."""
    if (first.engine, first.model) != (last.engine, last.model):
        raise Unreadable("the two metrics files are of different servers: engine or model differ")
    if first.replicas != last.replicas:
        raise Unreadable(
            f"the two readings are of different replicas, or of a server that restarted "
            f"({', '.join(first.replicas)}; then {', '.join(last.replicas)}): read each one's own "
            f"/metrics"
        )
    counters = {k: v - first.counters.get(k, 0.0) for k, v in last.counters.items()}
    if any(value < 0 for value in counters.values()):
        why = "swapped, or the server restarted"
        raise Unreadable(f"counters fall from the first metrics file to the second: {why}")
    sums = {
        name: (total - before[0], count - before[1])
        for name, (total, count) in last.sums.items()
        if count > (before := first.sums.get(name, (0.0, 0.0)))[1]
    }
    padded = (*first.positions, *([0.0] * (len(last.positions) - len(first.positions))))
    positions = tuple(b - a for a, b in zip(padded, last.positions, strict=False))
    return Scrape(last.engine, last.model, counters, last.gauges, sums, positions, last.replicas)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return the totals since the server's start as one run."""
    note = "totals since the server's start: take a second scrape after the run for the run alone"
    return [run_of(scrape(doc.text, doc.name), doc.name, doc.sha256, notes=(note,))]


def run_of(
    metrics: Scrape,
    file: str,
    sha256: str = "",
    seconds: float | None = None,
    notes: tuple[str, ...] = (),
) -> BenchmarkRun:
    """A scrape, or a difference over `seconds`, as a run."""
    counters, length = metrics.counters, metrics.gauges.get("accept_length")
    acceptance = None
    if "accepted" in counters:  # a query may have asked for the drafts alone
        acceptance = Acceptance.from_counts(
            counters.get("drafts"), counters.get("draft_tokens"), counters["accepted"],
            metrics.positions,
        )  # fmt: skip
    if acceptance is None and length is not None and length >= 1:
        acceptance = Acceptance(length=length)
    requests, tokens = counters.get("requests"), counters.get("output_tokens")
    times: dict[str, Any] = {f"{name}_ms": _mean(metrics, name) for name in _HISTOGRAMS}
    counts = metrics.engine is None or metrics.engine in engines_with("counts_drafts")
    return BenchmarkRun(
        file=file, format=FORMAT, kind="counters", sha256=sha256, client="/metrics",
        engine=metrics.engine, model=metrics.model, k=len(metrics.positions) or None,
        requests=round(requests) if requests else None,
        method=None if acceptance or counters.get("drafts") or not counts else "none",
        input_tokens=per_request(counters.get("prompt_tokens"), requests),
        output_tokens=per_request(tokens, requests),
        duration_s=seconds,
        output_tok_s=tokens / seconds if tokens is not None and seconds else None,
        acceptance=acceptance, notes=notes,
        **times,
    )  # fmt: skip


def _mean(metrics: Scrape, name: str) -> Latency | None:
    total, count = metrics.sums.get(name, (0.0, 0.0))
    return Latency.from_statistics(mean=total / count * 1e3) if count else None
