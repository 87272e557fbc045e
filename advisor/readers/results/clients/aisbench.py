"""AISBench in its mode `perf`: the two tables that it prints, the CSV and JSON beside them, and
`--spec-decode`'s counters, printed or saved.

Values carry their unit ("10.7 ms"). The CSV has the latencies without the load, the JSON the load
without the latencies; the printed tables have both. "OutputTokenThroughput" is of one request with
its wait for the first token, "Output Token Throughput" is of the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import FileLayout, number_at, part_at
from advisor.readers.results.run import Acceptance, BenchmarkRun, per_request
from advisor.readers.results.tables import box_rows, has_table, table_cells

FORMAT = "aisbench"
_EACH, _WHOLE = "Performance Parameters", "Common Metric"
_COLUMNS = {_EACH, "Stage", "Average"}
_KEYS = {"Benchmark Duration", "Output Token Throughput", "Success Requests"}
_SPEC = re.compile(r"^=+ Speculative Decoding Metrics +\[", re.M)
_SPEC_LINE = re.compile(
    r"^(Acceptance rate \(%\)|Acceptance length|Drafts|Draft tokens|Accepted tokens)[ \t]+"
    r"([0-9.]+)[ \t]*$",
    re.M,
)
_SPEC_POSITIONS = re.compile(r"^Per-position acceptance rates[ \t]+\{([^}\n]{0,2000})\}", re.M)
_VALUE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*(ms|s|token/s|req/s)?")
LAYOUT = FileLayout(  # a stage: "each" has statistics over its requests, "whole" its totals
    format="aisbench",
    client="AISBench",
    fields={
        "concurrency": "whole > max concurrency",
        "requests": ("whole > success requests", "each > e2el > n"),
        "failed": "whole > failed requests",
        "input_tokens": "each > inputtokens > average",
        "output_tokens": "each > outputtokens > average",
        "duration_s": "whole > benchmark duration",
        "output_tok_s": "whole > output token throughput",
    },
    times={
        "ttft_ms": "each > ttft > {}", "tpot_ms": "each > tpot > {}", "itl_ms": "each > itl > {}",
        "e2e_ms": "each > e2el > {}",
    },
    words={"mean": "average", "p50": ("median", "p50"), "p90": "p90", "p99": "p99"},
    scale={"duration_s": 1e-3},
)  # fmt: skip
_TOTALS = {
    "input_tokens": ("whole > total input tokens",),
    "output_tokens": ("whole > total generated tokens", "whole > total output tokens"),
}
Stage = dict[str, dict[str, Any]]


def matches(doc: Document) -> bool:
    """Whether the document is output of AISBench."""
    if doc.values:
        return _is_whole(doc.object) or _is_spec(doc.object)
    text = doc.text
    printed = _EACH in text and "│" in text
    return printed or has_table(text, _COLUMNS) or _SPEC.search(text) is not None


def _is_whole(row: Mapping[str, Any]) -> bool:
    return row.keys() >= _KEYS and all(isinstance(row[name], dict) for name in _KEYS)


def _is_spec(row: Mapping[str, Any]) -> bool:
    data = row.get("data")
    return "status" in row and isinstance(data, dict) and "num_drafts" in data


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per stage, or what was drafted. Raises Unreadable where no number is there."""
    if _is_spec(doc.object):
        return [_drafts(doc, _acceptance(doc.object["data"]))]
    stages: dict[str, Stage] = {}
    for metric, cells in doc.object.items():
        for stage, cell in cells.items() if isinstance(cells, dict) else ():
            _put(stages, str(stage), "whole", metric, cell)
    if has_table(doc.text, _COLUMNS) and not doc.values:
        header, *rows = table_cells(doc.text, _COLUMNS)
        _put_rows(stages, header, rows)
    elif not doc.values:
        _put_tables(stages, doc.text)
    printed = _SPEC.search(doc.text) is not None and not doc.values
    accepted = _drafts_of_console(doc.text) if printed else None
    if not stages and printed:
        return [_drafts(doc, accepted)]
    runs = [_run(doc, name if len(stages) > 1 else "", one) for name, one in stages.items()]
    if not any(run.output_tok_s or run.tpot_ms or run.e2e_ms for run in runs):
        raise Unreadable(f"{doc.name}: {FORMAT}: no throughput or latency is stated; cut off?")
    return [run.model_copy(update={"acceptance": accepted}) for run in runs]


def _put(stages: dict[str, Stage], stage: str, part: str, metric: str, cell: Any) -> None:
    """A total, or with a statistic a metric's dictionary, by its name in lower case."""
    value = _number(cell) if part == "whole" else cell
    if value is not None and value != {}:
        stages.setdefault(stage.strip(), {}).setdefault(part, {})[metric.strip().lower()] = value


def _put_rows(stages: dict[str, Stage], header: list[str], rows: Iterable[list[str]]) -> None:
    names = [cell.strip().lower() for cell in header[2:]]
    for row in rows:
        if len(row) < 3:
            continue
        cells = zip(names, row[2:], strict=False)
        numbers = {name: number for name, cell in cells if (number := _number(cell)) is not None}
        _put(stages, row[1], "each", row[0], numbers)


def _put_tables(stages: dict[str, Stage], text: str) -> None:
    """The two printed tables; a header that is repeated on the next page is passed over."""
    each: list[list[str]] = []
    whole: list[list[str]] = []
    table = ""
    for row in box_rows(text):
        if row[0] in (_EACH, _WHOLE):
            table = row[0]
            each += [row] if table == _EACH and not each else []
        elif table == _EACH and each and len(row) == len(each[0]):
            each.append(row)
        elif table == _WHOLE and len(row) == 3:
            whole.append(row)
    if each:
        _put_rows(stages, each[0], each[1:])
    for metric, stage, cell in whole:
        _put(stages, stage, "whole", metric, cell)


def _number(cell: Any) -> float | None:
    """A value with its unit, times in ms; None where it is none."""
    value = _VALUE.fullmatch(str(cell).strip()) if not isinstance(cell, bool) else None
    return float(value[1]) * (1e3 if value[2] == "s" else 1.0) if value else None


def _drafts_of_console(text: str) -> Acceptance | None:
    """The counters below the title, under the names of the JSON."""
    start = next(match.start() for match in _SPEC.finditer(text))
    lines = {name.lower().replace(" ", "_"): n for name, n in _SPEC_LINE.findall(text, start)}
    positions = _SPEC_POSITIONS.search(text, start)
    rates = re.findall(r"(\d+): ([0-9.]+)", positions[1]) if positions else []
    names = {"num_drafts": lines.get("drafts"), "per_position_acceptance_rates": dict(rates)}
    return _acceptance(lines | names)


def _acceptance(row: Mapping[str, Any]) -> Acceptance | None:
    drafts, drafted, accepted = (
        number_at(row, name) for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    rates = part_at(row, "per_position_acceptance_rates")
    ordered = sorted(rates, key=lambda name: (len(name), name))
    counts = [(number_at(rates, name) or 0.0) * (drafts or 0.0) for name in ordered]
    return Acceptance.from_counts(drafts, drafted, accepted, counts)


def _drafts(doc: Document, accepted: Acceptance | None) -> BenchmarkRun:
    if accepted is None:
        raise Unreadable(f"{doc.name}: {FORMAT}: nothing was drafted while it counted")
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="counters", sha256=doc.sha256, client="AISBench",
        engine="vllm", k=len(accepted.by_position) or None, acceptance=accepted,
    )  # fmt: skip


def _run(doc: Document, part: str, stage: Stage) -> BenchmarkRun:
    run = LAYOUT.run(doc, stage, part)
    update: dict[str, Any] = {}
    done = number_at(stage, "whole > success requests")
    if done and run.input_tokens is None:
        update = {name: per_request(number_at(stage, at), done) for name, at in _TOTALS.items()}
    if not stage.get("whole"):
        update["notes"] = ("the CSV states no load: give the printed tables for it",)
    return run.model_copy(update=update)
