"""Advice -> text for a terminal. The first screen (24 lines of 80) answers; everything behind it
follows below.

What it does not know: how the answer was found. Sources are shown by id; `source_of` turns an id
into its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from advisor.domain.nouns import Advice, Estimate, MetricEstimate, Plan, Reason, Source
from advisor.render.layout import MIN_WIDTH, Paper, finish, heading, number, pack_launch
from advisor.render.notes import placeholder
from advisor.render.text_sections import METHOD_NAMES, details

SCREEN_LINES = 24
LONG_MS = 1e6  # from here on times are told in seconds
_TABLE_WIDTH = 76  # the narrowest page that takes the gains as a table
SourceLookup = Callable[[str], Source | None]

_HEAD = {
    "on": ("Speculative decoding ON", "green"),
    "off": ("Speculative decoding OFF", "red"),
    "measure": ("Speculative decoding, MEASURE FIRST", "yellow"),
}
# How much each try may take: (lines for the setting, for a reason, for what would change, blank
# lines between blocks).
_SQUEEZES = (
    (2, 2, 2, True),
    (2, 2, 2, False),
    (2, 2, 1, False),
    (1, 2, 1, False),
    (1, 1, 1, False),
)


def advice_text(
    advice: Advice,
    width: int = 80,
    color: bool = False,
    *,
    unicode: bool = True,
    source_of: SourceLookup | None = None,
) -> str:
    """The whole answer as text that ends in a line feed.

    `width` in characters (at least 40 are used), `color` allows ANSI sequences, `unicode=False`
    keeps to ASCII,
    `source_of` resolves a source id for the list of sources at the end. Raises nothing of its own.
    """
    paper = Paper(width=max(width, MIN_WIDTH))
    lines = [*first_screen(advice, paper), *details(advice, paper, source_of)]
    return finish(lines, color=color, unicode=unicode) + "\n"


def first_screen(advice: Advice, paper: Paper) -> list[str]:
    """Decision, gain, two reasons, what would change it, and the launch: 24 lines at most if the
    launch allows it.
    """
    if paper.width < _TABLE_WIDTH:
        return _screen(advice, paper, 9, 9, 9, True)
    lines: list[str] = []
    for squeeze in _SQUEEZES:
        lines = _screen(advice, paper, *squeeze)
        if screen_height(lines, paper.width) <= SCREEN_LINES:
            break
    return lines


def screen_height(lines: Sequence[str], width: int) -> int:
    """Terminal rows that the lines take, soft wraps included."""
    return sum(max(1, -(-len(line) // width)) for line in lines)


def _screen(
    advice: Advice, paper: Paper, setting: int, reason: int, change: int, blanks: bool
) -> list[str]:
    gap = [""] if blanks else []
    lines: list[str] = [
        heading(line, _HEAD[advice.decision][1]) for line in paper.wrap(_headline(advice))
    ]
    lines += paper.brief(_setting(advice), setting, mark="")
    lines += [*gap, *_gains(advice, paper)]
    lines += [*gap, heading("Why")]
    for told in strongest(advice.reasons)[:2]:
        lines += paper.brief(told.text, reason, sources=told.sources)
    if advice.would_change:
        lines += paper.brief(advice.would_change[0], change, mark="Changes if: ")
    lines += [*gap, heading(_run_heading(advice))]
    lines += pack_launch(advice.launch, paper.width)
    return lines


def strongest(reasons: Sequence[Reason]) -> list[Reason]:
    """Reasons, the weightiest first."""
    return sorted(reasons, key=lambda r: -r.weight)


def _headline(advice: Advice) -> str:
    head = _HEAD[advice.decision][0]
    if advice.decision == "off" or advice.candidate is None:
        return head
    plan = advice.candidate
    name = METHOD_NAMES.get(plan.method, plan.method)
    text = f"{head}: {name}, k = {plan.k} draft token{'' if plan.k == 1 else 's'}"
    return text if not plan.k_schedule else f"{text} ({schedule_words(plan)})"


def schedule_words(plan: Plan) -> str:
    """The k schedule in words: "k by batch size: 1-4 3, 5-16 2"."""
    spans = [
        f"{low}-{high}: {k}" if low != high else f"{low}: {k}" for low, high, k in plan.k_schedule
    ]
    return "k by batch size " + ", ".join(spans)


def _setting(advice: Advice) -> str:
    facts, request = advice.facts, advice.request
    hardware = (facts.hardware.name or facts.hardware.id) if facts.hardware else request.hardware
    model = (facts.model.name or facts.model.id) if facts.model else request.model
    quant = facts.quant.id if facts.quant else request.quant or ""
    engine = f"{advice.plan.engine} {advice.plan.engine_version or ''}".strip()
    count = f"{facts.gpus} x " if facts.gpus > 1 else ""
    many = "request" if request.concurrency == 1 else "requests"
    load = f"{request.concurrency} {many} of {request.ctx_tokens} + {request.output_tokens} tokens"
    workload, goal = facts.workload or request.workload, facts.goal or request.goal
    return f"{count}{hardware}, {model} {quant}, {engine}; {load}, {workload}, goal {goal}"


def _gains(advice: Advice, paper: Paper) -> list[str]:
    estimate = advice.estimate
    if estimate is None or advice.candidate is None:
        return paper.wrap("No speculative method can run here, so there is no gain to estimate.")
    metrics = (
        ("output tok/s", estimate.output_tok_s, ""),
        ("TPOT", estimate.tpot_ms, " ms"),
        ("TTFT", estimate.ttft_ms, " ms"),
    )
    if paper.width < _TABLE_WIDTH:
        table = [f"{name}: {_gain_short(m)}" for name, m, _ in metrics]
    else:
        table = [f"{'above 1: faster':17}{'speed-up':18}{'80 % interval':18}off -> on"]
        table += [
            f"{name:17}{_gain_wide(m)}{_levels(m, unit)}".rstrip() for name, m, unit in metrics
        ]
    return table + paper.brief(
        _basis(advice, estimate), 1 if paper.width >= _TABLE_WIDTH else 9, mark=""
    )


def _gain_short(metric: MetricEstimate) -> str:
    gain = metric.speedup
    return f"{_times(gain.p50)} ({number(gain.p10)} to {number(gain.p90)})"


def _gain_wide(metric: MetricEstimate) -> str:
    gain = metric.speedup
    share = f"{_times(gain.p50)} ({(gain.p50 - 1) * 100:+.0f} %)"
    return f"{share:18}{number(gain.p10) + ' to ' + number(gain.p90):18}"


def _times(ratio: float) -> str:
    return f"{number(ratio)}x"


def _levels(metric: MetricEstimate, unit: str) -> str:
    if metric.baseline is None or metric.value is None:
        return ""
    if unit == " ms" and max(metric.baseline, metric.value) >= LONG_MS:
        return f"{number(metric.baseline / 1e3)} -> {number(metric.value / 1e3)} s"
    return f"{number(metric.baseline)} -> {number(metric.value)}{unit}"


def _basis(advice: Advice, estimate: Estimate) -> str:
    of = (
        f"k = {advice.candidate.k}: "
        if advice.candidate is not None and advice.decision == "off"
        else ""
    )
    newest = f" (newest {advice.evidence_newest})" if advice.evidence_newest else ""
    chance = f", P(gain) {estimate.p_gain * 100:.0f} %" if isfinite(estimate.p_gain) else ""
    return f"{of}{number(estimate.accepted_length.p50)} tokens/step{chance}; basis {estimate.basis}{newest}"


def _run_heading(advice: Advice) -> str:
    errors = sum(f.severity == "error" for f in advice.findings)
    warnings = sum(f.severity == "warning" for f in advice.findings)
    counts = [
        f"{n} {word}{'' if n == 1 else 's'}"
        for n, word in ((errors, "error"), (warnings, "warning"))
        if n and advice.decision != "measure"
    ]
    quant = advice.facts.quant.id if advice.facts.quant is not None else "this quantisation"
    unknown = [f"no {quant} checkpoint is known: see its model card"] if placeholder(advice) else []
    notes = [*unknown, *([f"{', '.join(counts)} below"] if counts else [])]
    head = {
        "on": "Run",
        "off": "Run, no speculation",
        "measure": "Run until measured (A/B commands below)",
    }[advice.decision]
    return f"{head} ({', '.join(notes)})" if notes else head
