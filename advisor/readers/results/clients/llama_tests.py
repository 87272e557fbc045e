"""`llama-bench` (-o json, jsonl, csv, md; a baseline of one stream) and llama-benchy 0.2 to 0.4,
whose generation speeds leave the prompt's time out.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from advisor.readers.results.document import Document
from advisor.readers.results.fields import FileLayout, Row, floats_at, list_at, number_at
from advisor.readers.results.run import BenchmarkRun, Latency
from advisor.readers.results.tables import has_table, table_records, tables_under

FORMAT = "llama-tests"
_NONE: dict[str, Any] = {"method": "none", "k": 0}


def _bench_finish(run: BenchmarkRun, row: Row) -> Row:
    prompt, output, depth = (
        round(n or 0) for n in (run.input_tokens, run.output_tokens, run.depth_tokens)
    )
    part = "+".join(f"{word}{n}" for word, n in (("pp", prompt), ("tg", output)) if n)
    build = number_at(row, "build_number")
    release = f"b{build:.0f}" if build else None
    samples = _samples(row)
    times = Latency.of(1e3 / v for v in samples if v > 0) if samples else None
    alone = run.output_tok_s and not prompt
    if alone and not samples:
        times = Latency.from_statistics(mean=1e3 / (run.output_tok_s or 1.0))
    return _NONE | {
        "concurrency": 1.0,
        "part": part + (f" @ d{depth}" if depth else ""),
        "client_version": release,
        "engine_version": release,
        "input_tokens": run.input_tokens or None,
        "output_tokens": run.output_tokens or None,
        "output_tok_s": run.output_tok_s if not prompt else None,
        "request_tok_s": run.output_tok_s if not prompt else None,
        "output_tok_s_sd": run.output_tok_s_sd if alone else None,
        "prompt_tok_s": run.output_tok_s if not output else None,
        "repeats": len(samples) or None,
        "tpot_ms": times if alone else None,
        "notes": ("t/s counts prompt and generated tokens together",) if prompt and output else (),
    }


def _samples(row: Row) -> list[float]:
    """The speeds of the repeats; a table holds the list as its text."""
    samples = row.get("samples_ts")
    if isinstance(samples, str):
        try:
            samples = json.loads(samples)
        except (ValueError, RecursionError):
            samples = []
    return floats_at({"samples": samples}, "samples")


def _benchy_finish(run: BenchmarkRun, row: Row) -> Row | None:
    if row.get("is_context_prefill_phase"):
        return None
    times = Latency.of(1e3 / v for v in floats_at(row, "tg_req_throughput > values") if v > 0)
    if times is None and run.request_tok_s:
        times = Latency.from_statistics(mean=1e3 / run.request_tok_s)
    sizes = (("pp", run.input_tokens), ("tg", run.output_tokens))
    words = [f"{word}{'None' if size is None else f'{size:.0f}'}" for word, size in sizes]
    depth = f" @ d{run.depth_tokens:.0f}" if run.depth_tokens else ""
    return {
        "part": f"c{run.concurrency or 0:.0f} {' '.join(words)}{depth}",
        "depth_tokens": run.depth_tokens or None,
        "repeats": len(floats_at(row, "tg_throughput > values")) or None,
        "ttft_ms": Latency.of(floats_at(row, "e2e_ttft > values")) or run.ttft_ms,
        "tpot_ms": times,
    }


BENCH = FileLayout(
    format="llama-bench", client="llama-bench", engine="llama-server", kind="offline",
    marks=("n_prompt", "n_gen", "avg_ts", "stddev_ts"), finish=_bench_finish,
    fields={
        "date": "test_time", "model": ("model_filename", "model_type"), "hardware": "gpu_info",
        "input_tokens": "n_prompt", "output_tokens": "n_gen", "depth_tokens": "n_depth",
        "output_tok_s": "avg_ts", "output_tok_s_sd": "stddev_ts",
    },
)  # fmt: skip
BENCHY = FileLayout(
    format="llama-benchy", client="llama-benchy",
    marks=("latency_mode", "prefix_caching_enabled"), finish=_benchy_finish,
    loads=lambda row: [row | load for load in list_at(row, "benchmarks")],
    fields={
        "client_version": "version", "date": "timestamp", "model": "model",
        "concurrency": "concurrency", "input_tokens": "prompt_size",
        "depth_tokens": "context_size", "output_tokens": "response_size",
        "output_tok_s": "tg_throughput > mean", "output_tok_s_sd": "tg_throughput > std",
        "request_tok_s": "tg_req_throughput > mean", "prompt_tok_s": "pp_throughput > mean",
    },
    times={"ttft_ms": "e2e_ttft > {}"}, words={"mean": "mean", "sd": "std"},
    notes=("output tok/s from the first to the last token, without the prompt's time",),
)  # fmt: skip
LAYOUTS = (BENCH, BENCHY)
_CSV = {"n_prompt", "n_gen", "avg_ts"}
_TABLE = re.compile(r"^[> ]*\|\s*model\s*\|(?!.*peak t/s).*\|\s*test\s*\|\s*t/s\s*\|\s*$", re.M)
_TEST = re.compile(r"^(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: @ d(\d+))?$")
_SPEED = re.compile(r"^([0-9]+(?:\.[0-9]*)?)(?: ± ([0-9]+(?:\.[0-9]*)?))?$")
_BUILD = re.compile(r"^[> ]*build: ([0-9a-f]+) \((\d+)\)", re.M)


def matches(doc: Document) -> bool:
    """Whether the text holds a table of llama-bench."""
    return not doc.values and (has_table(doc.text, _CSV) or bool(_TABLE.search(doc.text)))


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per test. A page of notes holds several tables, each of which is read."""
    text = doc.text
    runs = BENCH.runs(doc, _markdown(text))
    return runs or BENCH.runs(doc, (row for row in table_records(text, _CSV) if row.get("avg_ts")))


def _markdown(text: str) -> Iterator[Row]:
    """The rows of every table of llama-bench; lines of the backend may stand between."""
    for below, rows in tables_under(text, _TABLE):
        build = _BUILD.search(below) or _BUILD.search(text)
        for row in rows:
            test, speed = _TEST.match(row["test"]), _SPEED.match(row["t/s"])
            if test and speed and (test[1] or test[2]):
                yield {
                    "n_prompt": test[1], "n_gen": test[2], "n_depth": test[3], "avg_ts": speed[1],
                    "stddev_ts": speed[2], "model_type": row["model"],
                    "build_number": build[2] if build else None,
                }  # fmt: skip
