"""Sweep and policy -> text: gain by k, a row a load, measured pairs, the best k per load."""

from collections.abc import Sequence

from advisor.advice.explore.values import KRanges, LoadPoint, Policy, Sweep
from advisor.advice.plans.topology import where
from advisor.advice.resolve import as_options
from advisor.advice.wording import k_text
from advisor.domain.nouns import LaunchText
from advisor.render.explore.chart import (
    AXIS_NAMES,
    GOAL_NAMES,
    Chart,
    axis_of,
    charts,
    crossings,
    higher_medians,
    range_words,
    setting_words,
    title,
)
from advisor.render.layout import (
    PAGE,
    Paper,
    columns,
    heading,
    number,
    pack_command,
    pack_launch,
    percent,
    within_lines,
)
from advisor.render.text_sections import METHOD_NAMES, drafts_note, run_lines
from advisor.render.verdict import kernel_words

AXIS_COLUMNS, LEAST_COLUMNS = 10, 8  # of the values, and of one curve's, blanks included


def sweep_text(found: Sweep, paper: Paper = PAGE) -> str:
    """The whole answer as text that ends in a line feed."""
    lines: list[str] = []
    if found.within:  # what was asked first
        lines += [heading("Users within the objectives"), *within_lines(found.within, paper), ""]
    drawn = charts(found)
    if not drawn:
        lines += [heading(title(found)), "", *_table(found, found.loads, paper)]
        for line in _kernel_ends(found, found.loads):
            lines += ["", *paper.item(line)]
    for count, chart in enumerate(drawn):
        lines += [""] if count else []
        lines += _section(found, chart, paper)
    lines += _costs(found)
    pairs = [heading("A/B runs"), *run_lines(found.pairs, paper)] if found.pairs else []
    return paper.text([*lines, "", *(pairs or ["No A/B run near these loads was published."])])


def _section(found: Sweep, chart: Chart, paper: Paper) -> list[str]:
    lines: list[str] = [heading(line) for line in paper.wrap(chart.title)]
    goal = GOAL_NAMES[found.request.goal]
    lines += paper.wrap(f"Median gain in {goal} against {chart.x_label}:")
    lines += [*_medians(chart, paper), "", *_table(found, chart.loads, paper), ""]
    for line in (*higher_medians(chart), *crossings(chart), *_kernel_ends(found, chart.loads)):
        lines += paper.item(line)
    if chart.ranges is not None:
        lines += _ranges(chart.ranges, paper)
    return lines


def _kernel_ends(found: Sweep, loads: Sequence[LoadPoint]) -> list[str]:
    """Where a k leaves the engine's CUDA graphs or kernels near these loads, a sentence each."""
    points = ((point.plan, load.request.concurrency) for load in loads for point in load.points)
    return sorted({kernel_words(found.facts, *point) for point in points} - {""})


def _medians(chart: Chart, paper: Paper) -> list[str]:
    """A row for each value of the axis, a column for each curve; as many side by side as fit."""
    lines: list[str] = []
    values = sorted({x for curve in chart.curves for x in curve.x})
    size = max(len(k_text(*curve.arm[1:])) + 2 for curve in chart.curves)
    most = max(1, (paper.width - AXIS_COLUMNS) // max(size, LEAST_COLUMNS))
    for at in range(0, len(chart.curves), most):
        part = [(c, dict(zip(c.x, c.middle, strict=True))) for c in chart.curves[at : at + most]]
        rows = [(AXIS_NAMES[chart.axis].split()[0], *(k_text(*c.arm[1:]) for c, _ in part))]
        for x in values:
            gains = (f"{gain[x]:+.0f} %" if x in gain else "-" for _, gain in part)
            rows.append((number(x), *gains))
        lines += ["", *columns(rows, paper)]
    return lines


def _table(found: Sweep, loads: Sequence[LoadPoint], paper: Paper) -> list[str]:
    """A row a load: answer, its k, gain with interval and chance, speeds without and with."""
    axis = axis_of(found)
    name = AXIS_NAMES[axis].split()[0] if axis else "setting"
    head = (name, "answer", "best", "gain", "80 % interval", "P(gain)", "tok/s", "TPOT ms")
    rows: list[tuple[str, ...]] = [head]
    for load in loads:
        where = tuple(pair for pair in load.setting if axis is None or pair[0] == axis)
        rows.append((setting_words(where) or "as requested", *_cells(load)))
    return _columns(rows, paper)


def _cells(load: LoadPoint) -> tuple[str, ...]:
    if load.refusal is not None:
        return ("does not run: " + load.refusal,)
    point = load.best
    if point is None:
        plain = load.point(0)
        metrics = (plain.output_tok_s, plain.tpot_ms) if plain is not None else ()
        speeds = [_speed(metric.value) for metric in metrics] or ["", ""]
        return (load.decision or "", "none", "", "", "", *speeds)
    chance = f"{point.p_gain:.2f}" if point.p_gain is not None else ""
    span = f"{100 * (point.gain.p10 - 1):+.0f} to {percent(point.gain.p90)}"
    gain = (percent(point.gain.p50), span, chance)
    return (
        load.decision or "",
        point.words,
        *(gain if point.predictable else ("?", "not predictable", "?")),
        f"{_speed(point.output_tok_s.baseline)} > {_speed(point.output_tok_s.value)}",
        f"{_speed(point.tpot_ms.baseline)} > {_speed(point.tpot_ms.value)}",
    )


def _columns(rows: Sequence[Sequence[str]], paper: Paper) -> list[str]:
    """Columns, the last ones left out on a narrow page. A row of two cells is a sentence."""
    full = [row for row in rows if len(row) > 2]
    widths = [max(len(row[i]) for row in full) for i in range(len(full[0]))]
    while len(widths) > 4 and sum(widths) + 2 * len(widths) > paper.width:
        widths.pop()
    lines = []
    for row in rows:
        if len(row) == 2:
            lines += paper.wrap(f"{row[0].rjust(widths[0])}  {row[1]}", "", " " * (widths[0] + 2))
            continue
        cells = [
            cell.ljust(width) if i in (1, 2) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _speed(value: float | None) -> str:
    return "?" if value is None else number(value)


def _ranges(ranges: KRanges, paper: Paper) -> list[str]:
    """The best k per load, or that one k is better."""
    lines = ["", heading("Best k per load")]
    if not ranges.pays:
        return [*lines, *paper.item(f"one fixed k is enough: {ranges.why}")]
    lines += paper.item(f"{range_words(ranges.rows)}; {ranges.why}")
    lines += pack_launch(LaunchText(argv=ranges.arguments), paper.width)
    if ranges.file_text is not None:
        lines += ["", f"{ranges.file_name}:", *ranges.file_text.rstrip("\n").splitlines()]
    return lines


def _costs(found: Sweep) -> list[str]:
    """Cost and energy of a million output tokens, a row a load, without and with the best k."""
    kinds = {"cost": "cost_per_million", "kWh": "kwh_per_million"}
    every = [point for load in found.loads for point in load.points]
    names = [n for n, field in kinds.items() if any(getattr(p, field) for p in every)]
    if not names:
        return []
    rows: list[tuple[str, ...]] = [("load", "best", *(f"{n} none" for n in names), *names)]
    for load in found.loads:
        plain = load.point(0)
        point = load.best or plain
        if point is None:
            continue
        cells = [
            number(told) if arm is not None and (told := getattr(arm, kinds[name])) else "?"
            for arm in (plain, point)
            for name in names
        ]
        rows.append((setting_words(load.setting) or "as requested", point.words, *cells))
    return ["", heading("Per million output tokens"), *_columns(rows, Paper(width=200))]


ADAPTIVE = "SD431"  # where the engine's own adaptive verification was measured
MOST_ROWS = 8  # of the table of loads, the ends among them


def policy_text(policy: Policy, paper: Paper = PAGE) -> str:
    """The screen as text that ends in a line feed."""
    ranges, request = policy.ranges, policy.sweep.request
    loads = ranges.loads
    asked = f"{loads[0].requests} to {loads[-1].requests} requests"
    name = METHOD_NAMES.get(ranges.method, ranges.method)
    rows = ", ".join(f"{a}-{b}: {k_text(k)}" for a, b, k in ranges.rows)
    what = (
        f"k by batch size ({rows})"
        if ranges.pays
        else f"k={ranges.static_k} throughout{drafts_note(policy.plan)}"
    )
    head = {"on": ("ON", "green"), "off": ("OFF", "red"), "measure": ("MEASURE FIRST", "yellow")}
    word, colour = head[policy.decision]
    tail = f": {name}, {what}" if policy.decision != "off" else ""
    lines: list[str] = [
        heading(line, colour)
        for line in paper.wrap(f"Speculative decoding {word} for {asked}{tail}")
    ]
    told = (
        f"{request.ctx_tokens} + {request.output_tokens} tokens, {request.workload}; "
        f"median gain in {GOAL_NAMES[request.goal]}"
    )
    lines += paper.wrap(f"{title(policy.sweep)}; requests of {told}")
    lines += ["", *_loads_table(policy, paper), *_costs(policy.sweep), ""]
    regrets = ", ".join(f"{k_text(k)} {100 * lost:.0f} %" for k, lost in ranges.regrets[:4])
    lines += paper.wrap(f"Least regret over these loads (a loss weighs double): {regrets}", "Why: ")
    if ranges.static_k != ranges.regrets[0][0] and not ranges.pays:
        lines += paper.wrap(f"{k_text(ranges.static_k)} is surely a gain at more of these loads.")
    if not ranges.pays and ranges.why:
        lines += paper.wrap(f"One k is enough: {ranges.why}.")
    for finding in policy.findings:
        if finding.code == ADAPTIVE:
            lines += paper.wrap(f"{finding.message} [{finding.code}]", "Adaptive: ")
    if policy.unsure:
        at = " to ".join(str(end) for end in dict.fromkeys((policy.unsure[0], policy.unsure[-1])))
        lines += paper.wrap(f"not surely a gain at {at} requests: measure there first", "Risk: ")
    run, off = policy.launch, policy.launch_off
    spot = where(policy.sweep.facts, policy.plan)
    if policy.unsure:
        own = (word for word in run.argv if word.startswith("--spec") and word not in off.argv)
        spot += f" to measure it; meanwhile the same without {', '.join(own)}"
    lines += [heading(line) for line in paper.wrap(f"Run{spot}")]
    lines += pack_launch(off if policy.decision == "off" else run, paper.width)
    options = " ".join(as_options(request.replace(concurrency=1)))
    vary = f"--vary concurrency={loads[0].requests}..{loads[-1].requests}"
    lines += pack_command(f"advisor sweep {options} {vary}", paper.width)
    lines[-1] += "  # all loads and k"
    return paper.text(lines)


def _loads_table(policy: Policy, paper: Paper) -> list[str]:
    loads = policy.ranges.loads
    step = -(-(len(loads) - 1) // (MOST_ROWS - 1)) or 1
    rows = [["requests", "gain", "answer there alone", "lost by this"]]
    swept = {load.request.concurrency: load for load in policy.sweep.loads}
    for load in [*loads[:-1:step], loads[-1]]:
        lost = max(0.0, 1 - load.gain / load.best_gain)
        at = swept[load.requests]  # whose launch drafts nothing where its k cannot run
        best = f"{k_text(load.best_k, load.best_adaptive)} ({load.best_gain:.2f}x)"
        if at.decision == "measure" and at.best is not None:
            best = f"measure {at.best.words} ({at.best.gain.p50:.2f}x)"
        rows.append([str(load.requests), f"{load.gain:.2f}x", best, f"{100 * lost:.0f} %"])
        arms = (at.point(load.k, policy.ranges.method) or at.point(0), at.point(0))
        kept = [arm.p_objective for arm in arms if arm is not None and arm.p_objective is not None]
        if len(kept) == len(arms):
            rows[-1].append(f"{100 * kept[0]:.0f} % (off {100 * kept[1]:.0f} %)")
    rows[0] += ["objective kept"] if len(rows[-1]) > len(rows[0]) else []
    return columns(rows, paper)
