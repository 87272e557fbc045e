"""A sweep answers each load as `recommend` does there, in one call, and says where curves cross."""

import random
import re
from itertools import pairwise
from typing import Any, Literal
from unittest.mock import Mock

import pytest
from effort import at_most

from advisor.advice.explore.axes import axes, parse_axis, series
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import BreakEven, Sweep
from advisor.advice.recommend import recommend
from advisor.domain.nouns import AdvisorError, Request
from advisor.prediction import estimates
from advisor.render.explore.chart import charts, crossings, higher_medians
from advisor.render.explore.text import sweep_text
from tests.grid import HARDWARE, LOADS, MODELS
from tests.tables import words

GB10 = Request(hardware="gb10")


def curves(request: Request = GB10, **vary: Any) -> Sweep:
    return sweep(request, vary)


def questions(count: int, seed: int = 7) -> list[Request]:
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        name, gpus, link = draw.choice(HARDWARE)
        concurrency, ctx = draw.choice(LOADS)
        asked = {"hardware": name, "gpus": gpus, "interconnect": link, "ctx_tokens": ctx}
        asked |= {"concurrency": concurrency, "model": draw.choice(MODELS)}
        made.append(Request(**asked, goal=draw.choice(("balanced", "throughput", "tpot", "ttft"))))
    return made


def test_five_k_at_twenty_loads_cost_little() -> None:
    """26 ordinary files of twenty servers where this was written (4 ms each)."""
    curves(concurrency=[1])  # what is read once
    with at_most(250):
        found = curves(concurrency=[int(v) for v in series(1, 128)], k=range(5))
    assert sum(len(load.points) for load in found.loads) == 100


def test_one_call_estimates_all_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Mock(wraps=estimates.predict_batch)
    monkeypatch.setattr(estimates, "predict_batch", count)
    curves(concurrency=[1, 4, 16, 64], k=[0, 1, 2])
    assert [len(call.args[0]) for call in count.call_args_list] == [8]


def test_break_even_lies_between_the_loads_where_the_gain_changes_sign() -> None:
    request = Request(hardware="h100", model="qwen3.6-27b", engine="vllm", output_tokens=64)
    found = sweep(request, {"concurrency": [1, 8, 64, 256, 1024], "k": [1, 5]})
    assert found.break_even  # a curve of so deep a draft crosses somewhere
    for one in found.break_even:
        rows = [
            (load.request.concurrency, getattr(load.point(one.k).gain, one.quantile))
            for load in found.loads
        ]
        low, high = next(
            (a, b) for a, b in pairwise(rows) if a[0] <= one.at <= b[0] and (a[1] > 1) != (b[1] > 1)
        )
        assert (low[1] > high[1]) == (one.direction == "falls")
    # 85 requests with 5 drafts make steps of 510 tokens, and vLLM's graphs end at 512 (SD425)
    found = sweep(request.replace(hardware="b200"), {"concurrency": [64], "k": [5]})
    text = " ".join(sweep_text(found).split())
    assert "k=5 leaves vLLM's CUDA graphs (512 tokens a step) from 86 requests on" in text
    assert found.loads[0].point(5).graphs_end == 85


def test_a_load_that_does_not_fit_says_why_and_the_others_stay() -> None:
    found = sweep(Request(hardware="rtx3090"), {"ctx_tokens": [2048, 200_000]})
    assert found.loads[0].points and found.loads[0].refusal is None
    assert "does not fit" in (found.loads[1].refusal or "") and not found.loads[1].points


def test_pairs_are_measured_ones_with_a_source() -> None:
    found = curves(concurrency=[1, 2, 4, 16], k=[0, 2])
    assert {row.source for row in found.pairs} >= {"seed000"}
    assert all(row.covers and row.hardware == "gb10" for row in found.pairs)


@pytest.mark.parametrize(
    ("vary", "word"),
    [
        ({"concurrency": []}, "needs a list"), ({"concurrency": "12"}, "needs a list"),
        *(({"concurrency": [odd]}, "whole number") for odd in (0, 1.5, True, float("nan"))),
        ({"k": [-1]}, "k=-1"), ({"k": [40]}, "k=40"), ({"k": list(range(20))}, "more than"),
        ({"cocurrency": [1]}, "gpus, prefix_share, output_spread, temperature. Did you mean 'conc"),
        ({"x" * 60: [1]}, "^'x{23} ... x{12}' cannot be varied; what can: k, concurrency, ctx, ou"),
        ({"hardware": ["gb10", "h100"]}, "cannot be varied"),
        ({"concurrency": list(range(1, 60)), "ctx_tokens": list(range(1, 60))}, "of one sweep"),
        *((text, "") for text in (
            "", *words("k k= =1 k=1..x k=0..99"),
            *(f"concurrency={odd}" for odd in words("9..1 1..9/1 1..1e99 1..2..3 ² nan..5")))),
    ],
)  # fmt: skip
def test_what_cannot_be_varied_is_refused_in_one_sentence(vary: Any, word: str) -> None:
    with pytest.raises(AdvisorError, match=word or None) as refused:
        if isinstance(vary, str):
            axes(dict([parse_axis(vary)]))
        else:
            sweep(GB10, vary)
    assert "\n" not in str(refused.value)


def test_a_range_is_geometric_with_both_ends() -> None:
    name, values = parse_axis("concurrency=1..128")
    assert name == "concurrency" and values[0] == 1 and values[-1] == 128 and len(values) == 20
    assert all(a < b for a, b in pairwise(values)) and parse_axis("k=0..4")[1] == (0, 1, 2, 3, 4)
    assert parse_axis("ctx=512,8k,1m")[1] == (512, 8192, 1_048_576)
    assert parse_axis("concurrency=3..5")[1] == (3, 4, 5)
    assert dict(axes({"ctx": [5]}).fields) == {"ctx_tokens": (5,)}


def test_series_holds_for_any_ends() -> None:
    draw = random.Random(3)
    for _ in range(500):
        low = draw.randint(1, 1000)
        high = low + draw.randint(0, draw.choice((60, 100_000)))
        points = draw.randint(2, 50)
        made = series(low, high, points)
        assert made[0] == low and made[-1] == high and len(made) <= points
        assert made == sorted(set(made))


def test_sentences_and_table_name_the_same_k() -> None:
    throughout = higher = unpredictable = 0
    for asked in [
        {"hardware": "gb10"},
        {"hardware": "h200", "model": "qwen3.6-27b"},
        {"hardware": "rtx5090", "model": "qwen3.8-27b", "engine": "llama-server"},
        {"hardware": "h100", "goal": "tpot"},
        {"hardware": "mi300x", "goal": "ttft"},
    ]:
        found = sweep(Request(**asked), {"concurrency": [1, 4, 16, 32, 96], "k": range(6)})
        text = " ".join(sweep_text(found).split())
        if (same := re.search(r"k=(\d+) is best at every load", text)) is not None:
            throughout += 1
            assert {load.best_k for load in found.loads} == {int(same[1])}
        (chart,) = charts(found)
        told = " ".join(higher_medians(chart))
        for best, load in ((load.point(load.best_k), load) for load in found.loads if load.best_k):
            rivals = [p for p in load.points if not p.forbidden_by and p.running == best.running]
            top = max(rivals, key=lambda p: p.gain.p50)
            if not best.predictable:  # neither a figure nor a claim that one is higher
                unpredictable += 1
                assert "not predictable" in text and "higher median" not in told
            elif top.gain.p50 > 1.02 * best.gain.p50 and load.decision != "off":
                higher += 1
                assert f"k={best.k} is recommended where k={top.k} has a higher median" in told
    assert (throughout, higher, unpredictable) == (1, 8, 5)


def test_a_point_has_the_chance_of_the_objective_that_recommend_has() -> None:
    asked = Request(hardware="h100", concurrency=32, max_tpot_ms=20.0)
    load = sweep(asked, {"concurrency": [32]}).loads[0]
    answer = recommend(asked, what_if=False)
    points = (load.point(0), load.point(answer.candidate.k))
    chances = [point.p_objective for point in points if point is not None]
    assert chances == [
        pytest.approx(answer.objective.chance_without, abs=0.01),
        pytest.approx(answer.objective.chance, abs=0.01),
    ]
    bare = sweep(Request(hardware="h100"), {"concurrency": [32]}).loads[0]
    assert {point.p_objective for point in bare.points} == {None}


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
def test_islands_of_gain(crossed: list[tuple[float, Literal["falls", "rises"]]], told: str) -> None:
    found = [
        BreakEven(axis="concurrency", setting=(), method="mtp", k=1, quantile="p50", at=at,
                  direction=direction)
        for at, direction in reversed(crossed)
    ]  # fmt: skip
    chart = charts(sweep(Request(hardware="gb10"), {"concurrency": [1, 8], "k": [1]}))[0]
    (line,) = crossings(chart._replace(break_even=tuple(found)))
    assert line.startswith("k=1") and told in line
