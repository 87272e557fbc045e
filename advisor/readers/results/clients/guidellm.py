"""GuideLLM: `benchmarks.json` and `.yaml` (0.3 to 0.8), its benchmarks.csv (0.3 to 0.8), and the
tables that it prints ("Benchmarks Stats" of 0.2 and 0.3, and those of 0.4 to 0.8).

Its `time_per_output_token_ms` and printed `TPOT` are the whole latency over all tokens, the first
one's wait included; the time per token after the first, which others call TPOT, is its
`inter_token_latency_ms` or `ITL`. Tokens per stream iteration are no acceptance length: servers may
join steps. The printed tables are rounded; from 0.4 to 0.7 they hold medians of the latencies (no
means), and the output tokens per second are of all requests, unfinished ones too. The progress
panel above the tables is not read: its numbers are those of its last refresh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from advisor.domain.facts import AdvisorError
from advisor.domain.files import yaml_safely
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import (
    FileLayout,
    list_at,
    number_at,
    part_at,
    parts_of,
    plain_number,
)
from advisor.readers.results.run import BenchmarkRun, Latency
from advisor.readers.results.tables import Name, grid_tables, table_cells

FORMAT = "guidellm"
_STATISTICS = {"mean": "mean", "p50": "median", "sd": "std_dev", "p90": "percentiles > p90",
               "p99": "percentiles > p99"}  # fmt: skip
REPORT = FileLayout(
    format=FORMAT,
    client="guidellm",
    fields={
        "client_version": "report > metadata > guidellm_version",
        "model": (
            "config > backend > model", "report > args > backend > model", "worker > backend_model",
        ),
        "concurrency": "strategy > streams",
        "request_rate": "strategy > rate",
        "requests": ("metrics > request_totals > successful", "request_totals > successful"),
        "failed": ("metrics > request_totals > errored", "request_totals > errored"),
        "duration_s": "duration",
        "input_tokens": "metrics > prompt_token_count > successful > mean",
        "output_tokens": "metrics > output_token_count > successful > mean",
        "output_tok_s": "metrics > output_tokens_per_second > successful > mean",
    },
    times={
        "ttft_ms": "metrics > time_to_first_token_ms > successful > {}",
        "tpot_ms": "metrics > inter_token_latency_ms > successful > {}",
    },
    words=_STATISTICS,
    notes=("TPOT is GuideLLM's inter_token_latency_ms: per token after the first",),
)  # fmt: skip
# columns by their headers in lower case: printed by 0.4 to 0.8, by 0.2 and 0.3; CSV of 0.4 to 0.8,
# of 0.3
TABLE = FileLayout(
    format="guidellm-tables",
    client="guidellm",
    fields={
        "requests": (
            "requests comp tot", "requests made comp", "request counts successful",
            "successful requests",
        ),
        "failed": ("requests err tot", "requests made err", "request counts errored"),
        "duration_s": (
            "timings dur sec", "metadata duration (s)", "timings duration sec", "duration",
        ),
        "input_tokens": (
            "prompt tok/req comp", "input tok per req mdn",
            "token metrics successful input tokens mean", "successful prompt token count mean",
        ),
        "output_tokens": (
            "output tok/req comp", "output tok per req mdn",
            "token metrics successful output tokens mean", "successful output token count mean",
        ),
        "output_tok_s": (
            "output tokens per sec mean", "out tok/sec mean",
            "token throughput successful output tokens/sec mean",
            "successful output tokens per second mean",
        ),
    },
    times={
        "ttft_ms": (
            "ttft ms {}", "ttft (ms) {}", "time to first token successful ms {}",
            "successful time to first token ms {}",
        ),
        "tpot_ms": (
            "itl ms {}", "itl (ms) {}", "inter token latency successful ms {}",
            "successful inter token latency ms {}",
        ),
        "e2e_ms": (  # 0.2 heads seconds as milliseconds
            "request latency sec {}", "req latency (sec) {}", "req latency (ms) {}",
            "request latency successful sec {}", "successful request latency {}",
        ),
    },
    words={"mean": "mean", "p50": ("mdn", "median"), "p99": "p99", "sd": "std dev"},
    scale={"e2e_ms": 1e3},
)  # fmt: skip
_FLIGHT = (
    "requests concurrency mdn", "request stats concurrency",
    "server throughput successful concurrency median", "successful request concurrency median",
)  # fmt: skip
_YAML = re.compile(r"\s*(?:args|benchmarks|metadata|type_):\s")
_PANEL = re.compile(r"\bTok: +[0-9.]+ gen/s, .{0,40}\bTTFT,")
_RATE = re.compile(r"(constant|poisson|concurrent|synchronous)(?:@([0-9]+(?:\.[0-9]*)?))?$")
_CELL = re.compile(r"([0-9][0-9,]*(?:\.[0-9]*)?(?:e[+-]?\d+)?)\*?(?: ± [0-9.,]+\*?)?$")
_MODEL = re.compile(r"for model\s+(\S+?)\.?\s|validated with model (\S+)\s")
_JSON_MODEL = re.compile(r'"model": "([^"\n]{1,300})"')
_CSV = ({"Run Info", "Benchmark", "Request Latency"}, {"Type", "Name", "Successful Requests"})
_STRATEGY: tuple[Name, ...] = (("benchmark", "strategy"), ("metadata", "benchmark"), ("name",))
Row = dict[Name, str]


def matches(doc: Document) -> bool:
    """Whether the document is a report of GuideLLM, its tables or its progress panel."""
    if doc.values:
        return _is_report(doc.object)
    text = doc.text
    if _YAML.match(text) and "inter_token_latency_ms:" in text:
        return True
    if not ("|" in text or "│" in text or "Successful" in text):
        return False
    return any(_is_ours(rows) for rows in _tables(text)) or _PANEL.search(text) is not None


def _is_report(report: Any) -> bool:
    rows = report.get("benchmarks") if isinstance(report, dict) else None
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(isinstance(row, dict) and isinstance(row.get("metrics"), dict) for row in rows)
        and "inter_token_latency_ms" in rows[0]["metrics"]
    )


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per benchmark of the report. Raises Unreadable for a YAML that is broken or
    too large, and for tables without speeds.
    """
    if not doc.values and not _YAML.match(doc.text):
        return _of_tables(doc)
    report = doc.object if doc.values else _from_yaml(doc)
    return [
        _run(doc, row | {"report": report}, part)
        for part, row in parts_of(report["benchmarks"], "benchmark")
    ]


def _from_yaml(doc: Document) -> dict[str, Any]:
    try:
        report = yaml_safely(doc.text, doc.name)
    except AdvisorError as error:
        raise Unreadable(f"{error}; give GuideLLM's JSON or CSV") from None
    if not isinstance(report, dict) or not _is_report(report):
        raise Unreadable(f"{doc.name}: GuideLLM's YAML has no benchmarks with metrics")
    return report


def _run(doc: Document, row: dict[str, Any], part: str) -> BenchmarkRun:
    for name in ("output_tokens_per_second", "time_to_first_token_ms", "inter_token_latency_ms"):
        if not part_at(row, f"metrics > {name}"):
            raise Unreadable(f"{doc.name}: {FORMAT}: {name} is missing in a benchmark's metrics")
    row["strategy"] = part_at(row, "config > strategy", "scheduler > strategy", "args > strategy")
    requests = list_at(row, "requests > successful")

    def each(name: str, scale: float = 1.0) -> list[float]:
        return [v for one in requests if (v := number_at(one, name, scale)) is not None]

    values = {
        "ttft_ms": each("time_to_first_token_ms"), "tpot_ms": each("inter_token_latency_ms"),
    }  # fmt: skip
    whole = Latency.of(v for v in each("request_latency", 1e3) if v)
    return REPORT.run(doc, row, part, values, e2e_ms=whole)


def _is_ours(rows: list[Row]) -> bool:
    names = {" ".join(name) for name in rows[0]}
    wanted = {
        place.format(word)
        for place in TABLE.times["tpot_ms"]
        for word in ("mean", "mdn", "median", "p99", "std dev")
    }
    return _strategy(rows[0]) is not None and bool(names & {*TABLE.fields["output_tok_s"], *wanted})


def _of_tables(doc: Document) -> list[BenchmarkRun]:
    runs: list[BenchmarkRun] = []
    merged: list[Row] = []
    for rows in _tables(doc.text):
        if _strategy(rows[0]) is None:
            continue
        if merged and not _continues(merged, rows):
            runs += _runs(doc, merged)
            merged = []
        merged = merged or [{} for _ in rows]
        merged = [old | new for old, new in zip(merged, rows, strict=True)]
    runs += _runs(doc, merged)
    figures = {"part", "output_tok_s", *TABLE.times}
    # not every table of a load that is printed twice is printed again
    runs = list({run.model_dump_json(include=figures): run for run in runs[::-1]}.values())[::-1]
    if not runs:
        raise Unreadable(
            f"{doc.name}: GuideLLM's output without its tables of output tokens and latencies; "
            "was it cut off? Its benchmarks.json holds all of it"
        )
    return [
        run.model_copy(update={"part": part and f"{part} ({run.part})"})
        for part, run in parts_of(runs, "benchmark")
    ]


def _continues(merged: list[Row], rows: list[Row]) -> bool:
    """Whether a table is of the same loads: the same strategies, no other column twice."""
    same = [_strategy(row) for row in merged] == [_strategy(row) for row in rows]
    return same and not (merged[0].keys() & rows[0].keys()) - set(_STRATEGY)


def _strategy(row: Row) -> str | None:
    return next((row[name] for name in _STRATEGY if name in row), None)


def _tables(text: str) -> Iterator[list[Row]]:
    for needed in _CSV:
        if cells := table_cells(text, needed):
            above = 3 if "Run Info" in needed else 1
            columns = zip(*cells[:above], strict=False)
            names = [tuple(word.lower() for word in column if word) for column in columns]
            rows = [dict(zip(names, row, strict=False)) for row in cells[above:]]
            if rows:
                yield rows
            return
    yield from grid_tables(_whole_lines(text))


def _whole_lines(text: str) -> str:
    """The text with the tables of 0.2 and 0.3 as they were before a narrow console broke each line
    in as many as the border above it.
    """
    out: list[str] = []
    parts = border = 0
    for line in text.split("\n"):
        if re.fullmatch(r"={20,}\s*", line):
            border += 1
            broken: list[str] = []
            continue
        if border:
            parts, border = border, 0
        if parts < 2 or not line.strip():
            parts = 0
            out.append(line)
            continue
        broken.append(line.strip())
        if len(broken) == parts:
            out.append(" ".join(broken))
            broken = []
    return "\n".join(out)


def _runs(doc: Document, rows: list[Row]) -> list[BenchmarkRun]:
    runs = (_run_of_row(doc, row) for row in rows)
    return [run for run in runs if run.output_tok_s or run.tpot_ms]


def _run_of_row(doc: Document, cells: Row) -> BenchmarkRun:
    strategy = _strategy(cells) or ""
    load = _RATE.match(strategy)
    kind, rate = (load[1], load[2]) if load else ("", None)
    row: dict[str, Any] = {
        " ".join(name): plain_number(match[1])
        for name, cell in cells.items()
        if (match := _CELL.match(cell.strip()))
    }
    flight = number_at(row, _FLIGHT)
    streams = float(rate) if rate else flight and round(flight)
    run = TABLE.run(
        doc, row, strategy,
        model=_model(doc.text, cells),
        concurrency=1 if kind == "synchronous" else streams if kind == "concurrent" else None,
        request_rate=float(rate) if rate and kind in ("constant", "poisson") else None,
    )  # fmt: skip
    notes = ["TPOT is GuideLLM's ITL: per token after the first"]
    if run.tpot_ms and run.tpot_ms.mean is None:
        notes.append("latencies are medians; output tok/s counts unfinished requests too")
    if flight and kind not in ("synchronous", "concurrent"):
        notes.append(f"an open load: {flight:g} requests in flight")
    more = {
        "notes": tuple(notes),
        "requests": _requests(row) if run.requests is None else run.requests,
    }
    times = {name: getattr(run, name) for name in TABLE.times}
    empty = {name: None for name, time in times.items() if time and not (time.mean or time.p50)}
    return run.model_copy(update=more | empty)


def _model(text: str, row: Row) -> str | None:
    match = _JSON_MODEL.search(row.get(("run info", "backend"), ""))
    match = match or _MODEL.search(text[:20_000])
    return next((name for name in match.groups() if name), None) if match else None


def _requests(row: dict[str, Any]) -> int | None:
    """The finished requests: all tokens over those of one, where both kinds of tokens agree."""
    counts = []
    for name, each in (("input tokens", "input tok"), ("output tokens", "output tok")):
        total, mean = row.get(f"{name} comp tot"), row.get(f"{each} per req mdn")
        counts.append(total / mean if total and mean else 0.0)
    whole = round(counts[0])
    return whole if whole and all(abs(count - whole) < 0.01 for count in counts) else None
