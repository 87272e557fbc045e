"""Sweep -> charts as data, one a setting, and the words that say them. Gains are percentages."""

from collections.abc import Sequence

from advisor.advice.explore.values import Arm, BreakEven, KRanges, LoadPoint, Setting, Sweep, curves
from advisor.advice.wording import k_text
from advisor.domain.nouns import Evidence
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.render.layout import number
from advisor.render.text_sections import METHOD_NAMES

AXIS_NAMES = {
    "concurrency": "requests at once",
    "ctx_tokens": "prompt tokens per request",
    "output_tokens": "answer tokens per request",
    "gpus": "GPUs",
    "prefix_share": "shared part of the prompt",
    "temperature": "temperature",
}
GOAL_NAMES = {
    "balanced": "output tok/s and TPOT",
    "throughput": "output tok/s",
    "tpot": "TPOT",
    "ttft": "TTFT",
}

VISIBLE = sourced(1.01, "ratio", "of medians, from which on a table shows two", "chosen")


class Curve(NamedTuple):
    """The gains of one arm in percent, along the axis."""

    arm: Arm
    x: tuple[float, ...]
    low: tuple[float, ...]  # 10th percentile
    middle: tuple[float, ...]
    high: tuple[float, ...]  # 90th percentile


class MeasuredPoint(NamedTuple):
    """A measured pair as a point."""

    x: float
    gain: float
    k: int | None
    metric: str
    source: str
    run_id: str


class Chart(NamedTuple):
    """One picture."""

    title: str
    axis: str
    x_label: str
    curves: tuple[Curve, ...]
    measured: tuple[MeasuredPoint, ...]
    loads: tuple[LoadPoint, ...]
    break_even: tuple[BreakEven, ...]
    ranges: KRanges | None
    description: str


def charts(found: Sweep) -> tuple[Chart, ...]:
    """The charts of a sweep; none where no number varies."""
    axis = axis_of(found)
    if axis is None:
        return ()
    settings = dict.fromkeys(_others(load.setting, axis) for load in found.loads)
    return tuple(chart for s in settings if (chart := _chart(found, axis, s)) is not None)


def axis_of(found: Sweep) -> str | None:
    """The field along which the curves run."""
    return next(
        (name for name, values in found.axes if name in AXIS_NAMES and len(values) > 1), None
    )


def _others(setting: Setting, axis: str) -> Setting:
    return tuple((name, value) for name, value in setting if name != axis)


def _chart(found: Sweep, axis: str, setting: Setting) -> Chart | None:
    loads = tuple(load for load in found.loads if _others(load.setting, axis) == setting)
    made = tuple(
        Curve(
            arm,
            tuple(at for at, _ in points),
            *(tuple(100 * (getattr(p.gain, x) - 1) for _, p in points) for x in _SHARES),
        )
        for (_, arm), points in curves(loads, axis).items()
    )
    if not made:
        return None
    chart = Chart(
        title=title(found, setting),
        axis=axis,
        x_label=AXIS_NAMES[axis],
        curves=made,
        measured=tuple(_measured_points(found, axis, setting)),
        loads=loads,
        break_even=tuple(one for one in found.break_even if one.setting == setting),
        ranges=next((one for one in found.k_ranges if one.setting == setting), None),
        description="",
    )
    return chart._replace(description=description(found, chart))


def _measured_points(found: Sweep, axis: str, setting: Setting) -> list[MeasuredPoint]:
    told = dict(setting)
    out = []
    for row in found.pairs:
        at = getattr(row, _COLUMNS[axis]) if axis in _COLUMNS else None
        if at and _near(row, told):
            gain = 100 * (row.speedup - 1)
            out.append(MeasuredPoint(float(at), gain, row.k, row.metric, row.source, row.run_id))
    return out


_SHARES = ("p10", "p50", "p90")
_LOADS = {"concurrency": "concurrency", "ctx_tokens": "input_tokens"}
_COLUMNS = _LOADS | {"output_tokens": "output_tokens"}


def _near(row: Evidence, told: dict[str, int | float]) -> bool:
    """Whether a pair's load lies within a factor of two of the other settings."""
    pairs = ((told[name], getattr(row, column)) for name, column in _LOADS.items() if name in told)
    return all(not seen or 0.5 <= seen / float(asked) <= 2 for asked, seen in pairs)


# ---------------------------------------------------------------- words


def title(found: Sweep, setting: Setting = ()) -> str:
    """Model, quantisation, engine and hardware of the curves, and the settings that differ."""
    facts, request = found.facts, found.request
    model = (facts.model.name or facts.model.id) if facts.model is not None else "the model"
    engine = f"{request.engine or ''} {request.engine_version or ''}".strip()
    where = (facts.hardware.name if facts.hardware else "") or ""
    gpus = f"{facts.gpus} x " if facts.gpus > 1 and "gpus" not in dict(setting) else ""
    extra = [
        f"{number(float(value))} {AXIS_NAMES[name]}"
        for name, value in setting
        if name in AXIS_NAMES
    ]
    text = f"{', '.join(part for part in (model, request.quant, engine) if part)} on {gpus}{where}"
    return text + "".join(f", {part}" for part in extra)


def description(found: Sweep, chart: Chart) -> str:
    """What the picture shows, in words."""
    request = found.request
    load = [
        f"{number(getattr(request, name))} {AXIS_NAMES[name]}"
        for name in ("ctx_tokens", "output_tokens", "concurrency")
        if name not in dict(found.axes)
    ]
    goal = GOAL_NAMES[request.goal]
    text = [
        f"Expected gain of speculative decoding in {goal} against {chart.x_label}: {chart.title}"
        + (f"; {', '.join(load)}." if load else ".")
    ]
    for curve in chart.curves:
        ends = f"{curve.middle[0]:+.0f} % at {number(curve.x[0])}"
        if len(curve.x) > 1:
            ends += f", {curve.middle[-1]:+.0f} % at {number(curve.x[-1])}"
        method, k, adaptive = curve.arm
        text.append(f"{METHOD_NAMES.get(method, method)} with {k_text(k, adaptive)}: {ends}.")
    text += crossings(chart)
    if chart.measured:
        count = len({point.run_id for point in chart.measured})
        text.append(f"{count} A/B run{'s' if count > 1 else ''} shown as points.")
    return " ".join(text)


def crossings(chart: Chart) -> list[str]:
    """Where each curve's median crosses no gain, in sentences."""
    out = []
    for curve in chart.curves:
        own = [
            one
            for one in chart.break_even
            if (one.method, one.k, one.adaptive) == curve.arm and one.quantile == "p50"
        ]
        if own:
            out.append(f"{k_text(*curve.arm[1:])} {_where_it_gains(own)} {chart.x_label}.")
    if not any(one.quantile == "p50" for one in chart.break_even):
        gains = [value > 0 for curve in chart.curves for value in curve.middle]
        side = "above" if all(gains) else "below" if not any(gains) else ""
        if side:
            out.append(f"Every curve stays {side} no gain in this range.")
    return out


def _where_it_gains(crossed: Sequence[BreakEven]) -> str:
    """One crossing as such; of several, the loads between which there is a gain."""
    ordered = sorted(crossed, key=lambda one: one.at)
    if len(ordered) == 1:
        verb = "stops gaining" if ordered[0].direction == "falls" else "begins gaining"
        return f"{verb} at about {number(ordered[0].at, 2)}"
    spans: list[str] = []
    start = ""
    for one in ordered:
        at = number(one.at, 2) if spans or start else f"about {number(one.at, 2)}"
        if one.direction == "rises":
            start = at
        else:
            spans.append(f"from {start} to {at}" if start else f"up to {at}")
            start = ""
    spans += [f"from {start} on"] if start else []
    return f"gains {' and '.join(spans)}"


def higher_medians(chart: Chart) -> list[str]:
    """Where a k that is not recommended has the higher median, and why it is not, in sentences."""
    spans: dict[tuple[int, int, str], list[tuple[float, float, float]]] = {}
    for load in chart.loads:
        best = load.best
        if best is None or not best.predictable or load.decision == "off":
            continue
        rivals = [p for p in load.points if not p.forbidden_by and p.running == best.running]
        top = max(rivals, key=lambda point: point.gain.p50, default=best)
        if top.gain.p50 < best.gain.p50 * VISIBLE:
            continue
        why = "it can lose more, and a loss weighs double"
        if top.gain.p10 >= best.gain.p10 or top.utility > best.utility:
            named = ", ".join(load.k_rules)
            why = f"published sweeps name it or end there ({named})" if named else "it is surer"
        at = float(dict(load.setting)[chart.axis])
        pair = (100 * (top.gain.p50 - 1), 100 * (best.gain.p50 - 1))
        spans.setdefault((best.k, top.k, why), []).append((at, *pair))
    out = []
    for (k, other, why), rows in spans.items():
        at, more, gain = max(rows, key=lambda row: row[1] - row[2])
        first, last = (number(side(row[0] for row in rows)) for side in (min, max))
        where = f"{first} to {last}" if first != last else first
        out.append(
            f"k={k} is recommended where k={other} has a higher median ({where} {chart.x_label}; "
            f"at {number(at)} {more:+.0f} % beside {gain:+.0f} %): {why}."
        )
    return out


def range_words(rows: Sequence[tuple[int, int, int]]) -> str:
    """The best k per batch size: "1 to 8: k=3, 9 to 32: none"."""
    spans = ((number(a) if a == b else f"{number(a)} to {number(b)}", k) for a, b, k in rows)
    return ", ".join(f"{span}: {k_text(k)}" for span, k in spans)


def setting_words(setting: Setting) -> str:
    """A load in few words, for the first column of a table."""
    return ", ".join(number(value) for _, value in setting)
