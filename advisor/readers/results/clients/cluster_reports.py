"""The JSON (or YAML) of tools that drive other clients or whole clusters: llm-d's benchmark report
(0.1 and 0.2), inference-perf's `*_lifecycle_metrics.json`, InferenceX's (before: InferenceMAX's)
aggregated results, and `trtllm-bench --report_json`.

llm-d states a unit with each statistic; inference-perf's and InferenceX's times are in seconds.
InferenceX divides throughput by the GPUs; its lengths are those that were asked for. The "time per
output token" of inference-perf is between the chunks of a stream, where drafts make it a step, so
the time per token follows from the means. trtllm-bench's concurrent requests are the mean of the
run; it has decoding statistics only where tokens were drafted.
"""

from __future__ import annotations

import re
from typing import Any

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

_ENGINES: dict[str, EngineName] = {
    "vllm": "vllm", "sglang": "sglang", "trt": "tensorrt-llm", "trtllm": "tensorrt-llm",
    "tensorrt-llm": "tensorrt-llm", "dynamo-trt": "tensorrt-llm", "dynamo-trtllm": "tensorrt-llm",
    "dynamo-sglang": "sglang", "dynamo-vllm": "vllm",
}  # fmt: skip
BY_CHUNK = f"{BY_MEANS}inference-perf's own is between chunks"
_STATISTICS: dict[str, Place] = {
    "mean": "mean", "p50": ("p50", "median"), "p90": "p90", "p99": "p99", "sd": "stddev",
}  # fmt: skip


def _llm_d_loads(row: dict[str, Any]) -> list[Row]:
    """The report with its aggregate, its load and its first engine at the top."""
    aggregate = part_at(row, "results > request_performance > aggregate", "metrics")
    if not str(row.get("version", "")).startswith("0.") or not aggregate.get("latency"):
        return []
    times = {
        name: in_our_unit(time, "units")
        for name, time in part_at(aggregate, "latency").items()
        if isinstance(time, dict) and time.get("units", "ms") in UNITS
    }
    load = part_at(row, "scenario > load > standardized", "scenario > load > args")
    engines = (part_at(item, "standardized") for item in list_at(row, "scenario > stack"))
    engine = next((one for one in engines if one.get("kind") == "inference_engine"), {})
    image = f"{engine.get('tool', '')} {engine.get('tool_version', '')}" if engine else next(
        (str(one.get("name", "")) for one in list_at(row, "scenario > platform > engine")), ""
    )  # fmt: skip
    card = next(iter(list_at(row, "scenario > host > accelerator")), None)
    return [
        row | aggregate
        | {"latency": times, "load": load, "engine": engine, "card": card, "image": image}
    ]  # fmt: skip


def _llm_d_finish(run: BenchmarkRun, row: Row) -> Row:
    name, version = _name_and_version(row["image"])
    total = number_at(row, "requests > total")
    update: dict[str, Any] = {
        "engine": _ENGINES.get(name), "engine_version": version,
        "requests": None if total is None else round(total - (run.failed or 0)),
    }  # fmt: skip
    if "inference-perf" in (row["load"].get("tool"), part_at(row, "scenario > load").get("name")):
        update["tpot_ms"] = mean_after_first(run)
        update["notes"] = (BY_CHUNK,)
    return update


def _name_and_version(image: str) -> tuple[str, str | None]:
    """Engine and release of what an image or a tool is called."""
    name = next((word for word in ("vllm", "sglang", "tensorrt-llm") if word in image.lower()), "")
    release = re.search(r"[: ]v?(\d+\.\d+\.\d+(?:\.?(?:rc|post)\d+)?)", image)
    return name, release[1] if release else None


LLM_D = FileLayout(
    format="llm-d-benchmark",
    client="llm-d-benchmark",
    loads=_llm_d_loads,
    fields={
        "model": ("engine > model > name", "scenario > model > name"),
        "hardware": ("engine > accelerator > model", "card > model"),
        "concurrency": ("load > concurrency", "load > max_concurrency", "load > max-concurrency"),
        "request_rate": "load > rate_qps",
        "failed": "requests > failures",
        "input_tokens": "requests > input_length > mean",
        "output_tokens": "requests > output_length > mean",
        "duration_s": ("time > duration > mean", "time > duration"),
        "output_tok_s": (
            "throughput > output_token_rate > mean", "throughput > output_token_rate",
            "throughput > output_tokens_per_sec > mean", "throughput > output_tokens_per_sec",
        ),
    },
    times={
        "ttft_ms": "latency > time_to_first_token > {}",
        "tpot_ms": "latency > time_per_output_token > {}",
        "itl_ms": "latency > inter_token_latency > {}",
        "e2e_ms": "latency > request_latency > {}",
    },
    words=_STATISTICS,
    finish=_llm_d_finish,
)  # fmt: skip
INFERENCE_PERF = FileLayout(
    format="inference-perf",
    client="inference-perf",
    marks=("load_summary", "successes > latency"),
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
    finish=lambda run, _: {"tpot_ms": mean_after_first(run)},
)


def _x_finish(_: BenchmarkRun, row: Row) -> Row:
    name, version = _name_and_version(text_at(row, "image") or "")
    split = "true" in (str(row.get(key)).lower() for key in ("disagg", "is_multinode"))
    gpus, each = number_at(row, "tp"), number_at(row, "output_tput_per_gpu")
    word = (text_at(row, ("spec_decoding", "mtp")) or "").lower()
    notes = [f"throughput is of {gpus:g} GPUs: give --gpus {gpus:g} --tp {gpus:g}"] if gpus else []
    if split:
        notes = ["several nodes or pools: their throughput together is not stated"]
    return {
        "engine": _ENGINES.get((text_at(row, "framework") or name).lower()),
        "engine_version": version,
        "hardware": re.split(r"[-_ ]", text_at(row, "hw") or "")[0] or None,
        "method": {"on": "mtp", "off": "none", "": None}.get(word, word),
        "output_tok_s": each * gpus if each and gpus and not split else None,
        "notes": tuple(notes),
    }


INFERENCE_X = FileLayout(
    format="inferencex",
    client="InferenceX",
    marks=("hw", "conc", "framework", "precision", "output_tput_per_gpu", "mean_tpot"),
    fields={
        "model": "model", "concurrency": "conc", "input_tokens": "isl", "output_tokens": "osl",
    },
    times={
        "ttft_ms": "{}_ttft", "tpot_ms": "{}_tpot", "itl_ms": "{}_itl", "e2e_ms": "{}_e2el",
    },
    words={"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99", "sd": "std"},
    ms=1e3,
    finish=_x_finish,
)  # fmt: skip
_METHODS = {"mtp": "mtp", "eagle": "eagle", "eagle3": "eagle3", "ngram": "ngram",
            "drafttarget": "draft_model", "draft_target": "draft_model"}  # fmt: skip
WHOLE = 0.1  # how far the drafted tokens of a step may lie from a whole number to be one


def _trtllm_finish(run: BenchmarkRun, row: Row) -> Row:
    accepted = run.acceptance if run.acceptance and run.acceptance.length is not None else None
    mode = re.sub(r"[^a-z0-9_]", "", (text_at(row, "decoding_stats > mode") or "").lower())
    drafts = accepted is not None or bool(mode)
    drafted = number_at(row, "decoding_stats > num_draft_tokens_percentiles > average")
    # drafted tokens of a request over its steps, where that is a whole number
    k = 0.0
    if accepted and accepted.length and drafted and run.output_tokens:
        k = drafted * accepted.length / run.output_tokens
    whole = round(k) if abs(k - round(k)) <= WHOLE and round(k) > 0 else None
    return {
        "method": _METHODS.get(mode) if drafts else "none",
        "k": whole if drafts else 0,
        "acceptance": accepted,
    }


TRTLLM = FileLayout(  # an engine without predictions: gains and their noise can be judged
    format="trtllm-bench",
    client="trtllm-bench",
    engine="tensorrt-llm",
    kind="offline",
    marks=("performance > system_output_throughput_tok_s",),
    fields={
        "model": "engine > model",
        "engine_version": "engine > version",
        "hardware": "machine > name",
        "concurrency": "request_info > avg_num_concurrent_requests",
        "requests": "request_info > num_requests",
        "input_tokens": "request_info > avg_input_length",
        "output_tokens": "request_info > avg_output_length",
        "duration_s": "performance > total_latency_ms",
        "output_tok_s": "performance > system_output_throughput_tok_s",
    },
    times={
        "ttft_ms": (
            "streaming_metrics > ttft_percentiles > {}", "streaming_metrics > avg_ttft_ms{}",
        ),
        "tpot_ms": (
            "streaming_metrics > tpot_percentiles > {}", "streaming_metrics > avg_tpot_ms{}",
        ),
        "e2e_ms": (
            "performance > request_latency_percentiles_ms > {}",
            "performance > avg_request_latency_ms{}",
        ),
    },
    words={"mean": ("average", ""), "p50": "p50", "p90": "p90", "p99": "p99"},
    acceptance={
        "length": "decoding_stats > acceptance_length_percentiles > average",
        "rate": "decoding_stats > draft_acceptance_rate_percentiles > average",
    },
    scale={"duration_s": 1e-3},
    notes=("concurrency is the mean of the run, not the limit of the client",),
    needs="output_tok_s",
    finish=_trtllm_finish,
)  # fmt: skip
LAYOUTS = (LLM_D, INFERENCE_PERF, INFERENCE_X, TRTLLM)
