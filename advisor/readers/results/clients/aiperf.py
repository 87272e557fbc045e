"""The JSON of AIPerf and of GenAI-Perf before it, and of AISBench in its mode `perf`.

Each metric of AIPerf is an object with its unit. `inter_token_latency` is per token after the first
(our TPOT); `inter_chunk_latency` is the time between stream chunks. AISBench's values carry their
unit ("10.7 ms"); its JSON has the load, its CSV the latencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from advisor.readers.results import exposition
from advisor.readers.results.document import Unreadable
from advisor.readers.results.fields import (
    FileLayout,
    Row,
    in_our_unit,
    list_at,
    number_at,
    part_at,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun


def find(config: Any, names: tuple[str, ...], numbers: bool = False, depth: int = 6) -> Any:
    """The first value under one of the names, searched level by level; `numbers`: no other."""
    level = [config]
    for _ in range(depth):
        for value in level:
            for name in names:
                item = value.get(name) if isinstance(value, dict) else None
                number = isinstance(item, int | float) and not isinstance(item, bool)
                if item is not None and (number or not numbers):
                    return item
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return None


def _aiperf_finish(run: BenchmarkRun, row: Row) -> Row:
    config = part_at(row, "input_config")
    rate, seed = find(config, ("request_rate",)), find(config, ("random_seed", "seed"))
    old = "aiperf_version" not in row and find(config, ("service_kind",))
    return {
        "client": "genai-perf" if old else "aiperf",
        "model": _aiperf_model(config),
        "seed": seed if isinstance(seed, int) else None,
        "concurrency": find(config, ("concurrency",), numbers=True),  # not a range to sweep
        "request_rate": rate if isinstance(rate, float) else None,
        "acceptance": run.acceptance if run.acceptance and run.acceptance.length else None,
    }


def _aiperf_model(config: Row) -> str | None:
    """The first model's name: a list of names (0.2), of items with names (0.13), or one name."""
    items = find(config.get("models"), ("items",), depth=2)
    first = items[0] if isinstance(items, list) and items else None
    names = first.get("name") if isinstance(first, dict) else first
    names = names or find(config, ("model_names", "model_name", "model"))
    name = names[0] if isinstance(names, list) and names else names
    return name if isinstance(name, str) else None


AIPERF = FileLayout(
    format="aiperf",
    client="aiperf",
    marks=("output_token_throughput > unit", "request_latency"),
    loads=lambda row: [
        {name: in_our_unit(v, "unit") if isinstance(v, dict) else v for name, v in row.items()}
    ],
    fields={
        "client_version": "aiperf_version", "requests": "request_count > avg",
        "failed": "error_request_count > avg", "duration_s": "benchmark_duration > avg",
        "input_tokens": "input_sequence_length > avg",
        "output_tokens": "output_sequence_length > avg",
        "output_tok_s": "output_token_throughput > avg",
        "request_tok_s": "output_token_throughput_per_user > avg",
    },
    times={
        "ttft_ms": "time_to_first_token > {}", "tpot_ms": "inter_token_latency > {}",
        "itl_ms": "inter_chunk_latency > {}", "e2e_ms": "request_latency > {}",
    },
    words={"mean": "avg", "sd": "std"} | {n: n for n in ("p50", "p90", "p99")},
    acceptance={
        "length": "spec_decode_acceptance_length > avg",
        "rate": "spec_decode_overall_draft_acceptance_rate > avg",
    },
    scale={"duration_s": 1e-3},
    finish=_aiperf_finish,
)  # fmt: skip


def _server_metrics(_: BenchmarkRun, row: Row) -> Row:
    lines = [
        f'{name}{{position="{position}"}} {total}'
        for name, metric in part_at(row, "metrics").items()
        for total, position in _series(metric)
    ]
    counters = exposition.scrape("\n".join(lines), "server metrics")
    drafts, drafted, accepted = (
        counters.counters.get(name) for name in ("drafts", "draft_tokens", "accepted")
    )
    return {
        "part": "server metrics", "engine": counters.engine, "k": len(counters.positions) or None,
        "acceptance": Acceptance.from_counts(drafts, drafted, accepted, counters.positions),
    }  # fmt: skip


def _series(metric: Any) -> Iterator[tuple[float, int]]:
    """The totals of a counter, each with its draft position. Raises Unreadable."""
    for row in list_at(metric, "series"):
        total = find(row, ("total",), depth=2)
        position = str(find(row, ("position",), depth=2) or 0)
        if isinstance(total, int | float):
            if not position.isdecimal() or len(position) > 4:
                raise Unreadable("a draft position is not a whole number")
            yield total, int(position)


SERVER_METRICS = FileLayout(  # server_metrics_export.json: counters over the measured phase
    format="aiperf",
    client="aiperf",
    kind="counters",
    marks=("summary > endpoints_configured", "metrics"),
    fields={"client_version": "aiperf_version"},
    finish=_server_metrics,
)
_VALUE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*(ms|s|token/s|req/s)?")
_AISBENCH_KEYS = {"Benchmark Duration", "Output Token Throughput", "Success Requests"}


def _aisbench_loads(row: Row) -> list[Row]:
    """The stages, each with its totals by name in lower case, times in ms."""
    stages: dict[str, dict[str, Any]] = {}
    whole = row.keys() >= _AISBENCH_KEYS and all(isinstance(row[k], dict) for k in _AISBENCH_KEYS)
    for metric, cells in row.items() if whole else ():
        for stage, cell in cells.items() if isinstance(cells, dict) else ():
            value = None if isinstance(cell, bool) else _VALUE.fullmatch(str(cell).strip())
            if value:
                number = float(value[1]) * (1e3 if value[2] == "s" else 1.0)
                stages.setdefault(str(stage), {"stage": stage})[metric.strip().lower()] = number
    return list(stages.values())


AISBENCH = FileLayout(  # the latencies stand in its CSV
    format="aisbench",
    client="AISBench",
    loads=_aisbench_loads,
    fields={
        "concurrency": "max concurrency", "requests": "success requests",
        "failed": "failed requests", "duration_s": "benchmark duration",
        "output_tok_s": "output token throughput",
    },
    totals={
        "input_tokens": "total input tokens",
        "output_tokens": ("total generated tokens", "total output tokens"),
    },
    scale={"duration_s": 1e-3},
    needs="output_tok_s",
    finish=lambda run, row: {"part": row["stage"] if run.part else ""},
)  # fmt: skip


def _aisbench_drafts(_: BenchmarkRun, row: Row) -> Row:
    data = part_at(row, "data")
    drafts, drafted, accepted = (
        number_at(data, name) for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    rates = part_at(data, "per_position_acceptance_rates")
    ordered = sorted(rates, key=lambda name: (len(name), name))
    counts = [(number_at(rates, name) or 0.0) * (drafts or 0.0) for name in ordered]
    acceptance = Acceptance.from_counts(drafts, drafted, accepted, counts)
    return {"acceptance": acceptance, "k": len(counts) or None}


AISBENCH_DRAFTS = FileLayout(  # of `--spec-decode`
    format="aisbench",
    client="AISBench",
    engine="vllm",
    kind="counters",
    marks=("status", "data > num_drafts"),
    fields={},
    needs="acceptance",
    finish=_aisbench_drafts,
)
LAYOUTS = (AIPERF, SERVER_METRICS, AISBENCH, AISBENCH_DRAFTS)
