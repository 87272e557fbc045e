"""llama-benchy (0.2 to 0.4) JSON, CSV and markdown: prompt and generation speed by concurrency
and depth.

Generation speeds count from the first to the last token, so they leave the prompt's time out: above
the output tok/s of a serving benchmark of the same run. The tool says nothing of the engine or of
drafts.
"""

from __future__ import annotations

import re
from typing import Any

from advisor.readers.results.document import Document
from advisor.readers.results.run import BenchmarkRun, Count, Foreign, Latency, Number
from advisor.readers.results.tables import bare_cell, has_table, table_records

FORMAT = "llama-benchy"
_TABLE = re.compile(r"^[> ]*\|\s*(?:model\s*\|\s*)?test\s*\|.*peak t/s.*\|\s*$", re.M)
_TEST = re.compile(r"^(ctx_)?(pp|tg)(\d*)(?: @ d(\d+))?(?: \(c(\d+)\))?$")
_CELL = re.compile(r"^([0-9]+(?:\.[0-9]*)?)(?: ± ([0-9]+(?:\.[0-9]*)?))?$")
_CSV_HEAD = {"model", "test_name", "t_s_mean"}
_NOTE = "output tok/s from the first to the last token, without the prompt's time"


class Metric(Foreign):
    """A metric of one test: mean, standard deviation and the values themselves."""

    mean: Number = None
    std: Number = None
    values: list[float] = []

    def latency(self) -> Latency | None:
        """Return the distribution, from the values where they are listed."""
        of = Latency.of(self.values)
        return of if of else Latency.from_statistics(mean=self.mean, sd=self.std)


class Benchmark(Foreign):
    """One load of the JSON report."""

    concurrency: Count
    context_size: Count
    prompt_size: Count
    response_size: Count
    is_context_prefill_phase: bool = False
    pp_throughput: Metric | None = None
    tg_throughput: Metric | None = None
    tg_req_throughput: Metric | None = None
    e2e_ttft: Metric | None = None


class Report(Foreign):
    """The JSON report."""

    version: str
    timestamp: str | None = None
    latency_mode: str
    model: str
    benchmarks: list[Benchmark]


def matches(doc: Document) -> bool:
    """Whether the document is output of llama-benchy."""
    if doc.object:
        return {"latency_mode", "prefix_caching_enabled", "benchmarks"} <= doc.object.keys()
    if doc.values:
        return False
    return has_table(doc.text, _CSV_HEAD) or _TABLE.search(doc.text) is not None


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per load."""
    if doc.object:
        made = Report.model_validate(doc.object)
        return [
            _run(doc, row, made.model, version=made.version, date=made.timestamp)
            for row in made.benchmarks
            if not row.is_context_prefill_phase
        ]
    table = _csv(doc.text) if not _TABLE.search(doc.text) else _markdown(doc.text)
    loads: list[dict[str, Any]] = []
    for row in table:
        test = _TEST.match(row["test"])
        if not test or test[1]:  # the context's own prefill is no run of the load
            continue
        about = {
            "table": row.get("table", 1), "model": row["model"],
            "context_size": int(test[4] or 0), "concurrency": int(test[5] or 1),
        }  # fmt: skip
        size = "prompt_size" if test[2] == "pp" else "response_size"
        load = next((old for old in reversed(loads) if about.items() <= old.items()), None)
        if load is None or size in load:  # the same test again: another size, or another run
            load = about
            loads.append(load)
        load[size] = int(test[3] or 0)
        if test[2] == "pp":
            load |= {"pp_throughput": row["speed"], "e2e_ttft": row["ttft"]}
        else:
            alone = row["speed"] if about["concurrency"] == 1 else None
            load |= {"tg_throughput": row["speed"], "tg_req_throughput": row["request"] or alone}
    keep = ("prompt_size", "response_size", "context_size", "concurrency")
    tables = len({load["table"] for load in loads})
    runs = []
    for load in loads:
        if load.get("tg_throughput"):
            one = Benchmark.model_validate(dict.fromkeys(keep) | load)
            run = _run(doc, one, load["model"])
            part = f"table {load['table']}: {run.part}" if tables > 1 else run.part
            runs.append(run.model_copy(update={"part": part}))
    return runs


def _run(
    doc: Document,
    row: Benchmark,
    model: str | None,
    version: str | None = None,
    date: str | None = None,
) -> BenchmarkRun:
    speed, each = row.tg_throughput, row.tg_req_throughput
    tpots = Latency.of(1e3 / v for v in each.values if v > 0) if each and each.values else None
    if tpots is None and each and each.mean:
        tpots = Latency.from_statistics(mean=1e3 / each.mean)
    part = f"c{row.concurrency} pp{row.prompt_size} tg{row.response_size}"
    part += f" @ d{row.context_size}" if row.context_size else ""
    return BenchmarkRun(
        file=doc.name, format=FORMAT, part=part, sha256=doc.sha256, client="llama-benchy",
        client_version=version, date=date, model=model, concurrency=row.concurrency,
        input_tokens=row.prompt_size, depth_tokens=row.context_size or None,
        output_tokens=row.response_size,
        output_tok_s=speed.mean if speed else None, output_tok_s_sd=speed.std if speed else None,
        request_tok_s=each.mean if each else None,
        prompt_tok_s=row.pp_throughput.mean if row.pp_throughput else None,
        repeats=len(speed.values) or None if speed else None,
        ttft_ms=row.e2e_ttft.latency() if row.e2e_ttft else None, tpot_ms=tpots, notes=(_NOTE,),
    )  # fmt: skip


def _csv(text: str) -> list[dict[str, Any]]:
    rows = []
    for cells in table_records(text, _CSV_HEAD):
        rows.append(
            {
                "model": cells.get("model") or "",
                "test": cells.get("test_name") or "",
                "speed": _pair(cells.get("t_s_mean"), cells.get("t_s_std")),
                "request": _pair(cells.get("t_s_req_mean"), cells.get("t_s_req_std")),
                "ttft": _pair(cells.get("e2e_ttft_mean"), cells.get("e2e_ttft_std")),
            }
        )
    return rows


def _pair(mean: str | None, sd: str | None) -> dict[str, Any] | None:
    return {"mean": mean, "std": sd} if mean else None


def _markdown(text: str) -> list[dict[str, Any]]:
    rows = []
    heads = list(_TABLE.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    for number, (head, end) in enumerate(zip(heads, ends, strict=True), 1):
        columns = [cell.strip() for cell in head[0].strip("> |\r").split("|")]
        for line in text[head.end() : end].splitlines():
            cells = [bare_cell(cell) for cell in line.strip("> ").strip("|").split("|")]
            if len(cells) != len(columns):
                continue
            row = dict(zip(columns, cells, strict=True))
            rows.append(
                {
                    "table": number,
                    "model": row.get("model"),
                    "test": row["test"],
                    "speed": _cell(row.get("t/s (total)") or row.get("t/s")),
                    "request": _cell(row.get("t/s (req)")),
                    "ttft": _cell(row.get("e2e_ttft (ms)")),
                }
            )
    return rows


def _cell(text: str | None) -> dict[str, Any] | None:
    found = _CELL.match(text or "")
    return {"mean": found[1], "std": found[2]} if found else None
