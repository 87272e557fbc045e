"""Reports of tools that drive other benchmark clients or whole clusters: llm-d's benchmark report
(0.1 and 0.2, YAML or JSON), inference-perf's `*_lifecycle_metrics.json`, and InferenceX's (before:
InferenceMAX's) aggregated results.

llm-d states a unit with each statistic; inference-perf's and InferenceX's times are in seconds.
InferenceX divides throughput by the GPUs; its lengths are those that were asked for. The "time per
output token" of inference-perf is between the chunks of a stream, where drafts make it a step, so
the time per token follows from the means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from advisor.domain.facts import AdvisorError
from advisor.domain.files import yaml_safely
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import (
    BenchmarkRun,
    EngineName,
    Foreign,
    Latency,
    Number,
    after_first,
)

LLM_D, INFERENCE_PERF, INFERENCE_X = "llm-d-benchmark", "inference-perf", "inferencex"
FORMAT = "cluster-report"
_YAML = re.compile(r"^version: ['\"]?0\.\d", re.M)
_MS = {"s": 1e3, "s/token": 1e3, "ms": 1.0, "ms/token": 1.0}  # unit -> ms
_X_KEYS = {"hw", "conc", "framework", "precision", "output_tput_per_gpu", "mean_tpot"}
_ENGINES: dict[str, EngineName] = {
    "vllm": "vllm", "sglang": "sglang", "trt": "tensorrt-llm", "trtllm": "tensorrt-llm",
    "tensorrt-llm": "tensorrt-llm", "dynamo-trt": "tensorrt-llm", "dynamo-trtllm": "tensorrt-llm",
    "dynamo-sglang": "sglang", "dynamo-vllm": "vllm",
}  # fmt: skip
BY_CHUNK = "TPOT from the means of latency, TTFT and tokens: inference-perf's own is between chunks"
Row = Mapping[str, Any]


class Statistics(Foreign):
    """A distribution, as all three write it but for the names of its shares."""

    units: str | None = None
    mean: Number = None
    median: Number = None
    p50: Number = None
    p90: Number = None
    p99: Number = None
    stddev: Number = None

    def latency(self, scale: float = 1.0) -> Latency | None:
        """As a time in ms; `scale` where no unit is stated. None for a unit that is no time."""
        scale = _MS.get(self.units, 0.0) if self.units is not None else scale
        if not scale:
            return None
        middle = self.p50 if self.p50 is not None else self.median
        stated = {"mean": self.mean, "p50": middle, "p90": self.p90, "p99": self.p99,
                  "sd": self.stddev}  # fmt: skip
        return Latency.from_statistics(
            **{name: None if v is None else v * scale for name, v in stated.items()}
        )


class Aggregated(Foreign):
    """One row of InferenceX."""

    hw: str | None = None
    tp: Number = None
    conc: Number = None
    model: str | None = None
    framework: str | None = None
    image: str | None = None
    isl: Number = None
    osl: Number = None
    spec_decoding: str | None = None
    mtp: str | None = None
    disagg: bool | str | None = None
    is_multinode: bool | str | None = None
    output_tput_per_gpu: Number = None


def matches(doc: Document) -> bool:
    """Whether the document is one of these reports."""
    if doc.values:
        rows = doc.objects
        return bool(rows) and (
            all(row.keys() >= _X_KEYS for row in rows)
            or (len(rows) == 1 and (_is_llm_d(rows[0]) or _is_inference_perf(rows[0])))
        )
    text = doc.text
    return (
        _YAML.search(text) is not None
        and "```" not in text  # a page that quotes one
        and "time_to_first_token:" in text
        and re.search(r"^(?:scenario|results|metrics|run):", text, re.M) is not None
    )


def _is_llm_d(row: Row) -> bool:
    return str(row.get("version", "")).startswith("0.") and bool(_aggregate(row).get("latency"))


def _is_inference_perf(row: Row) -> bool:
    return "load_summary" in row and "latency" in _at(row, "successes")


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per report or row. Raises Unreadable for YAML that is broken or too large."""
    if not doc.values:
        try:
            data = yaml_safely(doc.text, doc.name)
        except AdvisorError as error:
            raise Unreadable(str(error)) from None
        if not isinstance(data, dict) or not _is_llm_d(data):
            raise Unreadable(f"{doc.name}: llm-d's report has no latencies and throughput")
        doc = replace(doc, values=(data,))
    if _is_llm_d(doc.object):
        return [_of_llm_d(doc, doc.object)]
    if _is_inference_perf(doc.object):
        return [_of_inference_perf(doc, doc.object)]
    return [_of_inference_x(doc, row, part) for part, row in doc.parts()]


def _at(row: Any, *names: str) -> Row:
    """The mapping below these names; an empty one where there is none."""
    for name in names:
        row = row.get(name) if isinstance(row, dict) else None
    return row if isinstance(row, dict) else {}


def _aggregate(row: Row) -> Row:
    found = _at(row, "results", "request_performance", "aggregate")
    return found or _at(row, "metrics")


def _statistics(row: Row, name: str) -> Statistics:
    return Statistics.model_validate(_at(row, name))


def _mean(row: Row, *names: str) -> float | None:
    """A rate that is a number or a distribution."""
    for name in names:
        value = row.get(name)
        if isinstance(value, dict):
            return Statistics.model_validate(value).mean
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _of_llm_d(doc: Document, row: Row) -> BenchmarkRun:
    made = _aggregate(row)
    latency, requests, speed = (_at(made, name) for name in ("latency", "requests", "throughput"))
    load = _at(row, "scenario", "load", "standardized") or _at(row, "scenario", "load", "args")
    first, engine = _first_engine(row)
    total, failed = _count(requests.get("total")), _count(requests.get("failures"))
    name, version = _name_and_version(engine)
    answer = _statistics(requests, "output_length").mean
    first_token, whole, tpot = (
        _statistics(latency, name).latency()
        for name in ("time_to_first_token", "request_latency", "time_per_output_token")
    )
    by_chunk = INFERENCE_PERF in (load.get("tool"), _at(row, "scenario", "load").get("name"))
    return BenchmarkRun(
        file=doc.name, format=LLM_D, sha256=doc.sha256, client="llm-d-benchmark",
        engine=_ENGINES.get(name), engine_version=version,
        model=_text(_at(first, "model").get("name") or _at(row, "scenario", "model").get("name")),
        hardware=_text(_card(row, first)),
        concurrency=_mean(load, "concurrency", "max_concurrency", "max-concurrency"),
        request_rate=_mean(load, "rate_qps"),
        requests=total if failed is None or total is None else total - failed, failed=failed,
        input_tokens=_statistics(requests, "input_length").mean,
        output_tokens=answer,
        duration_s=_mean(_at(made, "time"), "duration"),
        output_tok_s=_mean(speed, "output_token_rate", "output_tokens_per_sec"),
        ttft_ms=first_token, e2e_ms=whole,
        tpot_ms=_of_means(whole, first_token, answer) if by_chunk else tpot,
        itl_ms=_statistics(latency, "inter_token_latency").latency(),
        notes=(BY_CHUNK,) if by_chunk else (),
    )  # fmt: skip


def _of_means(whole: Latency | None, first: Latency | None, tokens: float | None) -> Latency | None:
    made = after_first(whole.mean, first.mean, tokens) if whole and first else None
    return Latency.from_statistics(mean=made)


def _first_engine(row: Row) -> tuple[Row, str]:
    """The first serving engine of a scenario, and what it says of its image."""
    stack = _at(row, "scenario").get("stack")
    for one in stack if isinstance(stack, list) else ():
        found = _at(one, "standardized")
        if found.get("kind") == "inference_engine":
            return found, f"{found.get('tool', '')} {found.get('tool_version', '')}"
    engines = _at(row, "scenario", "platform").get("engine")
    return {}, str(_first(engines).get("name", ""))


def _card(row: Row, first: Row) -> Any:
    cards = _at(row, "scenario", "host").get("accelerator")
    return _at(first, "accelerator").get("model") or _first(cards).get("model")


def _first(rows: Any) -> Row:
    """The first mapping of a list; an empty one where there is none."""
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}


def _name_and_version(image: str) -> tuple[str, str | None]:
    """Engine and release of what an image or a tool is called."""
    name = next((word for word in ("vllm", "sglang", "tensorrt-llm") if word in image.lower()), "")
    found = re.search(r"[: ]v?(\d+\.\d+\.\d+(?:\.?(?:rc|post)\d+)?)", image)
    return name, found[1] if found else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _of_inference_perf(doc: Document, row: Row) -> BenchmarkRun:
    good, load = _at(row, "successes"), _at(row, "load_summary")
    latency, speed = _at(good, "latency"), _at(good, "throughput")

    def time(name: str) -> Latency | None:
        return _statistics(latency, name).latency(1e3)

    first, whole = time("time_to_first_token"), time("request_latency")
    answer = _mean(good, "output_len", "output_tokens")
    return BenchmarkRun(
        file=doc.name, format=INFERENCE_PERF, sha256=doc.sha256, client=INFERENCE_PERF,
        concurrency=_mean(load, "concurrency"), request_rate=_mean(load, "requested_rate"),
        requests=_count(good.get("count")), failed=_count(_at(row, "failures").get("count")),
        input_tokens=_mean(good, "prompt_len", "prompt_tokens"),
        output_tokens=answer,
        output_tok_s=_mean(speed, "output_tokens_per_sec"),
        ttft_ms=first, e2e_ms=whole, tpot_ms=_of_means(whole, first, answer),
        itl_ms=time("inter_token_latency"), notes=(BY_CHUNK,),
    )  # fmt: skip


def _of_inference_x(doc: Document, row: Row, part: str) -> BenchmarkRun:
    made = Aggregated.model_validate(row)
    name, version = _name_and_version(made.image or "")
    split = str(made.disagg).lower() == "true" or str(made.is_multinode).lower() == "true"
    gpus, each = made.tp, made.output_tput_per_gpu
    word = (made.spec_decoding or made.mtp or "").lower()
    notes = [f"throughput is of {gpus:g} GPUs: give --gpus {gpus:g} --tp {gpus:g}"] if gpus else []
    if split:
        notes = ["several nodes or pools: their throughput together is not stated"]
    return BenchmarkRun(
        file=doc.name, format=INFERENCE_X, part=part, sha256=doc.sha256, client="InferenceX",
        engine=_ENGINES.get((made.framework or name).lower()), engine_version=version,
        model=made.model, hardware=re.split(r"[-_ ]", made.hw or "")[0] or None,
        method={"on": "mtp", "off": "none", "": None}.get(word, word),
        concurrency=made.conc, input_tokens=made.isl, output_tokens=made.osl,
        output_tok_s=each * gpus if each and gpus and not split else None,
        ttft_ms=_seconds(row, "ttft"), tpot_ms=_seconds(row, "tpot"),
        itl_ms=_seconds(row, "itl"), e2e_ms=_seconds(row, "e2el"), notes=tuple(notes),
    )  # fmt: skip


def _seconds(row: Row, name: str) -> Latency | None:
    words = {"mean": "mean", "median": "median", "p90": "p90", "p99": "p99", "stddev": "std"}
    found = {ours: row.get(f"{theirs}_{name}") for ours, theirs in words.items()}
    return Statistics.model_validate(found).latency(1e3)
