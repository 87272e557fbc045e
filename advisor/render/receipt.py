"""A receipt as one HTML page that needs nothing else, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from advisor.advice.own_runs.machine import MachineRun
from advisor.advice.own_runs.receipt import RECEIPT_ID, Receipt
from advisor.domain.printable import printable
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
    figures = (run.output_tok_s, *times, joule)
    return name, run.requests, run.failed, *map(number, figures)


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
