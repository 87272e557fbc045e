"""The JSON of AIPerf and of GenAI-Perf; its `inter_token_latency` is our TPOT."""

from typing import Any

from advisor.readers.results.fields import FileLayout, Row, in_our_unit, part_at
from advisor.readers.results.run import BenchmarkRun


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
LAYOUTS = (AIPERF,)
