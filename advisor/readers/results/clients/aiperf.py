"""AIPerf (`profile_export_aiperf.json`, .csv) and its predecessor GenAI-Perf
(`profile_export_genai_perf.json`, .csv), and the table "LLM Metrics" that both print.

Each metric is an object with its unit. `inter_token_latency` is per token after the first (our
TPOT); `inter_chunk_latency` is the time between stream chunks. Lengths of acceptance are there
where the server reports them.
"""

from __future__ import annotations

import re
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import Acceptance, BenchmarkRun, Foreign, Latency, Number
from advisor.readers.results.tables import box_rows, has_table, table_cells

FORMAT = "aiperf"
_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
_WORDS = {"avg": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "std": "sd"}
_CSV_HEAD = {"Metric", "avg", "p50"}
_ASKED = re.compile(
    r"(?:^|\s)--?(model|m|concurrency|request-rate|random-seed)[= ]['\"]?([^\s'\"]+)"
)
_BELOW = re.compile(r"^[ \t]*Output token throughput \(per sec\):[ \t]+([0-9][0-9.,]*)", re.M)
_OLD_NAMES = {  # until 24.07, without a unit
    "num_output_token": "output_sequence_length",
    "num_input_token": "input_sequence_length",
}
_CSV_NAME = re.compile(r"^([A-Za-z][A-Za-z0-9 ]+?)(?: Per (?:User|Request))?\s*\(([^)]*)\)$")


class Metric(Foreign):
    """One metric with its unit."""

    unit: str = ""
    avg: Number = None
    p50: Number = None
    p90: Number = None
    p99: Number = None
    std: Number = None


class Export(Foreign):
    """The metrics that are read; each may be missing."""

    aiperf_version: str | None = None
    request_count: Metric | None = None
    error_request_count: Metric | None = None
    benchmark_duration: Metric | None = None
    output_token_throughput: Metric | None = None
    output_token_throughput_per_user: Metric | None = None
    time_to_first_token: Metric | None = None
    inter_token_latency: Metric | None = None
    inter_chunk_latency: Metric | None = None
    request_latency: Metric | None = None
    input_sequence_length: Metric | None = None
    output_sequence_length: Metric | None = None
    spec_decode_acceptance_length: Metric | None = None
    spec_decode_overall_draft_acceptance_rate: Metric | None = None


def matches(doc: Document) -> bool:
    """Whether the document is an export of AIPerf or GenAI-Perf."""
    one = doc.object
    if _is_server_metrics(one):
        return True
    if one:
        throughput = one.get("output_token_throughput")
        return isinstance(throughput, dict) and "unit" in throughput and "request_latency" in one
    listed = "Output Token Throughput" in doc.text and has_table(doc.text, _CSV_HEAD)
    return not doc.values and (listed or bool(_metrics_of(doc.text)))


def _is_server_metrics(one: dict[str, Any]) -> bool:
    summary = one.get("summary")
    return isinstance(summary, dict) and "endpoints_configured" in summary and "metrics" in one


def read(doc: Document) -> list[BenchmarkRun]:
    """Return the run of the export, or those of the printed tables."""
    if _is_server_metrics(doc.object):
        return [_server_metrics(doc)]
    found = [] if doc.object else _metrics_of(doc.text)
    if found:
        old, asked = "NVIDIA GenAI-Perf" in doc.text, _options(doc.text)
        runs = [_run(doc, row, old, asked) for row in found]
        if len(runs) == 1:
            return runs
        return [r.model_copy(update={"part": f"table {i}"}) for i, r in enumerate(runs, 1)]
    old = not doc.object and not has_table(doc.text, {*_CSV_HEAD, "std"})
    return [_run(doc, doc.object or _table(table_cells(doc.text, _CSV_HEAD)), old, {})]


def _metrics_of(text: str) -> list[dict[str, Any]]:
    """The metrics of each printed table that has a speed or a latency; tables of further metrics
    belong to the one before them.
    """
    out: list[dict[str, Any]] = []
    columns: list[str] = []
    if "│" not in text and "┃" not in text:
        return []
    for row in box_rows(text):
        cells = ["N/A" if cell.endswith("…") else cell for cell in row]  # a console too narrow
        if cells[0] in ("Metric", "Statistic"):
            columns = ["Metric", *cells[1:]]
            continue
        if columns and len(cells) != len(columns):
            columns = []
        # rows without their header: the mean comes first
        head = columns or (["Metric", "avg"] if _CSV_NAME.match(cells[0]) else [])
        for name, metric in (_table([head, cells]) if head else {}).items():
            if not out or name in out[-1]:
                out.append({})
            out[-1][name] = metric
    if len(out) == 1 and (below := _BELOW.search(text)):  # of GenAI-Perf until 24.07
        speed = {"unit": "tokens/sec", "avg": below[1].replace(",", "")}
        out[0].setdefault("output_token_throughput", speed)
    wanted = ("output_token_throughput", "inter_token_latency", "request_latency")
    return [found for found in out if any(name in found for name in wanted)]


def _options(text: str) -> dict[str, Any]:
    """What the printed command line asked for."""
    found = dict(_ASKED.findall(text[-20_000:]))
    number = {k: float(v) for k, v in found.items() if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", v)}
    model = found.get("model") or found.get("m")
    return {
        "concurrency": number.get("concurrency"),
        "request_rate": number.get("request-rate"),
        "random_seed": round(number["random-seed"]) if "random-seed" in number else None,
        "model": model,
    }


def _run(doc: Document, row: dict[str, Any], old: bool, asked: dict[str, Any]) -> BenchmarkRun:
    made = Export.model_validate(row)
    raw = row.get("input_config")
    config: dict[str, Any] = raw if isinstance(raw, dict) else asked
    genai = made.aiperf_version is None and "aiperf_version" not in row
    model = _model(config)
    seed = _find(config, ("random_seed", "seed"))
    rate = _find(config, ("request_rate",))
    done, failed = _value(made.request_count), _value(made.error_request_count)
    return BenchmarkRun(
        file=doc.name,
        format=FORMAT,
        sha256=doc.sha256,
        client="genai-perf" if old or (genai and _find(config, ("service_kind",))) else "aiperf",
        client_version=made.aiperf_version,
        model=model,
        seed=seed if isinstance(seed, int) else None,
        concurrency=_concurrency(config),
        request_rate=rate if isinstance(rate, float) else None,
        requests=None if done is None else round(done),
        failed=None if failed is None else round(failed),
        duration_s=_ms(made.benchmark_duration, 1e-3),
        input_tokens=_value(made.input_sequence_length),
        output_tokens=_value(made.output_sequence_length),
        output_tok_s=_value(made.output_token_throughput),
        request_tok_s=_value(made.output_token_throughput_per_user),
        ttft_ms=_latency(made.time_to_first_token),
        tpot_ms=_latency(made.inter_token_latency),
        itl_ms=_latency(made.inter_chunk_latency),
        e2e_ms=_latency(made.request_latency),
        acceptance=_acceptance(made),
    )


def _table(lines: list[list[str]]) -> dict[str, Any]:
    """The rows of a table as the JSON's objects: several tables under each other, with a unit in
    each name.
    """
    rows: dict[str, Any] = {}
    columns: list[str] = []
    for cells in lines:
        if cells and cells[0] == "Metric":
            columns = [cell.strip() for cell in cells[1:]]
            continue
        found = _CSV_NAME.match(cells[0].strip()) if cells else None
        if len(cells) < 2 or not columns:
            continue
        name, unit = (found[1], found[2]) if found else (cells[0], "")
        values = dict(zip((c.lower() for c in columns), cells[1:], strict=False))
        if "value" in values:
            values = {"avg": values["value"]}
        per_user = "_per_user" if found and " Per User" in cells[0] else ""
        key = name.strip().lower().replace(" ", "_") + per_user
        key = _OLD_NAMES.get(key, key)
        rows.setdefault(key, {"unit": unit, **{k: v.replace(",", "") for k, v in values.items()}})
    return rows


def _server_metrics(doc: Document) -> BenchmarkRun:
    """AIPerf's `server_metrics_export.json`: the server's counters over the measured phase."""
    metrics = doc.object["metrics"]
    totals: dict[str, float] = {}
    at: dict[int, float] = {}
    engine: Any = None
    for name, metric in metrics.items() if isinstance(metrics, dict) else ():
        prefix, _, rest = str(name).partition(":")
        engine = engine or {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama-server"}.get(
            prefix
        )
        series = metric.get("series") if isinstance(metric, dict) else None
        for row in series if isinstance(series, list) else []:
            total = _find(row, ("total",), 2)
            if isinstance(total, int | float):
                key = rest.removesuffix("_total")
                totals[key] = totals.get(key, 0.0) + total
                if key.endswith("accepted_tokens_per_pos"):
                    position = str(_find(row, ("position",), 2) or 0)
                    if not position.isdecimal() or len(position) > 4:
                        raise Unreadable("a draft position is not a whole number")
                    at[int(position)] = at.get(int(position), 0.0) + total
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    drafts, drafted, accepted = (totals.get(f"spec_decode_{name}") for name in names)
    positions = [at.get(i, 0.0) for i in range(min(len(at), 64))]
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="counters", part="server metrics", sha256=doc.sha256,
        client="aiperf", client_version=str(doc.object.get("aiperf_version") or "") or None,
        engine=engine, k=len(positions) or None,
        acceptance=Acceptance.from_counts(drafts, drafted, accepted, positions),
    )  # fmt: skip


def _find(config: Any, names: tuple[str, ...], depth: int = 6, numbers: bool = False) -> Any:
    """The first value under one of the names, searched level by level; `numbers`: no other."""
    level = [config]
    for _ in range(depth):
        for value in level:
            for name in names:
                found = value.get(name) if isinstance(value, dict) else None
                number = isinstance(found, int | float) and not isinstance(found, bool)
                if found is not None and (number or not numbers):
                    return found
        below = [
            list(v.values()) if isinstance(v, dict) else v
            for v in level
            if isinstance(v, dict | list)
        ]
        level = [item for values in below for item in values]
    return None


def _model(config: dict[str, Any]) -> str | None:
    """The first model's name: a list of names (0.2), a list of items with names (0.13), or one
    name.
    """
    items = _find(config.get("models"), ("items",), 2)
    first = items[0] if isinstance(items, list) and items else None
    if isinstance(first, dict):
        first = first.get("name")
    names = first or _find(config, ("model_names", "model_name", "model"))
    found = names[0] if isinstance(names, list) and names else names
    return found if isinstance(found, str) else None


def _concurrency(config: dict[str, Any]) -> float | None:
    """The number under that name: a range that could be swept has the same name."""
    found = _find(config, ("concurrency",), numbers=True)
    return None if found is None else float(found)


def _value(metric: Metric | None) -> float | None:
    return metric.avg if metric else None


def _ms(metric: Metric | None, scale: float = 1.0) -> float | None:
    if metric is None or metric.avg is None:
        return None
    return metric.avg * _MS.get(metric.unit.lower(), 1.0) * scale


def _latency(metric: Metric | None) -> Latency | None:
    if metric is None:
        return None
    factor = _MS.get(metric.unit.lower(), 1.0)
    stated = {field: getattr(metric, word) for word, field in _WORDS.items()}
    return Latency.from_statistics(
        **{k: None if v is None else v * factor for k, v in stated.items()}
    )


def _acceptance(made: Export) -> Acceptance | None:
    length = _value(made.spec_decode_acceptance_length)
    rate = _value(made.spec_decode_overall_draft_acceptance_rate)
    metric = made.spec_decode_overall_draft_acceptance_rate
    percent = metric is not None and ("%" in metric.unit or "percent" in metric.unit.lower())
    if length is None or length < 1:
        return None
    return Acceptance(length=length, rate=None if rate is None else rate / 100 if percent else rate)
