"""A receipt as one HTML page, its JSON Schema, and its runs as rows of knowledge/measurements."""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from advisor.advice.own_runs.machine import MachineRun
from advisor.advice.own_runs.receipt import RECEIPT_ID, Receipt
from advisor.domain.printable import csv_cell, printable
from advisor.readers.results.run import BenchmarkRun, Latency
from advisor.render.objects import Schema
from advisor.render.own_runs import number

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:.5rem 0 1.5rem;display:block;overflow-x:auto}"
    "td,th{border-bottom:1px solid #8884;padding:.2rem .8rem .2rem 0;text-align:left}"
    "td+td,th+th{font-variant-numeric:tabular-nums}.alarm{color:#b00020;font-weight:600}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}.alarm{color:#ff8a80}}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_ARM = ("", "requests", "failed", "output tok/s", "TTFT mean", "P50", "P90", "P99", "TPOT mean",
        "P50", "P90", "P99", "ITL mean", "P50", "P90", "P99", "J a token")  # fmt: skip


def receipt_html(receipt: Receipt) -> str:
    """The whole page; nothing in it is fetched and nothing runs."""
    title = f"Receipt {receipt.id}: {receipt.verdict or 'runs'}"
    gains = [
        (load.load, gain.metric, number(gain.off), number(gain.on), f"{gain.gain:.2f}x",
         f"{gain.low:.2f} to {gain.high:.2f}", gain.verdict)
        for load in receipt.loads
        for gain in load.gains
    ]  # fmt: skip
    about = (
        ("hardware", f"{receipt.gpus} x {receipt.hardware}"),
        ("edited since it was measured", "yes" if receipt.is_edited else "no"),
        *((f"{arm}: {name}", v) for arm, seen in receipt.power.items() for name, v in seen),
    )
    parts = [f"<h1>{_text(title)}</h1>", _table((), about)]
    if gains:
        head = ("load", "metric", "off", "on", "gain", "95 % interval", "verdict")
        parts += ["<h2>Gains</h2>", _table(head, gains)]
    parts += [
        f"<h2>Run {i}</h2>{_table((), _setting(run))}" for i, run in enumerate(receipt.runs, 1)
    ]
    arms = [_arm(receipt, arm, run) for arm in ("off", "on") for run in getattr(receipt, arm)]
    if arms:
        parts += ["<h2>Off and on</h2><p>Times in ms.</p>", _table(_ARM, arms)]
    if receipt.quality is not None:
        mark = ' class="alarm"' if receipt.quality.alarm else ""
        parts.append(f"<h2>Quality check</h2><p{mark}>{_text(receipt.quality.sentence())}</p>")
    body = "\n".join(parts)
    top = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{_text(title)}</title>'
        f"<style>{_STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{top}</head><body>\n{body}\n</body></html>\n'


def _setting(run: MachineRun) -> Iterable[tuple[str, Any]]:
    """What one run was of, and what was accepted."""
    names = ("date", "model", "quant", "engine", "engine_version", "method", "k", "tp",
             "concurrency", "input_tokens", "output_tokens", "workload", "temperature")  # fmt: skip
    yield from ((name.replace("_", " "), getattr(run, name)) for name in names)
    yield from ((f"plan: {name.replace('_', ' ')}", value) for name, value in run.plan.items())
    yield "tokens per step", run.tokens_per_step()
    yield "accepted by position", ", ".join(f"{p:.1%}" for p in run.accepted_by_position) or None
    yield "SHA-256 of the files", " ".join(run.inputs_sha256) or None


def _arm(receipt: Receipt, name: str, run: BenchmarkRun) -> tuple[Any, ...]:
    times: list[float | None] = []
    for latency in (run.ttft_ms, run.tpot_ms, run.itl_ms):
        known = latency or Latency()
        times += [known.mean, known.p50, known.p90, known.p99]
    power = receipt.power.get(name)
    joule = power.watts / run.output_tok_s if power and run.output_tok_s else None
    return name, run.requests, run.failed, *map(number, (run.output_tok_s, *times, joule))


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; a cell without a value says that it is not known."""
    lines = ["".join(f"<th>{_text(cell)}</th>" for cell in head)] if head else []
    for row in rows:
        cells = ("not known" if c is None else f"{c:g}" if isinstance(c, float) else c for c in row)
        lines.append("".join(f"<td>{_text(cell)}</td>" for cell in cells))
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _text(value: object) -> str:
    return escape(printable(str(value)))


def receipt_schema() -> Schema:
    """What `advisor receipt` writes and `advisor recommend --receipts` reads."""
    schema = Receipt.model_json_schema(mode="serialization", by_alias=True)
    for name in ("version", "name"):
        del schema["properties"][name]
    return {"$id": RECEIPT_ID} | schema | {"title": "advisor receipt"}


# of the same names as the fields of a plan
_PLAN = ("prefix_caching", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype")
_COLUMN_OF = {"output_tok_s": "output_tok_s", "tpot": "tpot_ms", "ttft": "ttft_ms"}


def rows_of(receipt: Receipt) -> Iterator[dict[str, str]]:
    """The speculating side's figures follow from the baseline and the gain."""
    for i, run in enumerate(receipt.runs, 1):
        for side in ("off", "on") if run.gains else ("off",):
            row = _row(receipt, run, f"{receipt.id}-{i}", side == "on")
            yield {name: csv_cell(str(v)) for name, v in row.items() if v is not None}


def _row(receipt: Receipt, run: MachineRun, group: str, on: bool) -> dict[str, Any]:
    values = dict(run.baseline)
    if on:
        values = {
            name: values[name] * math.exp(gain.log if name == "output_tok_s" else -gain.log)
            for name, gain in run.gains.items()
            if name in values
        }
    plan = {name: int(v) if isinstance(v, bool) else v for name, v in run.plan.items()}
    names = ("model", "quant", "tp", "engine", "engine_version", "workload", "output_spread",
             "temperature")  # fmt: skip
    return {
        "run_id": f"{group}-{'on' if on else 'off'}",
        "source_id": receipt.id,
        "group_id": group,
        "hardware": receipt.hardware,
        "gpu_count": run.gpus or receipt.gpus,
        "spec_method": run.method if on else "none",
        "k": run.k if on else None,
        "concurrency": f"{run.concurrency:g}",
        "input_tokens": round(run.input_tokens) if run.input_tokens else None,
        "output_tokens": round(run.output_tokens) if run.output_tokens else None,
        "acceptance_length": run.accepted_length if on else None,
        "use": "eval",
        "use_why": "a user's own A/B, sent for review",
        "notes": f"measured {run.date}",
        **{name: getattr(run, name) for name in names},
        **{name: plan.get(name) for name in _PLAN},
        **{_COLUMN_OF[name]: f"{value:.6g}" for name, value in values.items()},
    }


def source_of(receipt: Receipt) -> dict[str, Any]:
    """Who, when, how."""
    return {
        "id": receipt.id,
        "kind": "own",
        "title": f"runs of a {receipt.hardware}",
        "address": "sent by its owner" if receipt.source == "own" else "a public table",
        "date": receipt.newest,
        "holds": f"{len(receipt.runs)} settings",
        "how": "advisor receipt",
        "reliability": "medium",
        "caveats": "figures with speculation follow from the baseline and the measured gain",
        "inputs_sha256": sorted({sha for run in receipt.runs for sha in run.inputs_sha256}),
    }
