"""GuideLLM `benchmarks.json` and `.yaml` (0.3 to 0.8): distributions by status, one benchmark a
load.

Its `time_per_output_token_ms` is the whole latency over all tokens, the first one's wait included;
the time per token after the first, which others call TPOT, is its `inter_token_latency_ms`. Tokens
per stream iteration are no acceptance length: servers may join steps.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from advisor.domain.facts import AdvisorError
from advisor.domain.files import yaml_safely
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import BenchmarkRun, Foreign, Latency, Number

FORMAT = "guidellm"
_YAML = re.compile(r"\s*(?:args|benchmarks|metadata|type_):\s")


class Distribution(Foreign):
    """One metric over the successful requests."""

    mean: Number = None
    median: Number = None
    std_dev: Number = None
    percentiles: dict[str, Number] = {}

    def latency(self) -> Latency | None:
        """Return mean, standard deviation and percentiles, in the unit of the export."""
        p90, p99 = self.percentiles.get("p90"), self.percentiles.get("p99")
        return Latency.from_statistics(
            mean=self.mean, p50=self.median, sd=self.std_dev, p90=p90, p99=p99
        )


class ByStatus(Foreign):
    """The distribution of a metric over the successful requests."""

    successful: Distribution | None = None


class Metrics(Foreign):
    """What is read of a benchmark's metrics."""

    output_tokens_per_second: ByStatus
    time_to_first_token_ms: ByStatus
    inter_token_latency_ms: ByStatus
    request_latency: ByStatus | None = None  # seconds
    prompt_token_count: ByStatus | None = None
    output_token_count: ByStatus | None = None
    request_totals: dict[str, int] = {}


def matches(doc: Document) -> bool:
    """Whether the document is a GuideLLM report."""
    if _YAML.match(doc.text) and "inter_token_latency_ms:" in doc.text:
        return True
    rows = doc.object.get("benchmarks")
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(isinstance(r, dict) and isinstance(r.get("metrics"), dict) for r in rows)
        and "inter_token_latency_ms" in rows[0]["metrics"]
    )


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per benchmark of the report. Raises Unreadable for a YAML that is broken or
    too large.
    """
    if not doc.values:
        doc = replace(doc, values=(_from_yaml(doc),))
    return [_run(doc, row, i) for i, row in enumerate(doc.object["benchmarks"])]


def _from_yaml(doc: Document) -> dict[str, Any]:
    try:
        data = yaml_safely(doc.text, doc.name)
    except AdvisorError as error:
        raise Unreadable(f"{error}; give GuideLLM's JSON or CSV") from None
    if not isinstance(data, dict) or not matches(replace(doc, text="", values=(data,))):
        raise Unreadable(f"{doc.name}: GuideLLM's YAML has no benchmarks with metrics")
    return data


def _run(doc: Document, row: dict[str, Any], i: int) -> BenchmarkRun:
    made = Metrics.model_validate(row["metrics"])
    config = _dict(row, "config")
    strategy = _dict(config, "strategy") or _dict(_dict(row, "scheduler"), "strategy")
    strategy = strategy or _dict(_dict(row, "args"), "strategy")
    backend = _dict(config, "backend") or _dict(_dict(doc.object, "args"), "backend")
    version = _dict(doc.object, "metadata").get("guidellm_version")
    requests = row.get("requests")
    done = _records(requests)
    totals = made.request_totals or _dict(row, "request_totals")  # 0.3: beside the metrics
    model = backend.get("model") or _dict(row, "worker").get("backend_model")
    return BenchmarkRun(
        file=doc.name,
        format=FORMAT,
        part=f"benchmark {i + 1}" if len(doc.object["benchmarks"]) > 1 else "",
        sha256=doc.sha256,
        client="guidellm",
        client_version=str(version) if version else None,
        model=model if isinstance(model, str) else None,
        concurrency=_number(strategy.get("streams")),
        request_rate=_number(strategy.get("rate")),
        requests=_whole(totals.get("successful")),
        failed=_whole(totals.get("errored")),
        duration_s=_number(row.get("duration")),
        input_tokens=_mean(made.prompt_token_count),
        output_tokens=_mean(made.output_token_count),
        output_tok_s=_mean(made.output_tokens_per_second),
        ttft_ms=_latency(
            made.time_to_first_token_ms, [r.get("time_to_first_token_ms") for r in done]
        ),
        tpot_ms=_latency(
            made.inter_token_latency_ms, [r.get("inter_token_latency_ms") for r in done]
        ),
        e2e_ms=Latency.of(v * 1e3 for r in done if (v := _number(r.get("request_latency")))),
        notes=("TPOT is GuideLLM's inter_token_latency_ms: per token after the first",),
    )


def _dict(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _records(requests: Any) -> list[dict[str, Any]]:
    rows = _list(requests.get("successful")) if isinstance(requests, dict) else []
    return [row for row in rows if isinstance(row, dict)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mean(metric: ByStatus | None) -> float | None:
    return metric.successful.mean if metric and metric.successful else None


def _latency(metric: ByStatus, values: list[Any]) -> Latency | None:
    of = Latency.of(v for value in values if (v := _number(value)) is not None)
    stated = metric.successful.latency() if metric.successful else None
    return stated.model_copy(update={"values": of.values if of else ()}) if stated else of
