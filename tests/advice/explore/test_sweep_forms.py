"""The forms of a sweep: text of 80 columns, and an SVG that says what it shows; golden in data."""

import re
import subprocess
import sys
from typing import Literal

import pytest

from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import BreakEven, Sweep
from advisor.domain.nouns import Request
from advisor.render.explore.chart import charts, crossings
from advisor.render.explore.text import sweep_text
from advisor.render.layout import Paper
from tests.tables import words

SVG = "{http://www.w3.org/2000/svg}"
LOADS = [1, 2, 4, 8, 16, 32, 64, 128]


@pytest.fixture(scope="module")
def small_sweep() -> Sweep:
    return sweep(
        Request(hardware="gb10", engine="vllm", engine_version="0.32.0"),
        {"concurrency": LOADS, "k": [0, 1, 2, 3, 4]},
    )


def test_text_keeps_to_eighty_columns_without_colour(small_sweep: Sweep) -> None:
    for width in (60, 80, 100):
        text = sweep_text(small_sweep, Paper(width))
        assert "\x1b" not in text
        free = [line for line in text.splitlines() if not line.startswith(("  --", "    --"))]
        assert max(map(len, free)) <= width, width
    text = sweep_text(small_sweep)
    drawn = ("k=1", "o measured", "requests at once", "80 % interval", "[seed000]", "one fixed k")
    for word in drawn:
        assert word in text
    assert sweep_text(small_sweep, Paper(unicode=False)).isascii()


def test_every_curve_and_pair_is_in_the_plot(small_sweep: Sweep) -> None:
    text = sweep_text(small_sweep)
    plot = text[text.index("┌") : text.index("└")]
    for mark in "1234o":
        assert mark in re.sub(r"[-+]\d+┤", "", plot), mark


def test_command_draws_without_colour_when_piped() -> None:
    run = [sys.executable, "-m", "advisor", *words("sweep --hw gb10 --vary concurrency=1..16")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout and "requests at once" in done.stdout


def test_the_chart_holds_the_data_of_the_sweep(small_sweep: Sweep) -> None:
    """Every gain, interval and measured pair is drawn, as it was computed."""
    chart = charts(small_sweep)[0]
    assert chart.axis == "concurrency" and [c.arm[1:] for c in chart.curves] == [
        (k, False) for k in (1, 2, 3, 4)
    ]
    for curve in chart.curves:
        points = [load.point(curve.arm[1]) for load in small_sweep.loads]
        assert list(curve.x) == [float(load.request.concurrency) for load in small_sweep.loads]
        for share, drawn in (("p10", curve.low), ("p50", curve.middle), ("p90", curve.high)):
            told = [100 * (getattr(point.gain, share) - 1) for point in points if point]
            assert list(drawn) == pytest.approx(told)
    assert {(p.x, p.metric, p.source) for p in chart.measured} == {
        (row.concurrency, row.metric, row.source) for row in small_sweep.pairs
    }


def test_without_a_number_that_varies_there_is_no_chart() -> None:
    names = sweep(Request(hardware="gb10"), {"k": [1, 2]})
    assert not charts(names) and "GB10" in sweep_text(names)


@pytest.mark.parametrize(
    ("crossed", "told"),
    [
        ([(377, "falls")], "stops gaining at about 377 "),
        ([(12, "rises")], "begins gaining at about 12"),
        ([(251, "falls"), (363, "rises"), (579, "falls")],
         "gains up to about 251 and from 363 to 579 "),
        ([(8, "rises"), (64, "falls"), (90, "rises")], "gains from about 8 to 64 and from 90 on "),
    ],
)  # fmt: skip
def test_islands_of_a_gain_are_told_as_ranges(
    crossed: list[tuple[float, Literal["falls", "rises"]]], told: str
) -> None:
    found = [
        BreakEven(axis="concurrency", setting=(), method="mtp", k=1, quantile="p50", at=at,
                  direction=direction)
        for at, direction in reversed(crossed)
    ]  # fmt: skip
    chart = charts(sweep(Request(hardware="gb10"), {"concurrency": [1, 8], "k": [1]}))[0]
    (line,) = crossings(chart._replace(break_even=tuple(found)))
    assert line.startswith("k=1") and told in line
