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
from dataclasses import replace
from typing import Any

from advisor.domain.facts import AdvisorError
from advisor.domain.files import yaml_safely
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import (
    BY_MEANS,
    UNITS,
    FileLayout,
    Place,
    Row,
    in_our_unit,
    list_at,
    mean_after_first,
    number_at,
    part_at,
    text_at,
)
from advisor.readers.results.run import BenchmarkRun, EngineName

FORMAT = "cluster-report"
_YAML = re.compile(r"^version: ['\"]?0\.\d", re.M)
_X_KEYS = {"hw", "conc", "framework", "precision", "output_tput_per_gpu", "mean_tpot"}
_ENGINES: dict[str, EngineName] = {
    "vllm": "vllm", "sglang": "sglang", "trt": "tensorrt-llm", "trtllm": "tensorrt-llm",
    "tensorrt-llm": "tensorrt-llm", "dynamo-trt": "tensorrt-llm", "dynamo-trtllm": "tensorrt-llm",
    "dynamo-sglang": "sglang", "dynamo-vllm": "vllm",
}  # fmt: skip
BY_CHUNK = f"{BY_MEANS}inference-perf's own is between chunks"


_STATISTICS: dict[str, Place] = {
    "mean": "mean", "p50": ("p50", "median"), "p90": "p90", "p99": "p99", "sd": "stddev",
}  # fmt: skip
LLM_D = FileLayout(
    format="llm-d-benchmark",
    client="llm-d-benchmark",
    fields={
        "model": ("engine > model > name", "scenario > model > name"),
        "hardware": ("engine > accelerator > model", "card > model"),
        "concurrency": ("load > concurrency", "load > max_concurrency", "load > max-concurrency"),
        "request_rate": "load > rate_qps",
        "failed": "requests > failures",
        "input_tokens": "requests > input_length > mean",
        "output_tokens": "requests > output_length > mean",
        "duration_s": ("time > duration > mean", "time > duration"),
        "output_tok_s": tuple(
            f"throughput > {name}{mean}"
            for name in ("output_token_rate", "output_tokens_per_sec")
            for mean in (" > mean", "")
        ),
    },
    times={
        "ttft_ms": "latency > time_to_first_token > {}",
        "tpot_ms": "latency > time_per_output_token > {}",
        "itl_ms": "latency > inter_token_latency > {}",
        "e2e_ms": "latency > request_latency > {}",
    },
    words=_STATISTICS,
)
INFERENCE_PERF = FileLayout(
    format="inference-perf",
    client="inference-perf",
    fields={
        "concurrency": "load_summary > concurrency",
        "request_rate": "load_summary > requested_rate",
        "requests": "successes > count",
        "failed": "failures > count",
        "input_tokens": ("successes > prompt_len > mean", "successes > prompt_tokens > mean"),
        "output_tokens": ("successes > output_len > mean", "successes > output_tokens > mean"),
        "output_tok_s": "successes > throughput > output_tokens_per_sec",
    },
    times={
        "ttft_ms": "successes > latency > time_to_first_token > {}",
        "itl_ms": "successes > latency > inter_token_latency > {}",
        "e2e_ms": "successes > latency > request_latency > {}",
    },
    words=_STATISTICS,
    ms=1e3,
    notes=(BY_CHUNK,),
)
INFERENCE_X = FileLayout(
    format="inferencex",
    client="InferenceX",
    fields={
        "model": "model",
        "concurrency": "conc",
        "input_tokens": "isl",
        "output_tokens": "osl",
    },
    times={
        "ttft_ms": "{}_ttft", "tpot_ms": "{}_tpot", "itl_ms": "{}_itl", "e2e_ms": "{}_e2el",
    },
    words={"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99", "sd": "std"},
    ms=1e3,
)  # fmt: skip


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
    return "load_summary" in row and "latency" in part_at(row, "successes")


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


def _aggregate(row: Row) -> dict[str, Any]:
    return part_at(row, "results > request_performance > aggregate", "metrics")


def _of_llm_d(doc: Document, row: Row) -> BenchmarkRun:
    aggregate = _aggregate(row)
    load = part_at(row, "scenario > load > standardized", "scenario > load > args")
    engine, image = _first_engine(row)
    name, version = _name_and_version(image)
    times = {
        name: in_our_unit(time, "units")
        for name, time in part_at(aggregate, "latency").items()
        if isinstance(time, dict) and time.get("units", "ms") in UNITS
    }
    flat = {**row, **aggregate, "latency": times, "load": load, "engine": engine,
            "card": next(iter(list_at(row, "scenario > host > accelerator")), None)}  # fmt: skip
    run = LLM_D.run(doc, flat, engine=_ENGINES.get(name), engine_version=version)
    total = number_at(aggregate, "requests > total")
    update: dict[str, Any] = {
        "requests": None if total is None else round(total - (run.failed or 0))
    }
    if "inference-perf" in (load.get("tool"), part_at(row, "scenario > load").get("name")):
        update["tpot_ms"] = mean_after_first(run.e2e_ms, run.ttft_ms, run.output_tokens)
        update["notes"] = (BY_CHUNK,)
    return run.model_copy(update=update)


def _first_engine(row: Row) -> tuple[Row, str]:
    """The first serving engine of a scenario, and what it says of its image."""
    for item in list_at(row, "scenario > stack"):
        engine = part_at(item, "standardized")
        if engine.get("kind") == "inference_engine":
            return engine, f"{engine.get('tool', '')} {engine.get('tool_version', '')}"
    engines = list_at(row, "scenario > platform > engine")
    return {}, str(engines[0].get("name", "")) if engines else ""


def _name_and_version(image: str) -> tuple[str, str | None]:
    """Engine and release of what an image or a tool is called."""
    name = next((word for word in ("vllm", "sglang", "tensorrt-llm") if word in image.lower()), "")
    release = re.search(r"[: ]v?(\d+\.\d+\.\d+(?:\.?(?:rc|post)\d+)?)", image)
    return name, release[1] if release else None


def _of_inference_perf(doc: Document, row: Row) -> BenchmarkRun:
    run = INFERENCE_PERF.run(doc, row)
    tpot = mean_after_first(run.e2e_ms, run.ttft_ms, run.output_tokens)
    return run.model_copy(update={"tpot_ms": tpot})


def _of_inference_x(doc: Document, row: Row, part: str) -> BenchmarkRun:
    name, version = _name_and_version(text_at(row, "image") or "")
    split = "true" in (str(row.get(key)).lower() for key in ("disagg", "is_multinode"))
    gpus, each = number_at(row, "tp"), number_at(row, "output_tput_per_gpu")
    word = (text_at(row, ("spec_decoding", "mtp")) or "").lower()
    notes = [f"throughput is of {gpus:g} GPUs: give --gpus {gpus:g} --tp {gpus:g}"] if gpus else []
    if split:
        notes = ["several nodes or pools: their throughput together is not stated"]
    return INFERENCE_X.run(
        doc, row, part,
        engine=_ENGINES.get((text_at(row, "framework") or name).lower()), engine_version=version,
        hardware=re.split(r"[-_ ]", text_at(row, "hw") or "")[0] or None,
        method={"on": "mtp", "off": "none", "": None}.get(word, word),
        output_tok_s=each * gpus if each and gpus and not split else None,
        notes=tuple(notes),
    )  # fmt: skip
