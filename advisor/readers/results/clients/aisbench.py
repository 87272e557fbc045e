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
from advisor.readers.results.run import Acceptance, BenchmarkRun, Foreign, Latency, Number
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
_SCALES = {"s": 1e3}  # to ms; all else as it stands
_SHARES = {"average": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p99": "p99"}
Table = dict[str, dict[str, Number]]  # metric -> its statistics, names in lower case


class Stage(Foreign):
    """One stage of a run: statistics over its requests, and totals. Times in ms."""

    each: Table = {}
    whole: dict[str, Number] = {}

    def latency(self, name: str) -> Latency | None:
        """A time over the requests."""
        stated = self.each.get(name, {})
        return Latency.from_statistics(
            **{ours: stated[theirs] for theirs, ours in _SHARES.items() if theirs in stated}
        )

    def mean(self, name: str) -> float | None:
        """The mean of a count over the requests."""
        return self.each.get(name, {}).get("average")


class Counters(Foreign):
    """What `--spec-decode` saves under "data"."""

    num_drafts: Number = None
    draft_tokens: Number = None
    accepted_tokens: Number = None
    per_position_acceptance_rates: dict[str, Number] = {}


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
    return "status" in row and isinstance(data, dict | None) and "num_drafts" in (data or {})


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per stage, or what was drafted. Raises Unreadable where no number is there."""
    if doc.values:
        if _is_spec(doc.object):
            return [_drafts(doc, Counters.model_validate(doc.object["data"]))]
        rows = ((name, *cell) for name, found in doc.object.items() for cell in _cells(found))
        stages = _stages((), rows)
    elif has_table(doc.text, _COLUMNS):
        stages = _stages(table_cells(doc.text, _COLUMNS), ())
    else:
        stages = _stages_of_tables(doc.text)
    accepted = _drafts_of_console(doc.text) if not doc.values else None
    if not stages and accepted is not None:
        return [_drafts(doc, accepted)]
    runs = [_run(doc, name if len(stages) > 1 else "", one) for name, one in stages.items()]
    if not any(run.output_tok_s or run.tpot_ms or run.e2e_ms for run in runs):
        raise Unreadable(f"{doc.name}: {FORMAT}: no throughput or latency is stated; cut off?")
    if accepted is None:
        return runs
    return [run.model_copy(update={"acceptance": _acceptance(accepted)}) for run in runs]


def _cells(found: Any) -> list[tuple[str, Any]]:
    return list(found.items()) if isinstance(found, dict) else []


def _stages(each: Iterable[list[str]], whole: Iterable[tuple[str, str, Any]]) -> dict[str, Stage]:
    """Rows of both tables by their stage; the first row of `each` is its header."""
    of_each: dict[str, Table] = {}
    totals: Table = {}
    rows = list(each)
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    for row in rows[1:]:
        for name, cell in zip(header[2:], row[2:], strict=False):
            if (value := _number(cell)) is not None:
                metric = row[0].strip().lower()
                of_each.setdefault(row[1].strip(), {}).setdefault(metric, {})[name] = value
    for metric, stage, cell in whole:
        if (value := _number(cell)) is not None:
            totals.setdefault(str(stage).strip(), {})[metric.strip().lower()] = value
    return {
        name: Stage(each=of_each.get(name, {}), whole=totals.get(name, {}))
        for name in dict.fromkeys((*of_each, *totals))
    }


def _number(cell: Any) -> float | None:
    """A value with its unit, times in ms; None where it is none."""
    found = _VALUE.fullmatch(str(cell).strip()) if not isinstance(cell, bool) else None
    return float(found[1]) * _SCALES.get(found[2] or "", 1.0) if found else None


def _stages_of_tables(text: str) -> dict[str, Stage]:
    each: list[list[str]] = []
    whole: list[tuple[str, str, Any]] = []
    table = ""
    for row in box_rows(text):
        if row[0] in (_EACH, _WHOLE):
            table = row[0]
            each += [row] if table == _EACH and not each else []
        elif table == _EACH and each and len(row) == len(each[0]):
            each.append(row)
        elif table == _WHOLE and len(row) == 3:
            whole.append((row[0], row[1], row[2]))
    return _stages(each, whole)


def _drafts_of_console(text: str) -> Counters | None:
    found = _SPEC.search(text)
    if found is None:
        return None
    lines = dict(_SPEC_LINE.findall(text, found.start()))
    positions = _SPEC_POSITIONS.search(text, found.start())
    rates = re.findall(r"(\d+): ([0-9.]+)", positions[1]) if positions else []
    return Counters.model_validate(
        {
            "num_drafts": lines.get("Drafts"), "draft_tokens": lines.get("Draft tokens"),
            "accepted_tokens": lines.get("Accepted tokens"),
            "per_position_acceptance_rates": dict(rates),
        }
    )  # fmt: skip


def _acceptance(made: Counters) -> Acceptance | None:
    drafts = made.num_drafts or 0
    rates = made.per_position_acceptance_rates
    ordered = [rates[name] or 0.0 for name in sorted(rates, key=lambda n: (len(n), n))]
    return Acceptance.from_counts(
        made.num_drafts,
        made.draft_tokens,
        made.accepted_tokens,
        [rate * drafts for rate in ordered],
    )


def _drafts(doc: Document, made: Counters) -> BenchmarkRun:
    found = _acceptance(made)
    if found is None:
        raise Unreadable(f"{doc.name}: {FORMAT}: nothing was drafted while it counted")
    return BenchmarkRun(
        file=doc.name, format=FORMAT, kind="counters", sha256=doc.sha256, client="AISBench",
        engine="vllm", k=len(found.by_position) or None, acceptance=found,
    )  # fmt: skip


def _run(doc: Document, part: str, made: Stage) -> BenchmarkRun:
    whole = made.whole.get
    done = whole("success requests")
    count = done if done is not None else made.each.get("e2el", {}).get("n")
    prompt, answer = made.mean("inputtokens"), made.mean("outputtokens")
    if done and prompt is None:
        prompt = (whole("total input tokens") or 0) / done or None
        total = whole("total generated tokens") or whole("total output tokens")
        answer = (total or 0) / done or None
    failed, duration = whole("failed requests"), whole("benchmark duration")
    return BenchmarkRun(
        file=doc.name, format=FORMAT, part=part, sha256=doc.sha256, client="AISBench",
        concurrency=whole("max concurrency"),
        requests=None if count is None else round(count),
        failed=None if failed is None else round(failed),
        input_tokens=prompt, output_tokens=answer,
        duration_s=None if duration is None else duration / 1e3,
        output_tok_s=whole("output token throughput"),
        ttft_ms=made.latency("ttft"), tpot_ms=made.latency("tpot"),
        itl_ms=made.latency("itl"), e2e_ms=made.latency("e2el"),
        notes=() if made.whole else ("the CSV states no load: give the printed tables for it",),
    )  # fmt: skip
