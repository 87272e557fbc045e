"""Advice -> text for a terminal: the first screen, and with `--explain` what stands behind it."""

from collections.abc import Callable, Sequence

from advisor import engines
from advisor.advice.plans import topology
from advisor.advice.plans.checkpoints import own_name
from advisor.advice.plans.placement import layout_words
from advisor.advice.plans.topology import split_mode
from advisor.domain.nouns import Advice, Estimate, Interval, MetricEstimate, Plan, Source
from advisor.engines.traits import traits
from advisor.knowledge.age import stale_line
from advisor.render.layout import (
    PAGE,
    Paper,
    heading,
    number,
    pack_command,
    pack_launch,
    source_tag,
)
from advisor.render.notes import goal_note, placeholder, reach, unknown_checkpoint
from advisor.render.text_sections import METHOD_NAMES, details, drafts_note
from advisor.render.verdict import (
    LONG_MS,
    ab_heading,
    objective_words,
    risks,
    strongest,
    times,
    ttft_pair,
    two_digits,
    verdict,
)

SCREEN_LINES = 22
_TABLE_WIDTH = 76  # the narrowest page that takes the gains as a table
SourceLookup = Callable[[str], Source | None]

_HEAD = {
    "on": ("Speculative decoding ON", "green"),
    "off": ("Speculative decoding OFF", "red"),
    "measure": ("Speculative decoding, MEASURE FIRST", "yellow"),
}


def advice_text(
    advice: Advice,
    paper: Paper = PAGE,
    *,
    source_of: SourceLookup | None = None,
    explain: bool = False,
) -> str:
    """The first screen, with `explain` all behind it; `source_of` resolves ids of sources."""
    lines = first_screen(advice, paper)
    return paper.text(
        lines + (details(advice, paper, source_of) if explain else paper.wrap(_more(advice)))
    )


def first_screen(advice: Advice, paper: Paper) -> list[str]:
    """What a reader needs, each thing once and nothing cut, in 21 lines of 80 where the launch
    allows it. Blank lines give way first, then a second risk, then the long names, then the breaks
    between the sentences above the table, then the next layout.
    """
    all_risks = risks(advice)
    first, name, ids = all_risks[:1], _setting(advice), _setting(advice, ids=True)
    sure = tuple(filter(None, (objective_words(advice), verdict(advice))))
    for shown, gap, prose in (
        (all_risks, [""], (*sure, name)),
        (all_risks, [], (*sure, name)),
        (first, [], (*sure, name)),
        (first, [], (*sure, ids)),
        (first, [], (" ".join((*sure, ids)),)),
        (first, [], (" ".join((*sure, _setting(advice, ids=True, next_one=False))),)),
    ):
        lines = _screen(advice, paper, shown, gap, prose)
        if paper.width < _TABLE_WIDTH or screen_height(lines, paper.width) < SCREEN_LINES:
            break
    return lines


def screen_height(lines: Sequence[str], width: int) -> int:
    """Terminal rows that the lines take, soft wraps included."""
    return sum(max(1, -(-len(line) // width)) for line in lines)


def _screen(
    advice: Advice, paper: Paper, dangers: Sequence[str], gap: list[str], prose: Sequence[str]
) -> list[str]:
    lines: list[str] = [
        heading(line, _HEAD[advice.decision][1]) for line in paper.wrap(_headline(advice))
    ]
    for text in filter(None, (*prose, stale_line(advice.plan.engine))):
        lines += paper.wrap(text)
    gains = _gains(advice, paper)
    lines += [*gap, *gains] if gains else []
    lines += [*gap, *_why(advice, paper)]
    for risk in dangers:
        lines += paper.wrap(risk, "Risk: ")
    if advice.decision == "measure":
        lines += [*gap, *(heading(line) for line in paper.wrap(ab_heading(advice)))]
        for command in advice.measure_with[:1]:
            lines += pack_command(command, paper.width)
    lines += [*gap, *(heading(line) for line in paper.wrap(_run_heading(advice)))]
    lines += pack_launch(advice.launch, paper.width)
    rest = topology.others(advice.facts, advice.plan)
    return lines + (paper.wrap(rest) if rest else [])


def _why(advice: Advice, paper: Paper) -> list[str]:
    """The weightiest reason that the lines above do not say, with its source where that fits."""
    top = next((r for r in strongest(advice.reasons) if not r.risk), None)
    if top is None:
        return []
    text = top.brief or top.text
    lines = paper.wrap(text, "Why: ")
    cited = paper.wrap(text + source_tag(top.sources[:1]), "Why: ")
    return cited if len(cited) == len(lines) else lines


def _more(advice: Advice) -> str:
    """What stands behind `--explain`, in one line."""
    counts = [
        f"{n} {word}{'' if n == 1 else 's'}, "
        for word in ("error", "warning")
        if (n := sum(f.severity == word for f in advice.plan_findings))
    ]
    return f"--explain: {''.join(counts)}all reasons, what changes it, rules and evidence"


def _headline(advice: Advice) -> str:
    head = _HEAD[advice.decision][0]
    if advice.decision == "off" or advice.candidate is None:
        return head
    plan = advice.candidate
    name = METHOD_NAMES.get(plan.method, plan.method)
    many = "" if plan.k == 1 else "s"
    text = f"{head}: {name}, k = {plan.k} draft token{many}{drafts_note(plan)}"
    return text if not plan.k_schedule else f"{text} ({schedule_words(plan)})"


def schedule_words(plan: Plan) -> str:
    """The k schedule in words: "k by batch size: 1-4 3, 5-16 2"."""
    return "k by batch size " + ", ".join(
        f"{low}-{high}: {k}" if low != high else f"{low}: {k}" for low, high, k in plan.k_schedule
    )


def release(advice: Advice) -> str:
    """The release of the engine, as its server names it; "" where none is known."""
    asked = advice.request.engine_version
    return engines.get(advice.plan.engine).label(advice.plan.engine_version, asked)


def _setting(advice: Advice, ids: bool = False, next_one: bool = True) -> str:
    """What is answered for, with names or the shorter ids, and the layout that comes next."""
    facts, request = advice.facts, advice.request
    hardware, model = (
        (noun.id if ids or not noun.name else noun.name) if noun is not None else asked
        for noun, asked in ((facts.hardware, request.hardware), (facts.model, request.model))
    )
    own = own_name(request)
    assumed = own and own.rpartition("/")[2] != model  # which its own file was read for
    model = f"{own} (assumed to be {model} inside)" if assumed else own or model
    quant = facts.quant.id if facts.quant else request.quant or ""
    engine = f"{advice.plan.engine} {release(advice)}".strip()
    count = f"{facts.gpus} x " if facts.gpus > 1 else ""
    split = facts.gpus > 1 and (traits(advice.plan.engine).replicas or split_mode(advice.plan))
    idle = facts.gpus - advice.plan.tp * advice.plan.pp * advice.plan.dp
    rest = f", {idle} idle" if idle > 0 else ""
    hardware += f" ({layout_words(advice.plan)}{rest})" if split else ""
    many = "request" if request.concurrency == 1 else "requests"
    load = f"{request.concurrency} {many} of {request.ctx_tokens} + {request.output_tokens} tokens"
    if ids:
        load = f"{request.concurrency} x {request.ctx_tokens}+{request.output_tokens}"
    told = f"{load}, {facts.workload or request.workload}{goal_note(advice)}"
    second = f"; next layout: {advice.next_layout}" if advice.next_layout and next_one else ""
    second += f"; with {advice.quicker}" if advice.quicker else ""
    return f"{count}{hardware}, {model} {quant}, {engine}; {told}{second}"


def _gains(advice: Advice, paper: Paper) -> list[str]:
    """Both runs and the speed-up of each metric; no sign of one that is not predictable."""
    estimate, plan = advice.estimate, advice.candidate
    if estimate is None:
        return []
    if plan is None:
        told = (
            f"{name} {levels(metric, unit)[0]}" for name, metric, unit in metric_estimates(estimate)
        )
        price = advice.cost_per_million[0] if advice.cost_per_million else None
        paid = f"; per million output tokens: {number(price)}" if price is not None else ""
        return paper.wrap(f"80 % intervals: {', '.join(told)}{paid}")
    run = f"with k = {plan.k}" if advice.decision != "off" else f"k = {plan.k}, if it ran"
    rows = [("80 % intervals", "speed-up", "without", run)]
    for name, metric, unit in metric_estimates(estimate):
        rows.append((name, gain_words(metric), *levels(metric, unit)))
    if paper.width < _TABLE_WIDTH:
        lines = paper.wrap("Speed-up with its 80 % interval, without -> with:")
        for name, gain, without, value in rows[1:]:
            lines += paper.wrap(f"{name}: {gain}{f', {without} -> {value}' if value else ''}")
    else:
        needed = [max(len(row[i]) for row in rows) + 1 for i in range(4)]
        a, b, c = needed[:3] if needed[2] > 20 or needed[3] > 23 else (15, 23, 20)
        lines = [f"{one:{a}}{two:{b}}{it:{c}}{last}".rstrip() for one, two, it, last in rows]
    if advice.cost_per_million is not None:
        cost = [number(x) if x is not None else "?" for x in advice.cost_per_million]
        costs = f"{' without, '.join(cost)} with k = {plan.k}"
        lines += paper.wrap(f"Per million output tokens: {costs}")
    own = advice.facts.own_runs  # beside which nobody else's is "here"
    if not (estimate.ttft_ms.predictable or own) and (row := ttft_pair(advice)) is not None:
        load = f"{number(row.concurrency or 1)} x {number(row.input_tokens or 0)} tokens"
        lines += paper.wrap(
            f"TTFT scatters too widely; one run here: {times(row.speedup)} ({load}, k={row.k})",
            "  ",
        )
    return lines


def metric_estimates(estimate: Estimate) -> tuple[tuple[str, MetricEstimate, str], ...]:
    """The metrics by name, with the unit of their levels."""
    return (
        ("output tok/s", estimate.output_tok_s, ""),
        ("TPOT", estimate.tpot_ms, " ms"),
        ("TTFT", estimate.ttft_ms, " ms"),
    )


def gain_words(metric: MetricEstimate) -> str:
    """A speed-up with its interval, where one is known."""
    gain = metric.speedup
    if not metric.predictable:
        return "not predictable"
    return f"{times(gain.p50)} ({number(gain.p10)} to {number(gain.p90)})"


def levels(metric: MetricEstimate, unit: str) -> tuple[str, str]:
    """Both runs of a metric in one unit, ms or s; the interval alone where not predictable."""
    if metric.baseline is None or metric.value is None:
        return "", ""
    long = unit == " ms" and max(metric.baseline, metric.value) >= LONG_MS
    scale, unit = (1e-3, " s") if long else (1.0, unit)
    without = _level(metric.baseline, metric.baseline_range, scale, unit)
    if metric.predictable:
        return without, _level(metric.value, metric.value_range, scale, unit)
    span = metric.value_range
    return without, f"{_span(span, scale)}{unit}" if span is not None else ""


def _level(value: float, span: Interval | None, scale: float, unit: str) -> str:
    """An absolute figure with its interval, two digits each: more would not be true."""
    text = f"{two_digits(value * scale)}{unit}"
    return text if span is None else f"{text} ({_span(span, scale)})"


def _span(span: Interval, scale: float) -> str:
    return f"{two_digits(span.p10 * scale)}-{two_digits(span.p90 * scale)}"


def _run_heading(advice: Advice) -> str:
    unknown = [unknown_checkpoint(advice)] if placeholder(advice) else []
    head = {"on": "Run", "off": "Run, no speculation", "measure": "Run meanwhile"}
    where = topology.where(advice.facts, advice.plan)
    return f"{head[advice.decision]}{where} ({', '.join([*unknown, reach(advice)])})"
