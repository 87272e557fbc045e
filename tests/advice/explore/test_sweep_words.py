"""What a sweep says in sentences agrees with its table."""

import re
from typing import Any

import pytest

from advisor.advice.explore.compare import compare
from advisor.advice.explore.sweep import sweep
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Request
from advisor.render.explore.chart import charts, higher_medians
from advisor.render.explore.text import sweep_text

SWEPT: list[dict[str, Any]] = [
    {"hardware": "gb10"},
    {"hardware": "h200", "model": "qwen3.6-27b"},
    {"hardware": "rtx5090", "model": "qwen3.8-27b", "engine": "llama-server"},
    {"hardware": "h100", "goal": "tpot"},
    {"hardware": "mi300x", "goal": "ttft"},
]


@pytest.mark.parametrize("asked", SWEPT, ids=lambda asked: "-".join(map(str, asked.values())))
def test_sentences_and_table_name_the_same_k(asked: dict[str, Any]) -> None:
    found = sweep(Request(**asked), {"concurrency": [1, 4, 16, 32, 96], "k": range(6)})
    text = " ".join(sweep_text(found).split())
    if (throughout := re.search(r"k=(\d+) is best at every load", text)) is not None:
        assert {load.best_k for load in found.loads} == {int(throughout[1])}
    (chart,) = charts(found)
    told = " ".join(higher_medians(chart))
    for load in found.loads:
        best = load.point(load.best_k) if load.best_k else None
        if best is None:
            continue
        rivals = [p for p in load.points if not p.forbidden_by and p.running == best.running]
        top = max(rivals, key=lambda p: p.gain.p50)
        if best.predictable and top.gain.p50 > 1.02 * best.gain.p50:
            assert f"k={best.k} is recommended where k={top.k} has a higher median" in told
        if not best.predictable:  # neither a figure nor a claim that one is higher
            assert "not predictable" in text and "higher median" not in told


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


def test_a_release_that_changes_no_estimate_is_not_said_to_matter() -> None:
    both = compare(Request(hardware="h100"), ("vllm@0.25.1", "vllm@0.32.0"))
    left, right = (arm.estimate for arm in both.arms)
    same = left.output_tok_s.speedup.p50 == pytest.approx(right.output_tok_s.speedup.p50, rel=1e-3)
    said = any("is expected to gain as much with" in text for text in both.differences)
    assert said == same
