"""Chart -> SVG, PNG or a page of its own, drawn by matplotlib.

An SVG carries its title and what it shows in words (`title`, `desc`, `role`), its text is text, and
the same chart gives the same bytes. The page needs nothing from elsewhere: style and picture stand
in it, and no script.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from advisor.advice.explore.values import Sweep
from advisor.domain.nouns import AdvisorError
from advisor.render.explore.chart import METRIC_NAMES, Chart, charts, documented_losses
from advisor.render.explore.json_out import sweep_csv
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
FORMS = (".svg", ".png", ".html")


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
    if form == ".html":
        return page(found, drawn).encode()
    if len(drawn) > 1:
        raise AdvisorError(
            f"{form} holds one chart and these are {len(drawn)}: vary fewer fields, or write .html"
        )
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


# ---------------------------------------------------------------- a page of its own

_CSS = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; }
figure { margin: 1rem 0; background: #fff; }
figure svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #999; }
pre { background: #f2f2f2; padding: .6rem; overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #161616; } pre { background: #262626; }
}
"""


def page(found: Sweep, drawn: Sequence[Chart]) -> str:
    """All charts, their words, tables and measured pairs as one HTML file."""
    first = drawn[0]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(first.title)}</title>",
        f"<style>{_CSS}</style></head><body><main>",
        "<h1>Gain of speculative decoding against load</h1>",
    ]
    for count, chart in enumerate(drawn):
        parts += _section(chart, count)
    parts += _pairs(drawn)
    rows = list(csv.reader(io.StringIO(sweep_csv(found))))
    parts += ["<h2>Every point</h2>", _table(rows[0], rows[1:])]
    return "\n".join([*parts, "</main></body></html>"]) + "\n"


def _section(chart: Chart, count: int) -> list[str]:
    picture = svg(chart)
    # ids are of the whole page: those of each picture get a number
    for name in sorted(set(re.findall(r'id="([^"]+)"', picture)), key=len, reverse=True):
        own = f"c{count}-{name}"
        picture = picture.replace(f'id="{name}"', f'id="{own}"')
        picture = picture.replace(f'"#{name}"', f'"#{own}"').replace(f"(#{name})", f"(#{own})")
    picture = picture.replace(
        'aria-labelledby="title desc"', f'aria-labelledby="c{count}-title c{count}-desc"'
    )
    parts = [f"<h2>{escape(chart.title)}</h2>", f"<figure>{picture}</figure>"]
    parts.append(f"<p>{escape(' '.join((chart.description, *documented_losses(chart))))}</p>")
    ranges = chart.ranges
    if ranges is not None:
        told = "; ".join(
            f"{first} to {last} requests: {f'k={k}' if k else 'none'}"
            for first, last, k in ranges.rows
        )
        best = f"{told}; {ranges.why}" if ranges.pays else f"Static is better: {ranges.why}"
        parts.append(f"<p><strong>Best k per load.</strong> {escape(best)}.</p>")
        if ranges.pays:
            parts.append(f"<pre>{escape(' '.join(ranges.arguments))}</pre>")
            if ranges.file_text is not None:
                parts.append(f"<pre>{escape(ranges.file_text)}</pre>")
    return parts


def _pairs(drawn: Sequence[Chart]) -> list[str]:
    seen = dict.fromkeys(point for chart in drawn for point in chart.measured)
    if not seen:
        return ["<p>No A/B run near these loads was published.</p>"]
    head = ("load", "k", "metric", "gain", "source", "run")
    rows = [
        (number(p.x), "" if p.k is None else str(p.k), METRIC_NAMES.get(p.metric, p.metric))
        + (f"{p.gain:+.1f} %", p.source, p.run_id)
        for p in seen
    ]
    return ["<h2>A/B runs</h2>", _table(head, rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    head_rows = f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead>\n'
    return f"{head_rows}<tbody>{body}</tbody></table></div>"
