"""Chart -> SVG, with its title and description in words, or PNG, drawn by matplotlib."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path
from typing import Any

from advisor.advice.explore.values import Sweep
from advisor.domain.nouns import AdvisorError
from advisor.render.explore.chart import Chart, charts
from advisor.render.layout import number

# Okabe and Ito (2008): told apart by people with any kind of colour vision
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dvx*"
SIZE = (7.2, 4.2)  # inches
_STYLE: Any = {
    "svg.hashsalt": "advisor",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
FORMS = (".svg", ".png")


def picture_bytes(found: Sweep, path: Path) -> bytes:
    """The picture in the form of the file's name. Raises AdvisorError for another, or no axis."""
    form = path.suffix.lower()
    if form not in FORMS:
        raise AdvisorError(f"--plot writes {', '.join(FORMS)}, not '{form or path.name}'")
    drawn = charts(found)
    if not drawn:
        raise AdvisorError(
            "nothing to plot: vary a number with several values, e.g. --vary concurrency=1..128"
        )
    if len(drawn) > 1:
        raise AdvisorError(f"{form} holds one chart and these are {len(drawn)}: vary fewer fields")
    return svg(drawn[0]).encode() if form == ".svg" else png(drawn[0])


def svg(chart: Chart) -> str:
    """One chart as SVG with its title and description."""
    text = _drawing(chart, "svg").decode()
    head = re.search(r"<svg [^>]*>", text)
    assert head is not None  # matplotlib writes one
    opened = head.group(0)[:-1] + ' role="img" aria-labelledby="title desc">'
    words = (
        f'\n <title id="title">{escape(chart.title)}</title>'
        f'\n <desc id="desc">{escape(chart.description)}</desc>'
    )
    return opened + words + text[head.end() :]


def png(chart: Chart) -> bytes:
    """One chart as PNG, its words in the metadata."""
    return _drawing(chart, "png")


def _drawing(chart: Chart, form: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        _curves(axes, chart)
        axes.axhline(0, color="#555555", linewidth=0.8, linestyle=":")
        _ticks(axes, chart)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel("gain, percent")
        axes.set_title(chart.title, fontsize=10, loc="left", wrap=True)
        axes.legend(frameon=False, fontsize=8, ncols=2)
        words: dict[str, Any] = {"Title": chart.title, "Description": chart.description}
        if form == "svg":
            words["Date"] = None
        out = io.BytesIO()
        figure.savefig(out, format=form, metadata=words, dpi=160)
        return out.getvalue()


def _curves(axes: Any, chart: Chart) -> None:
    for i, curve in enumerate(chart.curves):
        color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
        style = {"color": color, "marker": marker, "markersize": 3, "linewidth": 1.4}
        own = f"{curve.method}-{curve.k}"
        axes.plot(curve.x, curve.middle, label=f"k={curve.k}", gid=f"curve-{own}", **style)
        if curve.k == chart.band:
            style = {"color": color, "alpha": 0.13, "linewidth": 0, "gid": f"band-{own}"}
            label = f"80 % interval of k={curve.k}"
            axes.fill_between(curve.x, curve.low, curve.high, label=label, **style)
    if chart.measured:
        x, y = [point.x for point in chart.measured], [point.gain for point in chart.measured]
        style = {"facecolors": "none", "edgecolors": "#000000", "s": 34, "zorder": 3}
        axes.scatter(x, y, label="measured", gid="measured", **style)


def _ticks(axes: Any, chart: Chart) -> None:
    values = sorted({x for curve in chart.curves for x in curve.x})
    if values[0] > 0 and values[-1] / values[0] > 4:
        axes.set_xscale("log", base=2)
        shown: list[float] = []
        for value in values:  # room for the numbers
            if not shown or value / shown[-1] >= 1.6:
                shown.append(value)
        axes.set_xticks(shown, [number(value) for value in shown])
        axes.minorticks_off()
