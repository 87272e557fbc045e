"""Benchmark runs and the verdict on an A/B, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

from advisor.advice.own_runs.ab_test import AbReport, LoadVerdict, MetricGain
from advisor.domain.printable import excerpt
from advisor.readers.results.run import BenchmarkRun, Latency

_NAMES = {"output_tok_s": "output tok/s", "tpot": "TPOT ms", "ttft": "TTFT ms"}


def number(value: float | None) -> str:
    """Three significant digits, at least; '-' where it is not known."""
    if value is None:
        return "-"
    return (
        f"{value:,.0f}"
        if abs(value) >= 1000
        else f"{value:.1f}"
        if abs(value) >= 100
        else f"{value:.2f}"
    )


def runs_text(runs: Sequence[BenchmarkRun], width: int) -> str:
    """One paragraph a run."""
    return "\n".join(_run(run, width) for run in runs)


def _run(run: BenchmarkRun, width: int) -> str:
    head = f"{excerpt(run.file)}{f' [{excerpt(run.part)}]' if run.part else ''}: {run.format}"
    about = [
        f"{run.client} {run.client_version or ''}".strip() if run.client else "",
        f"{run.engine} {run.engine_version or ''}".strip() if run.engine else "engine not stated",
        excerpt(run.model) if run.model else "model not stated",
        _drafts(run),
    ]
    load = [
        f"{run.concurrency:g} concurrent" if run.concurrency else "",
        f"{run.request_rate:g} requests/s" if run.request_rate else "",
        f"{run.requests} requests" if run.requests else "",
        f"{run.failed} failed" if run.failed else "",
        f"{run.input_tokens:.0f} prompt tokens" if run.input_tokens else "",
        f"{run.depth_tokens:.0f} cached" if run.depth_tokens else "",
        f"{run.output_tokens:.0f} output tokens" if run.output_tokens else "",
    ]
    lines = [head, _line("  ", about, width), _line("  load: ", load, width)]
    speeds = [
        f"output {number(run.output_tok_s)} tok/s" if run.output_tok_s else "",
        f"one stream {number(run.request_tok_s)} tok/s" if run.request_tok_s else "",
        f"prompt {number(run.prompt_tok_s)} tok/s" if run.prompt_tok_s else "",
        _latency("TTFT", run.ttft_ms),
        _latency("TPOT", run.tpot_ms),
        _latency("ITL", run.itl_ms),
        _latency("whole request", run.e2e_ms) if not run.ttft_ms else "",
    ]
    lines.append(_line("  ", speeds, width))
    if run.acceptance:
        made = run.acceptance
        parts = [
            f"{made.length:.2f} tokens per step" if made.length else "",
            f"{made.rate:.1%} of drafted tokens" if made.rate is not None else "",
            "by position " + ", ".join(f"{p:.1%}" for p in made.by_position)
            if made.by_position
            else "",
        ]
        lines.append(_line("  accepted: ", parts, width))
    lines += [
        fill(note, width, initial_indent="  note: ", subsequent_indent="        ")
        for note in run.notes
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _drafts(run: BenchmarkRun) -> str:
    if run.speculates is None:
        return "drafts not stated"
    if not run.speculates:
        return "no speculation"
    return f"{run.method or 'speculation'}{f' k={run.k}' if run.k else ', k not stated'}"


def _latency(name: str, made: Latency | None) -> str:
    if made is None:
        return ""
    middle = made.mean if made.mean is not None else made.p50
    tail = f" (p99 {number(made.p99)})" if made.p99 is not None else ""
    return f"{name} {number(middle)} ms{tail}"


def _line(start: str, parts: Iterable[str], width: int) -> str:
    kept = [part for part in parts if part]
    indent = " " * max(len(start), 2)
    return (
        fill("; ".join(kept), width, initial_indent=start, subsequent_indent=indent) if kept else ""
    )


def ab_text(report: AbReport, width: int) -> str:
    """The verdict first, then each load."""
    lines = [f"A/B: {report.verdict.upper()}", fill(f"setting: {report.setting}", width), ""]
    for load in report.loads:
        lines += _load(load, width)
    lines += [fill(f"note: {note}", width, subsequent_indent="      ") for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def _load(load: LoadVerdict, width: int) -> list[str]:
    lines = [load.load]
    if not load.comparable:
        text = "no verdict, the runs differ in more than speculation: " + "; ".join(
            load.differences
        )
        return [*lines, fill(text, width, initial_indent="  ", subsequent_indent="  "), ""]
    lines.append(f"  {'':14}{'off':>9}{'on':>9}   gain   95 % interval   verdict")
    lines += [_gain(made) for made in load.gains]
    lines.append(
        fill(f"noise from {load.gains[0].noise}", width, initial_indent="  ") if load.gains else ""
    )
    lines += [
        fill(text, width, initial_indent="  - ", subsequent_indent="    ")
        for text in (*load.why, *load.weak)
    ]
    if load.next:
        lines.append(
            fill(f"next: {load.next}", width, initial_indent="  ", subsequent_indent="        ")
        )
    return [*(line for line in lines if line), ""]


def _gain(made: MetricGain) -> str:
    span = f"{made.low:.2f} to {made.high:.2f}"
    return (
        f"  {_NAMES.get(made.metric, made.metric):14}{number(made.off):>9}{number(made.on):>9}"
        f"  {made.gain:4.2f}x   {span:13}   {made.verdict}"
    )
