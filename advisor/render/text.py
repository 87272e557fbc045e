"""Advice -> text for a terminal. The first screen (24 lines of 80) answers; everything behind it
is told where it is asked for.

What it does not know: how the answer was found. Sources are shown by id; `source_of` turns an id
into its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, isfinite, log10

from advisor import engines
from advisor.advice.decide import p_objective
from advisor.advice.plans import topology
from advisor.advice.plans.checkpoints import own_name
from advisor.domain.nouns import Advice, Estimate, Interval, MetricEstimate, Plan, Reason, Source
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.knowledge.age import stale_line
from advisor.render.layout import MIN_WIDTH, Paper, finish, heading, number, pack_launch
from advisor.render.notes import goal_note, next_run_line, placeholder, reach, unknown_checkpoint
from advisor.render.text_sections import METHOD_NAMES, NO_GAIN, beyond, chance_words, details

SCREEN_LINES = 24
LONG_MS = 1e3  # from here on times are told in seconds
LONGER = sourced(1.5, "ratio", "growth of TTFT that goes with the decision", "chosen")
EVEN = sourced(0.5, "probability", "an objective met with less is probably missed", "chosen")
_TABLE_WIDTH = 76  # the narrowest page that takes the gains as a table
NEAR = sourced(
    0.12, "probability", "a chance that other answers call enough: the reader compares", "chosen"
)
ROUNDED = 0.005  # what whole percent hide
SourceLookup = Callable[[str], Source | None]

_HEAD = {
    "on": ("Speculative decoding ON", "green"),
    "off": ("Speculative decoding OFF", "red"),
    "measure": ("Speculative decoding, MEASURE FIRST", "yellow"),
}


def advice_text(
    advice: Advice,
    width: int = 80,
    color: bool = False,
    *,
    unicode: bool = True,
    source_of: SourceLookup | None = None,
    explain: bool = False,
) -> str:
    """The answer as text that ends in a line feed: the first screen, and with `explain` everything
    behind it.

    `width` in characters (at least 40 are used), `color` allows ANSI sequences, `unicode=False`
    keeps to ASCII,
    `source_of` resolves a source id for the list of sources at the end. Raises nothing of its own.
    """
    paper = Paper(width=max(width, MIN_WIDTH))
    lines = first_screen(advice, paper)
    lines += details(advice, paper, source_of) if explain else paper.wrap(_more(advice))
    return finish(lines, color=color, unicode=unicode) + "\n"


def quiet_line(advice: Advice, *, unicode: bool = True) -> str:
    """The answer in one line: decision, what it is about, gain with its 80 % interval, chance."""
    plan, gain = advice.candidate, advice.gain
    parts: list[str] = [advice.decision]
    if plan is not None:
        parts.append(f"{METHOD_NAMES.get(plan.method, plan.method)} k={plan.k}")
    if plan is not None and gain is not None and advice.estimate is not None:
        parts.append(f"{_times(gain.p50)} ({number(gain.p10)} to {number(gain.p90)})")
        parts.append(f"chance of a gain {chance_words(gain, advice.estimate)}")
    return finish([", ".join(parts)], color=False, unicode=unicode) + "\n"


def first_screen(advice: Advice, paper: Paper) -> list[str]:
    """Decision, by how much, how sure, why in two whole sentences, and the launch: 24 lines where
    these allow it. Blank lines give way first, then the second reason to a shorter one; a sentence
    is never cut.
    """
    # the second line of the screen says the estimate already
    reasons = [r for r in strongest(advice.reasons) if not r.restates_gain]
    tries = [(reasons[:2], True), (reasons[:2], False)]
    tries += [([reasons[0], other], False) for other in reasons[2:]]
    tries += [(reasons[:1], False)]
    for told, blanks in tries:
        lines = _screen(advice, paper, told, blanks)
        if paper.width < _TABLE_WIDTH or screen_height(lines, paper.width) < SCREEN_LINES:
            break
    return lines


def screen_height(lines: Sequence[str], width: int) -> int:
    """Terminal rows that the lines take, soft wraps included."""
    return sum(max(1, -(-len(line) // width)) for line in lines)


def _screen(advice: Advice, paper: Paper, reasons: Sequence[Reason], blanks: bool) -> list[str]:
    gap = [""] if blanks else []
    lines: list[str] = [
        heading(line, _HEAD[advice.decision][1]) for line in paper.wrap(_headline(advice))
    ]
    lines += paper.wrap(_verdict(advice))
    lines += paper.wrap(_setting(advice))
    lines += paper.wrap(stale) if (stale := stale_line(advice.plan.engine)) else []
    gains = _gains(advice, paper)
    lines += [*gap, *gains] if gains else []
    if advice.next_run is not None:
        lines += paper.wrap(next_run_line(advice.next_run))
    lines += [*gap, heading("Why")]
    for told in reasons:
        lines += paper.item(told.text, told.sources[:1])
    lines += [*gap, *(heading(line) for line in paper.wrap(_run_heading(advice)))]
    lines += pack_launch(advice.launch, paper.width)
    rest = topology.others(advice.facts, advice.plan)
    return lines + (paper.wrap(rest) if rest else [])


def _more(advice: Advice) -> str:
    """What stands behind `--explain`, in one line."""
    ab = "the A/B commands, " if advice.decision == "measure" and advice.measure_with else ""
    return f"--explain: {ab}all reasons, what changes it, rules and evidence"


def _verdict(advice: Advice) -> str:
    """By how much, how sure, and what decided where that is not the estimate: one sentence."""
    gain, estimate = advice.gain, advice.estimate
    if advice.decided_by == "spread":
        return "Experts are kept in system memory, where gains and losses were measured: try both."
    if gain is None or estimate is None:
        return NO_GAIN
    goal = advice.facts.goal or advice.request.goal
    if goal == "ttft" and advice.decided_by == "unsure" and not estimate.ttft_ms.predictable:
        if seen := measured_ttft(advice):
            return (
                "The time to first token hangs on how requests arrive, which one run does not "
                f"tell{seen}: measure it with yours."
            )
        return "Which way the time to first token goes cannot be predicted here: measure it."
    text = (
        f"Expected {_percent(gain.p50)} for the goal {goal} (80 % interval {_percent(gain.p10)} "
        f"to {_percent(gain.p90)}), chance of a gain {chance_words(gain, estimate)}"
        f"{beyond(gain, estimate)}"
    )
    by_chance = advice.decided_by == "estimate" and not estimate.own_share  # those are off for less
    if advice.decision == "off" and by_chance and gain.p50 > 1:
        least = knowledge.threshold("decision_off_p_gain").value
        return f"{text}: up to {100 * least:.0f} % it stays off, since a loss weighs twice a gain."
    return f"{text}{_because(advice, estimate)}{_miss(advice)}{_price(advice)}."


def _miss(advice: Advice) -> str:
    """That the objective that decides is probably missed even so."""
    chances = [p_objective(advice.request, advice.estimate, run) for run in ("value", "baseline")]
    on, off = chances
    if advice.decided_by != "objective" or on is None or off is None or max(on, off) >= EVEN:
        return ""
    return (
        f", though it is probably missed: met at {100 * on:.0f} % with, {100 * off:.0f} % without"
    )


def _price(advice: Advice) -> str:
    """What the first token pays where the answer is on."""
    estimate = advice.estimate
    if advice.decision != "on" or estimate is None or not estimate.ttft_ms.predictable:
        return ""
    longer = 1 / estimate.ttft_ms.speedup.p50
    if longer < LONGER:
        return ""
    now, then = (round(estimate.terms.get(f"requests_{run}", 0)) for run in ("base", "verify"))
    fewer = f" ({then} instead of {now} requests run at once)" if then < now else ""
    return f"; the time to first token is {two_digits(longer)} times as long{fewer}"


def _because(advice: Advice, estimate: Estimate) -> str:
    """What decided where that is not the estimate, and the bound where the chance lies near it: a
    setting that was measured to gain takes less than others.
    """
    least = knowledge.threshold("decision_on_p_gain").value
    near = not estimate.own_share and least - NEAR <= estimate.p_gain < least + ROUNDED
    if advice.decided_by == "estimate" and advice.decision == "on" and near:
        return ", enough where a gain was measured" if estimate.p_gain < least else ""
    if advice.decided_by == "unsure" and near:
        return f": too uncertain; without a benchmark of this setting it takes {100 * least:.0f} %"
    return _BECAUSE.get(advice.decided_by, "")


_BECAUSE = {
    "rule": "; a rule forbids it nevertheless",
    "objective": "; the latency objective decides",
    "one_token": "; an answer of one token has no step to shorten",
    "unsure": ": too uncertain to turn it on without a benchmark",
    "unseen_head": "; whether this checkpoint keeps the MTP head is not known, so measure first",
    "lengths": "; more if the lengths of answers vary (below), so measure first",
    "unpriced": "; it depends on what is not predicted (below), so measure first",
    "unknown_hardware": "; this accelerator is unknown, so measure first",
}


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"


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


def release(advice: Advice) -> str:
    """The release of the engine, as its server names it; "" where none is known."""
    return engines.get(advice.plan.engine).label(
        advice.plan.engine_version, advice.request.engine_version
    )


def _setting(advice: Advice) -> str:
    facts, request = advice.facts, advice.request
    hardware = (facts.hardware.name or facts.hardware.id) if facts.hardware else request.hardware
    model = (facts.model.name or facts.model.id) if facts.model else request.model
    own = own_name(request)
    model = f"{own} (assumed to be {model} inside)" if own else model
    quant = facts.quant.id if facts.quant else request.quant or ""
    engine = f"{advice.plan.engine} {release(advice)}".strip()
    count = f"{facts.gpus} x " if facts.gpus > 1 else ""
    many = "request" if request.concurrency == 1 else "requests"
    load = f"{request.concurrency} {many} of {request.ctx_tokens} + {request.output_tokens} tokens"
    workload, goal = facts.workload or request.workload, facts.goal or request.goal
    told = f"{load}, {workload}, goal {goal}{goal_note(advice)}"
    return f"{count}{hardware}, {model} {quant}, {engine}; {told}"


def _gains(advice: Advice, paper: Paper) -> list[str]:
    estimate = advice.estimate
    if estimate is None or advice.candidate is None:
        return []
    metrics = (
        ("output tok/s", estimate.output_tok_s, ""),
        ("TPOT", estimate.tpot_ms, " ms"),
        ("TTFT", estimate.ttft_ms, " ms"),
    )
    if paper.width < _TABLE_WIDTH:
        rows = ["Without, with, speed-up and its 80 % interval:"]
        for name, metric, unit in metrics:
            levels = [word.split(" (")[0].strip() for word in _levels(metric, unit)]
            known = all(levels) and metric.predictable
            both = f"{' -> '.join(levels)}, " if known else ""
            rows.append(f"{name}: {both}{_gain(advice, name, metric)}")
        return [line for words in rows for line in paper.wrap(words)]
    k = advice.candidate.k
    run = f"with k = {k}" if advice.decision != "off" else f"k = {k}, if it ran"
    table = [f"{'80 % intervals':15}{'speed-up':23}{'without':20}{run}"]
    for name, metric, unit in metrics:
        told = f"{name:15}{_gain(advice, name, metric):23}"
        if metric.predictable:
            told += " ".join(_levels(metric, unit))
        table.append(told.rstrip())
    return table


def _gain(advice: Advice, name: str, metric: MetricEstimate) -> str:
    gain = metric.speedup
    if not metric.predictable:
        return f"not predictable{measured_ttft(advice)}"
    return f"{_times(gain.p50)} ({number(gain.p10)} to {number(gain.p90)})"


def measured_ttft(advice: Advice) -> str:
    """What was measured of the first token where this load is covered."""
    rows = [row for row in advice.facts.evidence if row.covers and row.metric == "ttft"]
    k = advice.candidate.k if advice.candidate is not None else None
    row = min(rows, key=lambda row: row.k != k, default=None)
    if row is None:
        return ""
    load = f"{number(row.concurrency or 1)} x {number(row.input_tokens or 0)} tokens"
    return f"; measured here {_times(row.speedup)} ({load}, k={row.k})"


def _times(ratio: float) -> str:
    return f"{number(ratio)}x"


def _levels(metric: MetricEstimate, unit: str) -> tuple[str, str]:
    """Both runs of a metric in one unit: seconds where either takes long."""
    if metric.baseline is None or metric.value is None:
        return "", ""
    long = unit == " ms" and max(metric.baseline, metric.value) >= LONG_MS
    scale, unit = (1e-3, " s") if long else (1.0, unit)
    without = _level(metric.baseline, metric.baseline_range, scale, unit)
    return f"{without:19}", _level(metric.value, metric.value_range, scale, unit)


def _level(value: float, span: Interval | None, scale: float, unit: str) -> str:
    """An absolute figure with its interval, two digits each: more would not be true."""
    text = f"{two_digits(value * scale)}{unit}"
    return (
        text
        if span is None
        else f"{text} ({two_digits(span.p10 * scale)}-{two_digits(span.p90 * scale)})"
    )


def two_digits(value: float) -> str:
    """A number with two significant digits."""
    if not isfinite(value) or value <= 0:
        return number(value)
    two = float(f"{value:.2g}")
    return f"{two:,.{max(1 - floor(log10(two)), 0)}f}"


def _run_heading(advice: Advice) -> str:
    errors = sum(f.severity == "error" for f in advice.plan_findings)
    warnings = sum(f.severity == "warning" for f in advice.plan_findings)
    counts = [
        f"{n} {word}{'' if n == 1 else 's'}"
        for n, word in ((errors, "error"), (warnings, "warning"))
        if n and advice.decision != "measure"
    ]
    unknown = [unknown_checkpoint(advice)] if placeholder(advice) else []
    notes = [*unknown, reach(advice), *([f"{', '.join(counts)}: --explain"] if counts else [])]
    head = {
        "on": "Run",
        "off": "Run, no speculation",
        "measure": "Run until measured",
    }[advice.decision]
    return f"{head}{topology.where(advice.facts, advice.plan)} ({', '.join(notes)})"
