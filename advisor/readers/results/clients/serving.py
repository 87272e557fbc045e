"""`vllm bench serve --save-result`, its rows of CSV as `vllm bench sweep` writes them, and
`sglang.benchmark.serving --output-file`. vLLM's file states neither engine nor hardware, and
without acceptance it may be a run without speculation or a server without /metrics.
"""

import json
from dataclasses import replace
from typing import Any

from advisor.engines.sglang import METHODS
from advisor.readers.results.document import Document
from advisor.readers.results.fields import (
    FileLayout,
    Row,
    floats_at,
    list_at,
    number_at,
    part_at,
    text_at,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun, EngineName, Latency, spread_of
from advisor.readers.results.tables import has_table, table_records

FORMAT = "serving-table"
ENGINES: dict[str, EngineName] = {"sglang": "sglang", "vllm": "vllm"}
_COMPATIBLE = ("vllm", "vllm-chat", "openai", "openai-chat", None)
_COLUMNS = {"completed", "duration", "request_throughput", "output_throughput", "mean_ttft_ms"}
_SWEPT = ("speculative_config", "speculative-config")  # columns of a sweep over servers
_LISTS = {  # a table holds them as text
    "input_lens", "output_lens", "ttfts", "itls", "latencies", "errors", "generated_texts",
    "spec_decode_per_position_acceptance_rates",
}  # fmt: skip


def _values(row: Row) -> dict[str, list[float]]:
    """The times of each request, ms, which are saved in seconds."""
    gaps = [floats_at({"itls": gaps}, "itls", 1e3) for gaps in list_at(row, "itls", list)]
    pairs = zip(gaps, floats_at(row, "output_lens"), strict=False)
    return {
        "ttft_ms": floats_at(row, "ttfts", 1e3),
        "tpot_ms": [sum(each) / (count - 1) for each, count in pairs if count > 1 and each],
        "e2e_ms": floats_at(row, "latencies", 1e3),
    }


def _swept(row: Row) -> dict[str, Any]:
    """Method and k of a sweep's setting, "none" where it left speculation out."""
    name = next((name for name in _SWEPT if name in row), None)
    if name is None:
        return {}
    try:
        config = json.loads(row[name]) if isinstance(row[name], str) and row[name] else row[name]
    except (ValueError, RecursionError):
        return {}
    if not config:
        return {"k": 0, "method": "none"}
    k = config.get("num_speculative_tokens") if isinstance(config, dict) else None
    word = config.get("method") if isinstance(config, dict) else None
    return {
        "k": k if isinstance(k, int) and 0 < k <= 128 else None,
        "method": word if isinstance(word, str) else None,
    }


def _vllm_finish(run: BenchmarkRun, row: Row) -> Row:
    values = _values(row)
    backend = text_at(row, ("backend", "endpoint_type"))
    is_vllm = backend == "vllm" or (run.acceptance is not None and backend in _COMPATIBLE)
    positions = len(run.acceptance.by_position) if run.acceptance else 0
    swept = _swept(row)
    # statistics that were not asked for follow from the requests
    times = {
        name: measured.model_copy(update=time.model_dump(exclude_none=True))
        for name in values
        if (measured := Latency.of(values[name])) and (time := getattr(run, name))
    }
    return {
        "engine": "vllm" if is_vllm else None,
        "k": run.k if run.k is not None else positions or swept.get("k"),
        "method": run.method or swept.get("method"),
        "output_spread": spread_of(floats_at(row, "output_lens")),
        **times,
    }


def _sglang_finish(run: BenchmarkRun, row: Row) -> Row:
    backend = text_at(row, "backend") or ""
    engine = next((name for word, name in ENGINES.items() if backend.startswith(word)), None)
    # exactly 1 without draft steps: a server that does not speculate
    info, length = part_at(row, "server_info"), number_at(row, "accept_length")
    steps, word = number_at(info, "speculative_num_steps"), info.get("speculative_algorithm", "")
    drafted = length is not None and (length > 1 or (length == 1 and bool(steps)))
    update: dict[str, Any] = {
        "part": run.part or text_at(row, "tag") or "", "engine": engine,
        "engine_version": text_at(info, "version") if engine == "sglang" else None,
        # a server without an algorithm says null
        "method": "none" if word is None else METHODS.get(str(word).upper(), run.method),
        "output_spread": spread_of(floats_at(row, "output_lens")),
        "acceptance": Acceptance(length=length) if drafted else None,
        "notes": ("inter-token latency is per token, not per chunk",),
    }  # fmt: skip
    if row.get("mean_ttft_ms") == 0:
        update |= dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms"))
        update["notes"] = ("the answers did not stream: no TTFT, TPOT and ITL",)
    return update


# the file's names, then the labels that are printed
VLLM = FileLayout(
    format="vllm-bench-serve",
    client="vllm bench serve",
    loads=lambda row: [row] if "tokenizer_id" in row or "endpoint_type" in row else [],
    marks=("completed", "duration", "request_throughput", "output_throughput"),
    lacks=("total_throughput",),
    fields={
        "date": "date",
        "engine_version": ("engine_version", "vllm_version", "version"),
        "model": ("model_id", "server_info > model_path", "model"),
        "hardware": ("hardware", "gpu", "hw"),
        "method": ("method", "spec_method"),
        "k": ("k", "num_speculative_tokens", "spec_tokens", "server_info > speculative_num_steps"),
        "seed": "seed",
        "dataset": "dataset_name",
        "concurrency": (
            "max_concurrency", "maximum request concurrency", "max request concurrency",
            "max reqeuest concurrency",  # as SGLang 0.4 writes it
        ),
        "goodput_rps": ("request_goodput", "request_goodput:"),
        "request_rate": ("request_rate", "request rate configured (rps)", "traffic request rate"),
        "requests": ("completed", "successful requests"),
        "failed": ("failed", "failed requests"),
        "duration_s": ("duration", "benchmark duration (s)"),
        "output_tok_s": ("output_throughput", "output token throughput (tok/s)"),
    },
    totals={
        "input_tokens": ("total_input_tokens", "total input tokens"),
        "output_tokens": ("total_output_tokens", "total generated tokens"),
    },
    times={
        "ttft_ms": ("{}_ttft_ms", "{} ttft (ms)"),
        "tpot_ms": ("{}_tpot_ms", "{} tpot (ms)"),
        "itl_ms": ("{}_itl_ms", "{} itl (ms)"),
        "e2e_ms": (
            "{}_e2el_ms", "{}_e2e_latency_ms", "{} e2el (ms)", "{} e2e latency (ms)",
        ),
    },
    words={"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99", "sd": "std"},
    acceptance={
        "length": ("spec_decode_acceptance_length", "acceptance length", "accept length"),
        "rate": ("spec_decode_acceptance_rate", "acceptance rate (%)"),
        "by_position": "spec_decode_per_position_acceptance_rates",
        "drafts": ("spec_decode_num_drafts", "drafts"),
        "draft_tokens": ("spec_decode_draft_tokens", "draft tokens"),
        "accepted_tokens": ("spec_decode_accepted_tokens", "accepted tokens"),
    },
    scale={"rate": 0.01},
    each=_values,
    finish=_vllm_finish,
)  # fmt: skip
SGLANG = replace(
    VLLM,
    format="sglang-bench-serving",
    client="sglang.benchmark.serving",
    # the second since 2025; vLLM's of 2024 has it too
    loads=lambda row: [row] if {"total_throughput", "input_throughput"} & row.keys() else [],
    marks=("backend", "completed", "duration", "output_throughput"),
    lacks=("tokenizer_id",),
    acceptance={},
    finish=_sglang_finish,
)
LAYOUTS = (VLLM, SGLANG)


def matches(doc: Document) -> bool:
    """Whether the text is a table of vLLM's results."""
    return not doc.values and has_table(doc.text, _COLUMNS)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per row."""
    rows = (
        {n: v for n, v in row.items() if (v or n in _SWEPT) and n not in _LISTS}
        for row in table_records(doc.text, _COLUMNS)
        if row.get("completed")  # not what a page has below the table
    )
    return VLLM.runs(doc, rows, "row")
