"""Benchmark runs, the verdict on an A/B, what `advisor watch` saw: text, JSON of the first two."""

import math
from collections.abc import Iterable, Sequence
from textwrap import fill, wrap
from typing import Any

from advisor.advice.own_runs.ab_test import SHARES, AbReport, LoadVerdict
from advisor.advice.own_runs.machine import Before
from advisor.advice.own_runs.watching import Traffic, WatchWord
from advisor.domain.printable import excerpt
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency
from advisor.render.objects import Schema, document, list_of, object_of

LABELS = {"output_tok_s": "output tok/s", "tpot": "TPOT ms", "ttft": "TTFT ms"}


def number(value: float | None) -> str:
    """Three significant digits, at least; '-' where it is not known."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def before_line(before: Before) -> str:
    """That a cell was measured before, with both figures, and what becomes of the first."""
    old, new = before.old, before.new
    name = next(name for name in LABELS if name in old.gains and name in new.gains)
    then, now = (math.exp(run.gains[name].log) for run in (old, new))
    many = "request" if new.concurrency == 1 else "requests"
    which = "this replaces it" if before.replaced else "both count"
    return (
        f"k = {new.k} at {new.concurrency:g} {many} was measured before ({old.date}): {then:.2f}x "
        f"then, {now:.2f}x now; {which}"
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
        f"{round(run.concurrency, 1):g} concurrent" if run.concurrency else "",
        f"{run.request_rate:g} requests/s" if run.request_rate else "",
        f"goodput {run.goodput_rps:.3g} requests/s" if run.goodput_rps is not None else "",
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
        lines.append(_line("  accepted: ", _acceptance(run.acceptance, 1), width))
    lines += [_fill(note, width, "  note: ", "        ") for note in run.notes]
    return "\n".join(line for line in lines if line) + "\n"


def _acceptance(made: Acceptance, digits: int) -> list[str]:
    share = made.rate if digits else made.rate or None  # whole percent: none is not told
    rate = f"{share:.{digits}%} of drafted tokens" if share is not None else ""
    places = ", ".join(f"{p:.{digits}%}" for p in made.by_position or ())
    return [
        f"{made.length:.2f} tokens per step" if made.length else "",
        rate,
        f"by position {places}" if places else "",
    ]


def _drafts(run: BenchmarkRun) -> str:
    if run.speculates is None:
        return "drafts not stated"
    if not run.speculates:
        return "no speculation"
    return f"{run.method or 'speculation'}{f' k={run.k}' if run.k else ', k not stated'}"


def _latency(name: str, made: Latency | None) -> str:
    if made is None:
        return ""
    shares = ((name, getattr(made, name)) for name in SHARES)
    tail = ", ".join(f"{name} {number(value)}" for name, value in shares if value is not None)
    mean = f"{number(made.mean)} ms" if made.mean is not None else ""
    return " ".join(filter(None, (name, mean, f"({tail})" if tail else "")))


def _line(start: str, parts: Iterable[str], width: int, rest: str = "") -> str:
    """The parts that say something behind `start`, wrapped under their first word."""
    text = "; ".join(filter(None, parts))
    return _fill(text, width, start, rest or " " * len(start)) if text else ""


def _fill(text: str, width: int, first: str = "", rest: str = "") -> str:
    return fill(text, width, initial_indent=first, subsequent_indent=rest)


def ab_text(report: AbReport, width: int) -> str:
    """The verdict first, then each load."""
    lead = next((load.gains[0].metric for load in report.loads if load.gains), "output_tok_s")
    by = f" by {lead.upper()}" if lead != "output_tok_s" else ""
    lines = [f"A/B: {report.verdict.upper()}{by}", fill(f"setting: {report.setting}", width), ""]
    for load in report.loads:
        lines += _load(load, width)
    lines += [fill(f"note: {note}", width, subsequent_indent="      ") for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def _load(load: LoadVerdict, width: int) -> list[str]:
    lines = wrap(load.load, width)
    if not load.comparable:
        text = "no verdict, the runs differ in more than speculation: "
        return [*lines, _fill(text + "; ".join(load.differences), width, "  ", "  "), ""]
    if load.gains:
        lines.append("  off -> on, gain (95 % interval):")
    for made in load.gains:
        name, ends = LABELS.get(made.metric, made.metric), f"{made.low:.2f} to {made.high:.2f}"
        gain = f"{number(made.off)} -> {number(made.on)}, {made.gain:.2f}x ({ends})"
        lines.append(_fill(f"{name}: {gain}, {made.verdict}", width, "  ", "    "))
    for made in load.gains[:1]:
        lines.append(_fill(f"noise from {made.noise}", width, "  ", "    "))
    for tail in load.percentiles:
        pairs = (
            f"{name} {number(before)} -> {number(after)}"
            for name, before, after in zip(SHARES, tail.off, tail.on, strict=True)
            if before is not None or after is not None
        )
        lines.append(_line(f"  {tail.metric.upper()} ms: ", pairs, width))
    lines += [_fill(text, width, "  - ", "    ") for text in (*load.why, *load.weak)]
    if load.next:
        lines.append(_fill(f"next: {load.next}", width, "  ", "        "))
    return [*(line for line in lines if line), ""]


RESULTS_ID = "advisor/results/1"
AB_ID = "advisor/ab/1"

# what the names and units of a run's keys do not say themselves
_MEANINGS = {
    "part": "which run of the file, where it holds several",
    "method": "speculative method; none where the file states that nothing was drafted",
    "concurrency": "requests in flight, as limited by the client",
    "request_rate": "requests per second, where the load is open",
    "goodput_rps": "requests per second that kept to the objectives; null without any",
    "input_tokens": "per request, mean",
    "depth_tokens": "cached before the prompt, per request",
    "output_tokens": "per request, mean",
    "output_tok_s": "of the server",
    "request_tok_s": "of one stream after its first token",
    "output_tok_s_sd": "standard deviation between repeats within the file",
    "tpot_ms": "time per output token after the first",
    "itl_ms": "between stream chunks: a step, not a token, under speculation",
    "sha256": "of the file as given",
}


def runs_json(runs: Iterable[BenchmarkRun]) -> dict[str, Any]:
    """What benchmark files contain, as plain dicts and lists."""
    return {"schema": RESULTS_ID, "runs": [run.model_dump(mode="json") for run in runs]}


def ab_json(report: AbReport) -> dict[str, Any]:
    """The verdict on an A/B, as plain dicts and lists."""
    return {"schema": AB_ID, **report.model_dump(mode="json")}


def results_schema() -> Schema:
    """What `advisor results --format json` prints."""
    run = BenchmarkRun.model_json_schema(mode="serialization")
    parts = run.pop("$defs")
    for name, meaning in _MEANINGS.items():
        run["properties"][name]["description"] = meaning
    runs = list_of({"$ref": "#/$defs/run"})
    body = object_of({"schema": {"const": RESULTS_ID}, "runs": runs})
    return document(RESULTS_ID, "results", body, {**parts, "run": run})


def ab_schema() -> Schema:
    """What `advisor ab --format json` prints."""
    report = AbReport.model_json_schema(mode="serialization")
    body = object_of({"schema": {"const": AB_ID}, **report["properties"]})
    return document(AB_ID, "ab", body, report["$defs"])


def watch_text(seen: Traffic, word: WatchWord, width: int) -> str:
    """Decision first, then what was seen."""
    server, run = seen.server, seen.run
    about = f"{server.engine or 'unknown engine'} {server.version or ''}".strip()
    lines = [
        f"speculation: {word.decision}",
        f"{about}, {excerpt(run.model or server.model or 'model not stated')}",
    ]
    parts = [
        f"{seen.running:.0f} running" if seen.running is not None else "",
        f"{seen.waiting:.0f} waiting" if seen.waiting is not None else "",
        f"KV {seen.kv_usage:.0%}" if seen.kv_usage is not None else "",
        f"{server.slots} slots" if server.slots else "",
        f"{seen.requests:.0f} requests finished" if seen.requests else "",
        f"{run.input_tokens:.0f} prompt tokens" if run.input_tokens else "",
        f"{run.output_tokens:.0f} output tokens" if run.output_tokens else "",
        f"output {number(run.output_tok_s)} tok/s" if run.output_tok_s else "",
    ]
    start = f"in {seen.seconds:.0f} s: "
    lines.append(_line(start, parts, width, "  ") or start.rstrip())
    rates = _acceptance(run.acceptance, 0) if run.acceptance else []
    accepted = _line("accepted: ", rates, width, "  ") or "accepted:"
    lines.append(accepted if rates else "no drafts were made")
    if seen.replicas:
        lines.append(_line("counters of: ", seen.replicas, width, "  "))
    lines += [_fill(text, width, "- ", "  ") for text in word.why]
    return "\n".join(lines) + "\n"
