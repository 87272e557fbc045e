"""What the text calls not predictable is a field of the estimate, for every reader."""

import json

import pytest
from click.testing import CliRunner

from advisor.advice.recommend import recommend
from advisor.cli.app import cli
from advisor.domain.nouns import Interval, Request
from advisor.prediction.estimates import with_levels


@pytest.mark.parametrize(
    ("gain", "told"),
    [
        ((0.5, 0.72, 1.1), False),  # neither the sign nor the size
        ((0.5, 0.72, 0.9), True),  # the sign
        ((1.1, 2.0, 4.0), True),
        ((0.9, 1.0, 1.2), True),  # the size: within 1.5
        ((0.9, 1.0, 1.4), False),
    ],
)
def test_a_sign_or_a_size_is_needed(gain: tuple[float, float, float], told: bool) -> None:
    speedup = Interval(p10=gain[0], p50=gain[1], p90=gain[2])
    assert with_levels(speedup, 100.0, 0.2, "ttft").predictable is told
    assert with_levels(speedup, 100.0, 0.2, "tpot").predictable


def _run(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_every_reader_gets_what_the_text_says() -> None:
    hardware = "gb10"
    asked = ("--hw", hardware, "--concurrency", "16")
    advice = recommend(Request(hardware=hardware, concurrency=16))
    assert advice.estimate is not None
    told = advice.estimate.ttft_ms.predictable
    line = next(row for row in _run("recommend", *asked).splitlines() if row.startswith("TTFT"))
    assert ("not predictable" in line) is not told
    made = json.loads(_run("recommend", *asked, "--format", "json"))
    assert made["estimate"]["ttft_ms"]["predictable"] is told
    assert made["estimate"]["tpot_ms"]["predictable"] is True
    load = json.loads(_run("sweep", *asked, "--vary", "concurrency=16", "--format", "json"))
    k = load["loads"][0]["best_k"]
    points = [point for point in load["loads"][0]["points"] if point["k"] == k]
    assert points[0]["ttft_ms"]["predictable"] is told
    table = _run("compare", hardware, "b200", "--concurrency", "16")
    cells = next(row for row in table.splitlines() if row.startswith("TTFT"))
    assert told or "not predictable" in cells
