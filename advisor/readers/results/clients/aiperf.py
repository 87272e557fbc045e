"""AIPerf (`profile_export_aiperf.json`, .csv) and its predecessor GenAI-Perf
(`profile_export_genai_perf.json`, .csv), and the table "LLM Metrics" that both print.

Each metric is an object with its unit. `inter_token_latency` is per token after the first (our
TPOT); `inter_chunk_latency` is the time between stream chunks. Lengths of acceptance are there
where the server reports them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from advisor.readers.results import exposition
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import (
    FileLayout,
    Row,
    in_our_unit,
    list_at,
    part_at,
    parts_of,
    plain_number,
    text_at,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun
from advisor.readers.results.tables import box_rows, has_table, table_cells

FORMAT = "aiperf"
LAYOUT = FileLayout(
    format=FORMAT,
    client="aiperf",
    fields={
        "client_version": "aiperf_version",
        "requests": "request_count > avg",
        "failed": "error_request_count > avg",
        "duration_s": "benchmark_duration > avg",
        "input_tokens": "input_sequence_length > avg",
        "output_tokens": "output_sequence_length > avg",
        "output_tok_s": "output_token_throughput > avg",
        "request_tok_s": "output_token_throughput_per_user > avg",
    },
    times={
        "ttft_ms": "time_to_first_token > {}",
        "tpot_ms": "inter_token_latency > {}",
        "itl_ms": "inter_chunk_latency > {}",
        "e2e_ms": "request_latency > {}",
    },
    words={"mean": "avg", "p50": "p50", "p90": "p90", "p99": "p99", "sd": "std"},
    acceptance={
        "length": "spec_decode_acceptance_length > avg",
        "rate": "spec_decode_overall_draft_acceptance_rate > avg",
    },
    scale={"duration_s": 1e-3},
)
_CSV_HEAD = {"Metric", "avg", "p50"}
_OPTION = re.compile(
    r"(?:^|\s)--?(model|m|concurrency|request-rate|random-seed)[= ]['\"]?([^\s'\"]+)"
)
_BELOW = re.compile(r"^[ \t]*Output token throughput \(per sec\):[ \t]+([0-9][0-9.,]*)", re.M)
_OLD_NAMES = {  # until 24.07, without a unit
    "num_output_token": "output_sequence_length",
    "num_input_token": "input_sequence_length",
}
_NAME = re.compile(r"^([A-Za-z][A-Za-z0-9 ]+?)( Per (?:User|Request))?\s*\(([^)]*)\)$")
_RATE = "spec_decode_overall_draft_acceptance_rate"


def matches(doc: Document) -> bool:
    """Whether the document is an export of AIPerf or GenAI-Perf."""
    row = doc.object
    if row:
        speed = row.get("output_token_throughput")
        export = isinstance(speed, dict) and "unit" in speed and "request_latency" in row
        return export or _is_server_metrics(row)
    listed = "Output Token Throughput" in doc.text and has_table(doc.text, _CSV_HEAD)
    return not doc.values and (listed or bool(_tables(doc.text)))


def _is_server_metrics(row: Row) -> bool:
    return "endpoints_configured" in part_at(row, "summary") and "metrics" in row


def read(doc: Document) -> list[BenchmarkRun]:
    """Return the run of the export, or those of the printed tables."""
    if _is_server_metrics(doc.object):
        return [_server_metrics(doc)]
    if doc.object:
        config = part_at(doc.object, "input_config")
        genai = "aiperf_version" not in doc.object and _find(config, ("service_kind",))
        return [_run(doc, doc.object, config, bool(genai))]
    if rows := _tables(doc.text):
        options, old = _options(doc.text), "NVIDIA GenAI-Perf" in doc.text
        return [_run(doc, row, options, old, part) for part, row in parts_of(rows, "table")]
    old = not has_table(doc.text, {*_CSV_HEAD, "std"})
    return [_run(doc, _metrics(table_cells(doc.text, _CSV_HEAD)), {}, old)]


def _tables(text: str) -> list[dict[str, Any]]:
    """The metrics of each printed table that has a speed or a latency; tables of further metrics
    belong to the one before them.
    """
    tables: list[dict[str, Any]] = []
    columns: list[str] = []
    for row in box_rows(text) if "│" in text or "┃" in text else ():
        cells = ["N/A" if cell.endswith("…") else cell for cell in row]  # a console too narrow
        if cells[0] in ("Metric", "Statistic"):
            columns = ["Metric", *cells[1:]]
            continue
        if len(cells) != len(columns):
            columns = []
        # rows without their header: the mean comes first
        head = columns or (["Metric", "avg"] if _NAME.match(cells[0]) else [])
        for name, metric in (_metrics([head, cells]) if head else {}).items():
            if not tables or name in tables[-1]:
                tables.append({})
            tables[-1][name] = metric
    if len(tables) == 1 and (below := _BELOW.search(text)):  # of GenAI-Perf until 24.07
        tables[0].setdefault("output_token_throughput", {"avg": below[1].replace(",", "")})
    wanted = {"output_token_throughput", "inter_token_latency", "request_latency"}
    return [table for table in tables if wanted & table.keys()]


def _metrics(lines: list[list[str]]) -> dict[str, Any]:
    """The rows of a table as the JSON's objects: several tables under each other, with a unit in
    each name.
    """
    metrics: dict[str, Any] = {}
    columns: list[str] = []
    for cells in lines:
        if cells and cells[0] == "Metric":
            columns = [cell.strip().lower() for cell in cells[1:]]
            continue
        if len(cells) < 2 or not columns:
            continue
        match = _NAME.match(cells[0].strip())
        name, unit = (match[1], match[3]) if match else (cells[0], "")
        values = dict(zip(columns, cells[1:], strict=False))
        if "value" in values:
            values = {"avg": values["value"]}
        key = name.strip().lower().replace(" ", "_")
        key += "_per_user" if match and match[2] == " Per User" else ""
        numbers = {
            k: v.replace(",", "") if (n := plain_number(v)) is None else n
            for k, v in values.items()
        }
        metrics.setdefault(_OLD_NAMES.get(key, key), {"unit": unit, **numbers})
    return metrics


def _options(text: str) -> dict[str, Any]:
    """What the printed command line asked for, under the names of the export."""
    options = dict(_OPTION.findall(text[-20_000:]))
    number = {name: plain_number(value) for name, value in options.items()}
    seed = number.get("random-seed")
    return {
        "concurrency": number.get("concurrency"), "request_rate": number.get("request-rate"),
        "random_seed": None if seed is None else round(seed),
        "model": options.get("model") or options.get("m"),
    }  # fmt: skip


def _run(doc: Document, row: Row, config: Row, old: bool, part: str = "") -> BenchmarkRun:
    rate, seed = _find(config, ("request_rate",)), _find(config, ("random_seed", "seed"))
    metrics = {
        name: in_our_unit(value, "unit") if isinstance(value, dict) else value
        for name, value in row.items()
    }
    run = LAYOUT.run(
        doc, metrics, part,
        model=_model(config),
        seed=seed if isinstance(seed, int) else None,
        concurrency=_find(config, ("concurrency",), numbers=True),  # not a range to sweep
        request_rate=rate if isinstance(rate, float) else None,
    )  # fmt: skip
    drafted = run.acceptance is not None and run.acceptance.length is not None
    return run.model_copy(
        update={
            "client": "genai-perf" if old else "aiperf",
            "acceptance": run.acceptance if drafted else None,
        }
    )


def _server_metrics(doc: Document) -> BenchmarkRun:
    """AIPerf's `server_metrics_export.json`: the server's counters over the measured phase."""
    lines = [
        f'{name}{{position="{position}"}} {total}'
        for name, metric in part_at(doc.object, "metrics").items()
        for total, position in _series(metric)
    ]
    counters = exposition.scrape("\n".join(lines), doc.name)
    drafts, drafted, accepted = (
        counters.counters.get(name) for name in ("drafts", "draft_tokens", "accepted")
    )
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="counters", part="server metrics", sha256=doc.sha256,
        client="aiperf", client_version=text_at(doc.object, "aiperf_version"),
        engine=counters.engine, k=len(counters.positions) or None,
        acceptance=Acceptance.from_counts(drafts, drafted, accepted, counters.positions),
    )  # fmt: skip


def _series(metric: Any) -> Iterator[tuple[float, int]]:
    """The totals of a counter, each with its draft position. Raises Unreadable."""
    for row in list_at(metric, "series"):
        total, position = _find(row, ("total",), 2), str(_find(row, ("position",), 2) or 0)
        if isinstance(total, int | float):
            if not position.isdecimal() or len(position) > 4:
                raise Unreadable("a draft position is not a whole number")
            yield total, int(position)


def _find(config: Any, names: tuple[str, ...], depth: int = 6, numbers: bool = False) -> Any:
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


def _model(config: Row) -> str | None:
    """The first model's name: a list of names (0.2), a list of items with names (0.13), or one
    name.
    """
    items = _find(config.get("models"), ("items",), 2)
    first = items[0] if isinstance(items, list) and items else None
    names = first.get("name") if isinstance(first, dict) else first
    names = names or _find(config, ("model_names", "model_name", "model"))
    name = names[0] if isinstance(names, list) and names else names
    return name if isinstance(name, str) else None
