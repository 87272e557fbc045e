"""A sweep's chart -> coordinates for the page (both axes logarithmic), its table, its words."""

from itertools import pairwise
from math import isfinite, log
from typing import Any, NamedTuple

from advisor.advice.decide import GOAL_METRICS
from advisor.advice.explore.values import Arm, LoadPoint, Sweep
from advisor.domain.shell import shell_words
from advisor.render.explore.chart import GOAL_NAMES, Chart, Curve, charts, range_words
from advisor.render.text_sections import METHOD_NAMES

TICKS = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
LEAST, MOST = 0.4, 5.0  # what is drawn of gains
SHADES = 6  # of lines in the style sheet


class Box(NamedTuple):
    """Size of a drawing and the margins around its axes, in user units."""

    width: int
    height: int
    left: int = 58
    right: int = 72
    top: int = 16
    bottom: int = 40

    def x(self, load: float, low: float, high: float) -> float:
        """Where a load lies."""
        part = log(load / low) / log(high / low) if high > low else 0.5
        return round(self.left + (self.width - self.left - self.right) * part, 1)

    def y(self, gain: float, low: float, high: float) -> float:
        """Where a gain lies, within the axes."""
        inner = self.height - self.top - self.bottom
        bounded = min(max(gain, low), high)
        return round(self.top + inner * (1 - log(bounded / low) / log(high / low)), 1)


WIDE, NARROW = Box(720, 320), Box(350, 270, left=58, right=62)


def curve_view(found: Sweep, concurrency: int) -> dict[str, Any]:
    """Everything that the curve's template shows."""
    chart, ranges = next(iter(charts(found)), None), next(iter(found.k_ranges), None)
    metric = GOAL_METRICS[found.request.goal][0]
    return {
        "drawings": [
            {"name": name, "box": box, **drawing(chart, concurrency, box, metric)}
            for name, box in (("wide", WIDE), ("narrow", NARROW))
            if chart is not None
        ],
        "words": chart.description if chart is not None else "No k can be drawn here.",
        "table": table(found),
        "ks": [k for k in found.ks if k > 0],
        "goal": GOAL_NAMES[found.request.goal],
        "ranges": ranges,
        "range_words": range_words(ranges.rows) if ranges is not None else "",
        "arguments": shell_words(ranges.arguments) if ranges is not None else "",
    }


def drawing(chart: Chart, concurrency: int, box: Box, metric: str) -> dict[str, Any]:
    """Lines, the band of the best k, pairs measured in `metric`, ticks and the load asked for."""
    loads = [_load(load) for load in chart.loads]
    low_x, high_x = min(loads), max(loads)
    best = _best_curve(chart.loads, concurrency)
    curves = sorted(chart.curves, key=lambda curve: curve.arm)
    points = {curve.arm: _points(curve) for curve in curves}
    band = points.get(best, []) if best is not None else []
    pairs = [p for p in chart.measured if p.metric == metric and low_x <= p.x <= high_x]
    gains = [gain for rows in points.values() for _, _, gain, _ in rows]
    gains += [end for _, low, _, high in band for end in (low, high)]
    gains += [1 + pair.gain / 100 for pair in pairs]
    shown = [min(max(gain, LEAST), MOST) for gain in gains if isfinite(gain)]
    low_y, high_y = min([*shown, 0.9]), max([*shown, 1.25])
    room = (high_y / low_y) ** 0.06
    low_y, high_y = low_y / room, high_y * room

    def at(load: float, gain: float) -> tuple[float, float]:
        return box.x(load, low_x, high_x), box.y(gain, low_y, high_y)

    lines = [_line(key, rows, at) | {"best": key == best} for key, rows in points.items() if rows]
    _spread(lines, box)
    outline = [at(load, high) for load, _, _, high in band]
    outline += [at(load, low) for load, low, _, _ in reversed(band)]
    powers = [2**i for i in range(24) if low_x <= 2**i <= high_x]
    powers = powers[::2] if len(powers) > (12 if box is WIDE else 8) else powers  # where room is
    return {
        "lines": lines,
        "band": _path(outline),
        "one": box.y(1.0, low_y, high_y),
        "here": box.x(min(max(concurrency, low_x), high_x), low_x, high_x),
        "ticks_x": [(box.x(v, low_x, high_x), f"{v:,}") for v in powers],
        "ticks_y": [(box.y(v, low_y, high_y), f"{v:g}×") for v in _ticks(low_y, high_y)],
        "pairs": [
            {
                "at": at(pair.x, 1 + pair.gain / 100),
                "k": f"k {pair.k}" if pair.k is not None else "",
                "text": f"measured {1 + pair.gain / 100:.2f}× at {pair.x:g} requests"
                + (f", k = {pair.k}" if pair.k is not None else "")
                + f", source {pair.source}",
            }
            for pair in pairs
        ],
    }


def _points(curve: Curve) -> list[tuple[float, float, float, float]]:
    """(load, gain at the 10th percentile, median, 90th), as ratios."""
    columns = ([1 + gain / 100 for gain in part] for part in (curve.low, curve.middle, curve.high))
    return [row for row in zip(curve.x, *columns, strict=True) if isfinite(row[2])]


def _load(load: LoadPoint) -> float:
    return float(dict(load.setting)["concurrency"])


def _best_curve(loads: tuple[LoadPoint, ...], concurrency: int) -> Arm | None:
    """The one that is run, else best, at the load nearest to the one asked for."""
    rows = [load for load in loads if load.best_k]
    if not rows:
        return None
    best = min(rows, key=lambda load: abs(log(_load(load) / concurrency)))
    return best.best.arm if best.best is not None else None


def _line(arm: Arm, points: list[tuple[float, float, float, float]], at: Any) -> dict[str, Any]:
    method, k, adaptive = arm
    places = [at(load, gain) for load, _, gain, _ in points]
    name = f"k = {k}{', adaptive' if adaptive else ''}"
    head = f"{METHOD_NAMES.get(method, method)}, {name}"
    return {
        "k": k,
        "label": f"k = {k}{' a' if adaptive else ''}",
        "shade": min(k, SHADES),
        "path": _path(places),
        "end": places[-1],
        "label_y": places[-1][1],
        "dots": [
            {"x": x, "y": y, "text": f"{head} at {load:,.0f} requests: {_interval(*gains)}"}
            for (load, *gains), (x, y) in zip(points, places, strict=True)
        ],
    }


def _path(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)


def _interval(low: float, middle: float, high: float) -> str:
    return f"{middle:.2f}× ({low:.2f} to {high:.2f})"


def _spread(lines: list[dict[str, Any]], box: Box, gap: float = 13) -> None:
    """Move the labels at the lines' ends apart, within the drawing."""
    ordered = sorted(lines, key=lambda line: line["label_y"])
    for above, below in pairwise(ordered):
        below["label_y"] = max(below["label_y"], above["label_y"] + gap)
    floor = box.height - box.bottom
    for line in reversed(ordered):
        line["label_y"] = round(min(line["label_y"], floor), 1)
        floor = line["label_y"] - gap


def _ticks(low: float, high: float) -> list[float]:
    """At most seven round gains, no gain among them."""
    inside = [tick for tick in TICKS if low <= tick <= high]
    while len(inside) > 7:
        one = inside.index(1.0)
        inside = [tick for i, tick in enumerate(inside) if (i - one) % 2 == 0]
    return inside


def table(found: Sweep) -> list[dict[str, Any]]:
    """A row for each load: what `recommend` answers, and the gain of each k."""
    rows = []
    for load in found.loads:
        best = load.best if load.best_adaptive else None
        run = f"{load.run_k}, adaptive: {best.gain.p50:.2f}×" if best is not None else load.run_k
        answer = {"on": f"on, k = {run}", "off": "off", "measure": "measure first"}
        gains = []
        for k in (k for k in found.ks if k > 0):
            point = load.point(k, load.best_method) or load.point(k)
            gain = point.gain if point is not None else None
            gains.append(_interval(gain.p10, gain.p50, gain.p90) if gain is not None else "–")
        words = answer[load.decision] if load.decision else load.refusal or "cannot be served"
        rows.append({"load": f"{_load(load):,.0f}", "answer": words, "gains": gains})
    return rows
