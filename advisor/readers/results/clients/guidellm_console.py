"""The tables that GuideLLM prints ("Benchmarks Stats" of 0.2 and 0.3, and those of 0.4 to 0.8) and
its benchmarks.csv (0.3 to 0.8): one row a load.

The printed ones are rounded to one or two places. From 0.4 to 0.7 they hold medians of the
latencies (no means), and the output tokens per second are of all requests, unfinished ones too. The
first token's wait is in their `TPOT`; the time per token after the first is `ITL`. The progress
panel above the tables is not read: its numbers are those of its last refresh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import BenchmarkRun, Latency
from advisor.readers.results.tables import Name, grid_tables, table_cells

FORMAT = "guidellm-tables"
_PANEL = re.compile(r"\bTok: +[0-9.]+ gen/s, .{0,40}\bTTFT,")
_RATE = re.compile(r"(constant|poisson|concurrent|synchronous)(?:@([0-9]+(?:\.[0-9]*)?))?$")
_NUMBER = re.compile(r"([0-9][0-9,]*(?:\.[0-9]*)?(?:e[+-]?\d+)?)\*?(?: ± [0-9.,]+\*?)?$")
_MODEL = re.compile(r"for model\s+(\S+?)\.?\s|validated with model (\S+)\s")
_JSON_MODEL = re.compile(r'"model": "([^"\n]{1,300})"')
_CSV = ({"Run Info", "Benchmark", "Request Latency"}, {"Type", "Name", "Successful Requests"})
Row = dict[Name, str]

# columns by their headers in lower case: printed by 0.4 to 0.8, by 0.2 and 0.3; CSV of 0.4 to 0.8,
# of 0.3
_OUTPUT: tuple[Name, ...] = (
    ("output tokens", "per sec", "mean"),
    ("out tok/sec", "mean"),
    ("token throughput", "successful output tokens/sec", "mean"),
    ("successful output tokens per second mean",),
)
_LATENCIES: dict[str, tuple[Name, ...]] = {
    "ttft_ms": (
        ("ttft", "ms"),
        ("ttft (ms)",),
        ("time to first token", "successful ms"),
        ("successful time to first token ms",),
    ),
    "tpot_ms": (
        ("itl", "ms"),
        ("itl (ms)",),
        ("inter token latency", "successful ms"),
        ("successful inter token latency ms",),
    ),
    "e2e_ms": (  # 0.2 heads seconds as milliseconds
        ("request latency", "sec"),
        ("req latency (sec)",),
        ("req latency (ms)",),
        ("request latency", "successful sec"),
        ("successful request latency",),
    ),
}
_STATISTICS = {"mean": "mean", "mdn": "p50", "median": "p50", "p99": "p99", "std dev": "sd"}
_STRATEGY: tuple[Name, ...] = (
    ("benchmark", "strategy"), ("metadata", "benchmark"), ("name",),
)  # fmt: skip


def matches(doc: Document) -> bool:
    """Whether the text has the tables that GuideLLM prints, its progress panel or its CSV."""
    if doc.values or not ("|" in doc.text or "│" in doc.text or "Successful" in doc.text):
        return False
    return any(_is_ours(rows) for rows in _tables(doc.text)) or _PANEL.search(doc.text) is not None


def _is_ours(rows: list[Row]) -> bool:
    names = rows[0].keys()
    speeds = any(name in names for name in _OUTPUT)
    latencies = any(
        (*above, word) in names or (f"{above[0]} {word}",) in names
        for above in _LATENCIES["tpot_ms"]
        for word in _STATISTICS
    )
    return _strategy(rows[0]) is not None and (speeds or latencies)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per load. Raises Unreadable where the tables with speeds are missing."""
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
    kept = list({_figures(run): run for run in reversed(runs)}.values())[::-1]  # printed twice
    if not kept:
        raise Unreadable(
            f"{doc.name}: GuideLLM's output without its tables of output tokens and latencies; "
            "was it cut off? Its benchmarks.json holds all of it"
        )
    if len(kept) == 1:
        return [kept[0].model_copy(update={"part": ""})]
    return [
        run.model_copy(update={"part": f"benchmark {i} ({run.part})"})
        for i, run in enumerate(kept, 1)
    ]


def _figures(run: BenchmarkRun) -> str:
    """What two prints of one load share: not every table is printed again."""
    return run.model_dump_json(include={"part", "output_tok_s", *_LATENCIES})


def _continues(merged: list[Row], rows: list[Row]) -> bool:
    """Whether a table is of the same loads: the same strategies, no other column twice."""
    same = [_strategy(row) for row in merged] == [_strategy(row) for row in rows]
    return same and not (merged[0].keys() & rows[0].keys()) - set(_STRATEGY)


def _strategy(row: Row) -> str | None:
    return next((row[name] for name in _STRATEGY if name in row), None)


def _tables(text: str) -> Iterator[list[Row]]:
    for needed in _CSV:
        cells = table_cells(text, needed)
        if cells:
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
            held: list[str] = []
            continue
        if border:
            parts, border = border, 0
        if parts < 2 or not line.strip():
            parts = 0
            out.append(line)
            continue
        held.append(line.strip())
        if len(held) == parts:
            out.append(" ".join(held))
            held = []
    return "\n".join(out)


def _number(row: Row, *names: Name) -> float | None:
    for name in names:
        found = _NUMBER.match(row.get(name, "").strip())
        if found:
            return float(found[1].replace(",", ""))
    return None


def _runs(doc: Document, rows: list[Row]) -> list[BenchmarkRun]:
    made = (_run(doc, row) for row in rows)
    return [run for run in made if run.output_tok_s or run.tpot_ms]


def _run(doc: Document, row: Row) -> BenchmarkRun:
    strategy = _strategy(row) or ""
    found = _RATE.match(strategy)
    kind, rate = (found[1], found[2]) if found else ("", None)
    latencies = {field: _latency(row, above, field) for field, above in _LATENCIES.items()}
    flight = _number(
        row, ("requests", "concurrency", "mdn"), ("request stats", "concurrency"),
        ("server throughput", "successful concurrency", "median"),
        ("successful request concurrency median",),
    )  # fmt: skip
    streams = float(rate) if rate else flight and round(flight)
    return BenchmarkRun(
        file=doc.name, format=FORMAT, part=strategy, sha256=doc.sha256, client="guidellm",
        model=_model(doc.text, row),
        concurrency=1 if kind == "synchronous" else streams if kind == "concurrent" else None,
        request_rate=float(rate) if rate and kind in ("constant", "poisson") else None,
        requests=_requests(row),
        failed=_whole(
            _number(
                row, ("requests", "err", "tot"), ("requests made", "err"),
                ("request counts", "errored"),
            )
        ),
        duration_s=_number(
            row, ("timings", "dur", "sec"), ("metadata", "duration (s)"),
            ("timings", "duration", "sec"), ("duration",),
        ),
        input_tokens=_number(
            row, ("prompt tok/req", "comp"), ("input tok", "per req", "mdn"),
            ("token metrics", "successful input tokens", "mean"),
            ("successful prompt token count mean",),
        ),
        output_tokens=_number(
            row, ("output tok/req", "comp"), ("output tok", "per req", "mdn"),
            ("token metrics", "successful output tokens", "mean"),
            ("successful output token count mean",),
        ),
        output_tok_s=_number(row, *_OUTPUT),
        ttft_ms=latencies["ttft_ms"], tpot_ms=latencies["tpot_ms"], e2e_ms=latencies["e2e_ms"],
        notes=_notes(latencies["tpot_ms"], kind, flight),
    )  # fmt: skip


def _model(text: str, row: Row) -> str | None:
    told = _JSON_MODEL.search(row.get(("run info", "backend"), ""))
    if told:
        return told[1]
    found = _MODEL.search(text[:20_000])
    return (found[1] or found[2]) if found else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _notes(tpot: Latency | None, kind: str, flight: float | None) -> tuple[str, ...]:
    notes = ["TPOT is GuideLLM's ITL: per token after the first"]
    if tpot is not None and tpot.mean is None:
        notes.append("latencies are medians; output tok/s counts unfinished requests too")
    if flight and kind not in ("synchronous", "concurrent"):
        notes.append(f"an open load: {flight:g} requests in flight")
    return tuple(notes)


def _latency(row: Row, names: tuple[Name, ...], field: str) -> Latency | None:
    """A latency in ms; that of a request is in seconds."""
    scale = 1e3 if field == "e2e_ms" else 1.0
    found = {
        statistic: value * scale
        for above in names
        for word, statistic in _STATISTICS.items()
        if (value := _number(row, (*above, word), (f"{above[0]} {word}",))) is not None
    }
    return Latency.from_statistics(**found) if any(found.values()) else None


def _requests(row: Row) -> int | None:
    """The finished requests: as stated, else their tokens over those of one, where both kinds of
    tokens agree.
    """
    stated = _number(
        row,
        ("requests", "comp", "tot"),
        ("requests made", "comp"),
        ("request counts", "successful"),
        ("successful requests",),
    )
    if stated is not None:
        return round(stated)
    counts = []
    for name, each in (("input tokens", "input tok"), ("output tokens", "output tok")):
        total, one = _number(row, (name, "comp", "tot")), _number(row, (each, "per req", "mdn"))
        counts.append(total / one if total and one else 0.0)
    whole = round(counts[0])
    return whole if whole and all(abs(count - whole) < 0.01 for count in counts) else None
