"""Sweep -> coordinates of a chart, its table, and in words what it shows.

The horizontal axis is logarithmic in requests at once, the vertical one in the gain, so that twice
as fast is as far from no gain as half as fast. What it does not know: SVG, which the template
draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite, log
from typing import Any, NamedTuple

from advisor.advice.decide import GOAL_METRICS
from advisor.advice.explore.values import LoadPoint, Point, Sweep, curves
from advisor.domain.nouns import Decision, Evidence
from advisor.domain.shell import shell_words
from advisor.render.text_sections import METHOD_NAMES

TICKS = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
LEAST, MOST = 0.4, 5.0  # what is drawn of gains
SHADES = 6  # of lines in the style sheet
_GOALS = {
    "throughput": "output tokens per second",
    "tpot": "time per output token",
    "ttft": "time to the first token",
    "balanced": "the balanced goal",
}


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
        inner = self.width - self.left - self.right
        part = log(load / low) / log(high / low) if high > low else 0.5
        return round(self.left + inner * part, 1)

    def y(self, gain: float, low: float, high: float) -> float:
        """Where a gain lies, within the axes."""
        inner = self.height - self.top - self.bottom
        bounded = min(max(gain, low), high)
        return round(self.top + inner * (1 - log(bounded / low) / log(high / low)), 1)


WIDE, NARROW = Box(720, 320), Box(350, 270, left=58, right=62)


def curve_view(found: Sweep, concurrency: int) -> dict[str, Any]:
    """Everything that the curve's template shows."""
    return {
        "drawings": [
            drawing(found, concurrency, box, name)
            for box, name in ((WIDE, "wide"), (NARROW, "narrow"))
        ],
        "words": words(found),
        "table": table(found),
        "ks": [k for k in found.ks if k > 0],
        "goal": _GOALS[found.request.goal],
        "ranges": ranges(found),
    }


def drawing(found: Sweep, concurrency: int, box: Box, name: str) -> dict[str, Any]:
    """Lines, the band of the best k, measured pairs, ticks and the load asked for."""
    points_of = _curves(found)
    loads = [_load(load) for load in found.loads]
    low_x, high_x = min(loads), max(loads)
    low_y, high_y = _range(found, points_of)

    def at(load: float, gain: float) -> tuple[float, float]:
        return box.x(load, low_x, high_x), box.y(gain, low_y, high_y)

    best = _best_curve(found, concurrency)
    lines = [_line(key, points, at, key == best) for key, points in points_of.items()]
    _spread(lines, box)
    return {
        "name": name,
        "box": box,
        "lines": lines,
        "band": _band(points_of.get(best, ()), at) if best is not None else "",
        "one": box.y(1.0, low_y, high_y),
        "here": box.x(min(max(concurrency, low_x), high_x), low_x, high_x),
        "concurrency": concurrency,
        "ticks_x": [(box.x(v, low_x, high_x), f"{v:,}") for v in _powers(low_x, high_x, box)],
        "ticks_y": [(box.y(v, low_y, high_y), f"{v:g}×") for v in _ticks(low_y, high_y)],
        "pairs": [
            _pair(row, at)
            for row in found.pairs
            if row.metric == GOAL_METRICS[found.request.goal][0]
            and row.concurrency is not None
            and low_x <= row.concurrency <= high_x
        ],
    }


def _curves(found: Sweep) -> dict[tuple[str, int], list[tuple[float, Point]]]:
    lines = {
        (method, k): [(at, point) for at, point in points if isfinite(point.gain.p50)]
        for (_, method, k), points in curves(found.loads, "concurrency").items()
    }
    return {key: lines[key] for key in sorted(lines) if lines[key]}


def _load(load: LoadPoint) -> float:
    return float(dict(load.setting)["concurrency"])


def _range(found: Sweep, points_of: dict[Any, list[tuple[float, Point]]]) -> tuple[float, float]:
    """The gains to draw: all medians, and the band of the best k."""
    gains = [point.gain.p50 for points in points_of.values() for _, point in points]
    for load in found.loads:
        point = load.point(load.best_k, load.best_method) if load.best_k else None
        if point is not None:
            gains += [point.gain.p10, point.gain.p90]
    gains += [row.speedup for row in found.pairs] or [1.0]
    shown = [min(max(gain, LEAST), MOST) for gain in gains if isfinite(gain)]
    low, high = min([*shown, 0.9]), max([*shown, 1.25])
    room = (high / low) ** 0.06
    return low / room, high * room


def _best_curve(found: Sweep, concurrency: int) -> tuple[str, int] | None:
    """Method and k that are run, else best, at the load nearest to the one asked for."""
    loads = [load for load in found.loads if load.best_k]
    if not loads:
        return None
    best = min(loads, key=lambda load: abs(log(_load(load) / concurrency)))
    return str(best.best_method), int(best.run_k or best.best_k or 0)


def _line(
    key: tuple[str, int], points: Sequence[tuple[float, Point]], at: Any, best: bool
) -> dict[str, Any]:
    method, k = key
    places = [at(load, point.gain.p50) for load, point in points]
    head = f"{METHOD_NAMES.get(method, method)}, k = {k}"
    return {
        "k": k,
        "name": head,
        "label": f"k = {k}",
        "shade": min(k, SHADES),
        "best": best,
        "path": " ".join(f"{x:g},{y:g}" for x, y in places),
        "end": places[-1],
        "label_y": places[-1][1],
        "dots": [
            {"x": x, "y": y, "text": f"{head} at {load:,.0f} requests: {_interval(point)}"}
            for (load, point), (x, y) in zip(points, places, strict=True)
        ],
    }


def _interval(point: Point) -> str:
    gain = point.gain
    return f"{gain.p50:.2f}× ({gain.p10:.2f} to {gain.p90:.2f})"


def _spread(lines: list[dict[str, Any]], box: Box, gap: float = 13) -> None:
    """Move the labels at the lines' ends apart, within the drawing."""
    ordered = sorted(lines, key=lambda line: line["label_y"])
    for above, below in pairwise(ordered):
        below["label_y"] = max(below["label_y"], above["label_y"] + gap)
    floor = box.height - box.bottom
    for line in reversed(ordered):
        line["label_y"] = round(min(line["label_y"], floor), 1)
        floor = line["label_y"] - gap


def _band(points: Sequence[tuple[float, Point]], at: Any) -> str:
    above = [at(load, point.gain.p90) for load, point in points]
    below = [at(load, point.gain.p10) for load, point in reversed(points)]
    return " ".join(f"{x:g},{y:g}" for x, y in [*above, *below])


def _powers(low: float, high: float, box: Box) -> list[int]:
    """Powers of two between the ends; every second where there is little room."""
    found = [2**i for i in range(24) if low <= 2**i <= high]
    return found[::2] if len(found) > (12 if box is WIDE else 8) else found


def _ticks(low: float, high: float) -> list[float]:
    """At most seven round gains, no gain among them."""
    inside = [tick for tick in TICKS if low <= tick <= high]
    while len(inside) > 7:
        one = inside.index(1.0)
        inside = [tick for i, tick in enumerate(inside) if (i - one) % 2 == 0]
    return inside


def _pair(row: Evidence, at: Any) -> dict[str, Any]:
    x, y = at(row.concurrency, row.speedup)
    at_load = f"at {row.concurrency:g} requests" + (f", k = {row.k}" if row.k is not None else "")
    return {
        "x": x,
        "y": y,
        "k": f"k {row.k}" if row.k is not None else "",
        "text": f"measured {row.speedup:.2f}× {at_load}, source {row.source}",
    }


# ---------------------------------------------------------------- words and table


def ranges(found: Sweep) -> dict[str, Any] | None:
    """The best k per batch size in the engine's own words, or why one k is as good."""
    told = next(iter(found.k_ranges), None)
    if told is None:
        return None
    rows = [
        f"{low:,} to {high:,}: k = {k}" if low < high else f"{low:,}: k = {k}"
        for low, high, k in told.rows
    ]
    return {
        "why": told.why,
        "pays": told.pays,
        "rows": ", ".join(rows),
        "arguments": shell_words(told.arguments),
        "file": told.file_name or "",
        "text": told.file_text or "",
    }


def table(found: Sweep) -> list[dict[str, Any]]:
    """A row for each load: what to run, and the gain of each k."""
    ks = [k for k in found.ks if k > 0]
    rows = []
    for load in found.loads:
        gains = []
        for k in ks:
            point = load.point(k, load.best_method) or load.point(k)
            gains.append(_interval(point) if point is not None else "–")
        rows.append({"load": f"{_load(load):,.0f}", "answer": answer_words(load), "gains": gains})
    return rows


def answer_words(load: LoadPoint) -> str:
    """What `recommend` answers at a load."""
    if load.decision is None:
        return load.refusal or "cannot be served"
    if load.decision == "on":
        return f"on, k = {load.run_k}"
    return "measure first" if load.decision == "measure" else "off"


def words(found: Sweep) -> str:
    """The curve in one or two sentences."""
    told = [load for load in found.loads if load.decision is not None]
    if not told:
        return "No load can be served here."
    parts = [
        f"{'at' if first == last else f'from {first:,.0f} to'} {_requests(last)} {said}"
        for first, last, said in _stretches(told)
    ]
    text = f"{'; '.join(parts)}."
    gains = [(p.gain.p50, _load(load), p) for load in told for p in load.points if p.k > 0]
    if gains:
        gain, at, point = max(gains, key=lambda found: found[0])
        text += f" The largest expected gain is {gain:.2f}× with k = {point.k} at {_requests(at)}."
    crossing = [one for one in found.break_even if one.quantile == "p50" and isfinite(one.at)]
    if crossing:
        one = max(crossing, key=lambda found: found.at)
        verb = "turns into a loss" if one.direction == "falls" else "turns into a gain"
        text += f" k = {one.k} {verb} at about {one.at:,.0f} requests."
    return text[:1].upper() + text[1:]


def _stretches(loads: Sequence[LoadPoint]) -> list[tuple[float, float, str]]:
    """(first load, last load, answer) of neighbours with the same answer."""
    out: list[tuple[float, float, str]] = []
    said: dict[Decision | None, str] = {"off": "leave it off", "measure": "measure first"}
    for load in loads:
        answer = said.get(load.decision, f"k = {load.run_k} pays")
        if out and out[-1][2] == answer:
            out[-1] = (out[-1][0], _load(load), answer)
        else:
            out.append((_load(load), _load(load), answer))
    return out


def _requests(load: float) -> str:
    return f"{load:,.0f} request{'' if load == 1 else 's'}"
