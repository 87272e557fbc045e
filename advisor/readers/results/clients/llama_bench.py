"""`llama-bench` (-o json, jsonl, csv, md, sql), `llama-batched-bench` (table, jsonl) and the table
of ik_llama.cpp's `llama-sweep-bench`. None can speculate: a baseline only.

Prompt (pp) and generation (tg) are separate tests of llama-bench; its stated deviation is between
repeats. A run of one stream for llama-bench, of B streams for llama-batched-bench, whose prompt and
generation phases do not overlap.
"""

from __future__ import annotations

import csv
import json
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from advisor.readers.results.document import Document
from advisor.readers.results.run import BenchmarkRun, Count, Foreign, Latency, Number
from advisor.readers.results.tables import bare_cell, has_table, table_records

FORMAT = "llama-bench"
BATCHED = "llama-batched-bench"
SWEEP = "llama-sweep-bench"
_NEEDED = {"n_prompt", "n_gen", "avg_ts", "stddev_ts"}
_CSV = {"n_prompt", "n_gen", "avg_ts"}
_TABLE = re.compile(r"^[> ]*\|\s*model\s*\|.*\|\s*test\s*\|\s*t/s\s*\|\s*$", re.M)
_TEST = re.compile(r"^(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: @ d(\d+))?$")
_SPEED = re.compile(r"^([0-9]+(?:\.[0-9]*)?)(?: ± ([0-9]+(?:\.[0-9]*)?))?$")
_INSERT = re.compile(
    r"^INSERT INTO \w+ \(([^)\n]{1,4000})\) VALUES \(([^\n]{1,20000})\);[ \t]*$", re.M
)
_BATCHED_TABLE = re.compile(r"^\|\s*PP\s*\|\s*TG\s*\|\s*B\s*\|\s*N_KV\s*\|\s*T_PP s\s*\|.*$", re.M)
_SWEEP_TABLE = re.compile(r"^\|\s*PP\s*\|\s*TG\s*\|\s*N_KV\s*\|\s*T_PP s\s*\|.*$", re.M)
_BUILD = re.compile(r"^[> ]*build: ([0-9a-f]+) \((\d+)\)", re.M)


def _as_list(value: Any) -> Any:
    """A list that a table holds as its text; nothing where that is none."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


class Test(Foreign):
    """One test of llama-bench."""

    n_prompt: Count
    n_gen: Count
    n_depth: Count = None
    avg_ts: Number
    stddev_ts: Number = None
    samples_ts: Annotated[list[float], BeforeValidator(_as_list)] = []
    model_filename: str | None = None
    model_type: str | None = None
    backends: str | None = None
    gpu_info: str | None = None
    build_number: Count = None
    test_time: str | None = None


class Batch(Foreign):
    """One line of llama-batched-bench."""

    pp: Count
    tg: Count
    pl: int = Field(ge=1, le=100_000)
    t_pp: Number
    t_tg: Number
    speed_pp: Number
    speed_tg: Number
    t: Number


class Sweep(Foreign):
    """One line of llama-sweep-bench: a prompt and a generation behind `n_kv` cached tokens."""

    pp: Count
    tg: Count
    n_kv: Count
    t_pp: Number
    t_tg: Number
    speed_pp: Number
    speed_tg: Number


def matches(doc: Document) -> bool:
    """Whether the document is output of llama-bench or llama-batched-bench."""
    if doc.values:
        rows = doc.objects
        return bool(rows) and all(
            row.keys() >= _NEEDED or _batch(row) or _sweep(row) for row in rows
        )
    return (
        bool(_sql_rows(doc.text))
        or has_table(doc.text, _CSV)
        or bool(_heads(doc.text))
        or bool(_BATCHED_TABLE.search(doc.text))
        or bool(_SWEEP_TABLE.search(doc.text))
    )


def _batch(row: dict[str, Any]) -> bool:
    return {"pp", "tg", "pl", "speed_pp", "speed_tg"} <= row.keys()


def _sweep(row: dict[str, Any]) -> bool:
    return {"pp", "tg", "n_kv", "speed_pp", "speed_tg"} <= row.keys() and "pl" not in row


def _heads(text: str) -> list[re.Match[str]]:
    return [m for m in _TABLE.finditer(text) if "peak t/s" not in m[0]]


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per test."""
    if doc.objects:
        if _batch(doc.objects[0]):
            return [_batched_run(doc, Batch.model_validate(row)) for row in doc.objects]
        if _sweep(doc.objects[0]):
            return [_sweep_run(doc, Sweep.model_validate(row)) for row in doc.objects]
        return [_run(doc, Test.model_validate(row)) for row in doc.objects]
    # a page of notes holds several tables, each of which is read
    if found := [*_batched_table(doc), *_sweep_table(doc), *_markdown(doc)]:
        return found
    rows = _sql_rows(doc.text) or table_records(doc.text, _CSV)
    return [_run(doc, Test.model_validate(row)) for row in rows if row.get("avg_ts")]


def _sql_rows(text: str) -> list[dict[str, str]]:
    """The rows that statements of SQL insert."""
    out = []
    for names, values in _INSERT.findall(text):
        columns = [name.strip() for name in names.split(",")]
        cells = next(csv.reader([values], quotechar="'", skipinitialspace=True))
        if len(columns) == len(cells) and set(columns) >= _CSV:
            out.append(dict(zip(columns, cells, strict=True)))
    return out


def _run(doc: Document, test: Test) -> BenchmarkRun:
    prompt, generated = test.n_prompt or 0, test.n_gen or 0
    only_prompt, only_generated = not generated, not prompt
    name = "+".join(f"{w}{n}" for w, n in (("pp", prompt), ("tg", generated)) if n)
    name += f" @ d{test.n_depth}" if test.n_depth else ""
    speed = test.avg_ts if only_generated else None
    return BenchmarkRun(
        file=doc.name,
        format=FORMAT,
        kind="offline",
        part=name,
        sha256=doc.sha256,
        client="llama-bench",
        client_version=f"b{test.build_number}" if test.build_number else None,
        engine="llama-server",
        engine_version=f"b{test.build_number}" if test.build_number else None,
        date=test.test_time,
        model=test.model_filename or test.model_type,
        hardware=test.gpu_info or None,
        method="none",
        k=0,
        concurrency=1,
        input_tokens=prompt or None,
        output_tokens=generated or None,
        depth_tokens=test.n_depth,
        output_tok_s=speed,
        request_tok_s=speed,
        output_tok_s_sd=test.stddev_ts if speed else None,
        prompt_tok_s=test.avg_ts if only_prompt else None,
        repeats=len(test.samples_ts) or None,
        tpot_ms=_per_token(test) if speed else None,
        notes=()
        if only_prompt or only_generated
        else ("t/s counts prompt and generated tokens together",),
    )


def _per_token(test: Test) -> Latency | None:
    if test.samples_ts:
        return Latency.of(1e3 / v for v in test.samples_ts if v > 0)
    return Latency.from_statistics(mean=1e3 / test.avg_ts) if test.avg_ts else None


def _markdown(doc: Document) -> list[BenchmarkRun]:
    """The rows of every table, each by its own header; lines of the backend may stand between."""
    heads = _heads(doc.text)
    ends = [*(head.start() for head in heads), len(doc.text)][1:]
    out = []
    for head, end in zip(heads, ends, strict=True):
        columns = [cell.strip() for cell in head[0].strip("> |\r").split("|")]
        build = _BUILD.search(doc.text, head.end(), end) or _BUILD.search(doc.text)
        for line in doc.text[head.end() : end].splitlines():
            cells = [bare_cell(cell) for cell in line.strip("> ").strip("|").split("|")]
            if len(cells) != len(columns):
                continue
            row = dict(zip(columns, cells, strict=True))
            test, speed = _TEST.match(row["test"]), _SPEED.match(row["t/s"])
            if not test or not speed or not (test[1] or test[2]):
                continue
            made = Test(
                n_prompt=int(test[1] or 0), n_gen=int(test[2] or 0),
                n_depth=int(test[3] or 0) or None,
                avg_ts=float(speed[1]), stddev_ts=float(speed[2]) if speed[2] else None,
                model_type=row["model"], build_number=int(build[2]) if build else None,
            )  # fmt: skip
            out.append(_run(doc, made))
    return out


def _batched_table(doc: Document) -> list[BenchmarkRun]:
    names = ("pp", "tg", "pl", "n_kv", "t_pp", "speed_pp", "t_tg", "speed_tg", "t", "speed")
    rows = _rows(doc.text, names) if _BATCHED_TABLE.search(doc.text) else []
    return [_batched_run(doc, Batch.model_validate(row)) for row in rows]


def _sweep_table(doc: Document) -> list[BenchmarkRun]:
    names = ("pp", "tg", "n_kv", "t_pp", "speed_pp", "t_tg", "speed_tg")
    rows = _rows(doc.text, names) if _SWEEP_TABLE.search(doc.text) else []
    return [_sweep_run(doc, Sweep.model_validate(row)) for row in rows]


def _rows(text: str, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Rows of numbers of a table that has these columns."""
    lines = (
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()
    )
    return [
        dict(zip(names, cells, strict=True))
        for cells in lines
        if len(cells) == len(names) and cells[0].isdigit()
    ]


def _sweep_run(doc: Document, row: Sweep) -> BenchmarkRun:
    return BenchmarkRun(
        file=doc.name,
        format=SWEEP,
        kind="offline",
        part=f"pp{row.pp} tg{row.tg} @ d{row.n_kv or 0}",
        sha256=doc.sha256,
        client="llama-sweep-bench",
        method="none",
        k=0,
        concurrency=1,
        input_tokens=row.pp or None,
        output_tokens=row.tg or None,
        depth_tokens=row.n_kv,
        output_tok_s=row.speed_tg or None,
        request_tok_s=row.speed_tg or None,
        prompt_tok_s=row.speed_pp,
        tpot_ms=Latency.from_statistics(mean=row.t_tg * 1e3 / row.tg)
        if row.t_tg and row.tg
        else None,
        notes=("output tok/s of the generation phase alone",),
    )


def _batched_run(doc: Document, row: Batch) -> BenchmarkRun:
    streams = row.pl
    per_token = row.t_tg * 1e3 / row.tg if row.t_tg and row.tg else None
    return BenchmarkRun(
        file=doc.name,
        format=BATCHED,
        kind="offline",
        part=f"B{streams} pp{row.pp} tg{row.tg}",
        sha256=doc.sha256,
        client="llama-batched-bench",
        engine="llama-server",
        method="none",
        k=0,
        concurrency=streams,
        requests=streams,
        input_tokens=row.pp or None,
        output_tokens=row.tg or None,
        duration_s=row.t,
        output_tok_s=row.speed_tg or None,
        request_tok_s=row.speed_tg / streams if row.speed_tg else None,
        prompt_tok_s=row.speed_pp,
        tpot_ms=Latency.from_statistics(mean=per_token) if per_token else None,
        notes=("output tok/s of the generation phase alone",),
    )
