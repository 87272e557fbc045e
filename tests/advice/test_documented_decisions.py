"""The published configurations that we started from: the documented decision, and the measured
speed-up inside the interval.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
import yaml

from advisor.advice import judge, recommend
from advisor.advice.decide import vetoes
from advisor.advice.plans import propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, Estimate, Goal, Interval, Plan, Request
from advisor.prediction import estimates

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "test_documented_decisions.yaml").read_text()
)["cases"]
# Measured points outside the printed 80 % interval, each with its reason.
KNOWN_MISSES: dict[tuple[str, str], str] = {
    ("3090-llama-draft-model-64", "request_tok_s"): (
        "a separate draft on a hybrid model: 0.40 at 8 tokens, 0.61 at 64; the engine ends drafts "
        "early, so 64 is priced as 8"
    ),
    ("3090-llama-dflash-eight-streams", "output_tok_s"): (
        "eight streams drafted one after the other, 0.26 measured by one source alone"
    ),
}


def ask(case: dict[str, Any], goal: Goal = "balanced") -> Request:
    return Request.model_validate({**case["request"], "goal": goal})


def arm_plan(case: dict[str, Any], request: Request) -> tuple[Any, Plan]:
    facts = facts_for_request(request)
    base = judge.workable_base(facts).plan
    return facts, propose.with_method(facts, base, case["arm"]["method"], case["arm"]["k"] or 3)


def goals(case: dict[str, Any]) -> list[tuple[Goal, str]]:
    named = {g: d for g, d in case["decision"].items() if g != "any"}
    rest = case["decision"].get("any")
    every: tuple[Goal, ...] = ("throughput", "tpot", "balanced")
    if (
        "ttft" in case["measured"] or "ttft" in named
    ):  # decode measurements say nothing of the first token
        every = (*every, "ttft")
    return [(g, named.get(g, rest)) for g in every if named.get(g, rest)]


MTP = [c for c in CASES if c["arm"]["method"] == "mtp"]
OTHER = [c for c in CASES if c["arm"]["method"] not in ("mtp", "none")]


@pytest.mark.parametrize("case", MTP, ids=lambda c: c["id"])
def test_documented_decision(case: dict[str, Any]) -> None:
    for goal, documented in goals(case):
        advice = recommend.recommend(ask(case, goal))
        assert isinstance(advice, Advice)
        k = f" with k={advice.plan.k}" if advice.decision == "on" else ""
        # the time to first token decides only where its interval excludes 1
        unsure = ("measure",) if goal == "ttft" else ()
        allowed = {documented, *case.get("accept", ()), *unsure}
        assert {advice.decision, advice.decision + k} & allowed, (
            case["id"],
            goal,
            advice.reasons[0].text,
        )


@pytest.mark.parametrize("case", OTHER, ids=lambda c: c["id"])
def test_documented_decision_of_other_methods(case: dict[str, Any]) -> None:
    """Plans of other methods are judged as they stand: off means a documented loss or a smaller
    k, on means
    neither.
    """
    facts, plan = arm_plan(case, ask(case))
    found = judge.judge(facts, plan, estimates.estimate(facts, [plan])[0]).findings
    limited = any(f.effect == "k_max" and f.k_max is not None and f.k_max < plan.k for f in found)
    off = bool(vetoes(found)) or any(f.effect == "loss" for f in found) or limited
    documented = {case["arm_decision"]} if "arm_decision" in case else {d for _, d in goals(case)}
    assert off == (documented == {"off"}), [f.message for f in found]


def printed_value(estimate: Estimate, metric: str) -> Any:
    return {
        "output_tok_s": estimate.output_tok_s,
        "request_tok_s": estimate.tpot_ms,
        "tpot": estimate.tpot_ms,
        "ttft": estimate.ttft_ms,
    }[metric].speedup


def has_measured_pair(case: dict[str, Any]) -> bool:
    """Whether its author still stands by the pair."""
    return (
        case["evidence"] == "measured"
        and case["arm"]["method"] != "none"
        and "superseded_by" not in case
    )


@cache
def measured_points() -> tuple[tuple[str, str, float, Interval], ...]:
    """(case, metric, measured ratio, printed interval) of every measured pair."""
    out = []
    for case in CASES:
        if has_measured_pair(case):
            facts, plan = arm_plan(case, ask(case))
            estimate = estimates.estimate(facts, [plan])[0]
            out += [
                (case["id"], metric, ratio, printed_value(estimate, metric))
                for metric, ratio in case["measured"].items()
            ]
    return tuple(out)


def middle_half(interval: Interval) -> tuple[float, float]:
    """The 50 % interval: each side's share of its half-width in a normal."""
    part = NormalDist().inv_cdf(0.75) / NormalDist().inv_cdf(0.9)
    low, high = interval.p50 / interval.p10, interval.p90 / interval.p50
    return interval.p50 / low**part, interval.p50 * high**part


def test_a_table_of_the_documented_points() -> None:
    """Printed with `pytest -rP`: what was measured beside what is said of it."""
    pairs = [case for case in CASES if has_measured_pair(case) and case["arm"]["method"] == "mtp"]
    decided = {case["id"]: recommend.recommend(ask(case)).decision for case in pairs}
    print(f"{'case':34} {'decision':9} {'metric':13} measured   p50   80 % interval  within")
    counts = {"80 %": 0, "50 %": 0, "15 % of p50": 0}
    for name, metric, ratio, interval in measured_points():
        low, high = middle_half(interval)
        within = {
            "80 %": interval.p10 <= ratio <= interval.p90,
            "50 %": low <= ratio <= high,
            "15 % of p50": abs(interval.p50 / ratio - 1) <= 0.15,
        }
        for word, inside in within.items():
            counts[word] += inside
        print(
            f"{name:34} {decided.get(name, ''):9} {metric:13} {ratio:8.2f} {interval.p50:5.2f}   "
            f"{interval.p10:5.2f} to {interval.p90:5.2f}  "
            + ", ".join(word for word, inside in within.items() if inside)
        )
    print(f"of {len(measured_points())}: {counts}")
    assert len(measured_points()) >= 40 and len(decided) >= 15


def test_measured_speedups_lie_inside_the_printed_interval() -> None:
    outside = {
        (case, metric)
        for case, metric, ratio, interval in measured_points()
        if not interval.p10 <= ratio <= interval.p90
    }
    assert outside <= set(KNOWN_MISSES), outside - set(KNOWN_MISSES)
    assert len(outside) <= 2
    assert len(outside) <= 0.2 * len(measured_points())


def test_half_of_the_measured_speedups_lie_inside_the_half_interval() -> None:
    inside = [
        low <= ratio <= high
        for _, _, ratio, interval in measured_points()
        for low, high in [middle_half(interval)]
    ]
    assert sum(inside) >= 0.5 * len(inside)


def test_the_median_is_near_what_was_measured() -> None:
    """Six of ten medians within 15 %; the others are single prompts, streams drafted one after the
    other, and times to first token with cached prompts.
    """
    near = [abs(interval.p50 / ratio - 1) <= 0.15 for _, _, ratio, interval in measured_points()]
    assert sum(near) >= 0.6 * len(near)
