"""The published configurations that we started from: the documented decision, and the measured
speed-up inside the interval.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.advice import judge as judging
from advisor.advice import recommend as pipeline
from advisor.advice.decide import vetoes
from advisor.advice.plans import propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, Estimate, Goal, Plan, Request
from advisor.prediction import predict as predictor

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "test_documented_decisions.yaml").read_text()
)["cases"]
# Measured points outside the printed 80 % interval, each with its reason: at most a fifth of all.
KNOWN_MISSES: dict[tuple[str, str], str] = {
    ("2x3090-vllm-k1-single", "ttft"): "the time to first token is not predicted as a number",
    ("3090-llama-draft-model-32", "request_tok_s"): (
        "a separate draft on a hybrid model: 0.40 to 0.61 measured, a quarter expected"
    ),
    ("3090-llama-draft-model-64", "request_tok_s"): "the same",
    ("3090-llama-dflash-eight-streams", "output_tok_s"): (
        "eight streams drafted one after the other, 0.26 measured by one source alone"
    ),
    ("gb10-c-mid-concurrency", "ttft"): (
        "measured with prefix caching, which cuts the plain arm's prompts"
    ),
    ("3090-llama-dflash-first-report", "request_tok_s"): (
        "not trained on: its author replaced it, the off arm was another binary"
    ),
}


def ask(case: dict[str, Any], goal: Goal = "balanced") -> Request:
    return Request.model_validate({**case["request"], "goal": goal})


def arm_plan(case: dict[str, Any], request: Request) -> tuple[Any, Plan]:
    facts = facts_for_request(request)
    base = judging.workable_base(facts).plan
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
        advice = pipeline.recommend(ask(case, goal))
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
    found = judging.judge(facts, plan, predictor.estimate(facts, [plan])[0]).findings
    limited = any(f.effect == "k_max" and f.k_max is not None and f.k_max < plan.k for f in found)
    off = bool(vetoes(found)) or any(f.effect == "loss" for f in found) or limited
    documented = {case["arm_decision"]} if "arm_decision" in case else {d for _, d in goals(case)}
    assert off == (documented == {"off"}), [f.message for f in found]


def printed(estimate: Estimate, metric: str) -> Any:
    return {
        "output_tok_s": estimate.output_tok_s,
        "request_tok_s": estimate.tpot_ms,
        "tpot": estimate.tpot_ms,
        "ttft": estimate.ttft_ms,
    }[metric].speedup


def misses(measured_only_on: bool = False) -> list[tuple[str, str, str]]:
    out = []
    for case in CASES:
        if case["evidence"] != "measured" or case["arm"]["method"] == "none":
            continue
        facts, plan = arm_plan(case, ask(case))
        estimate = predictor.estimate(facts, [plan])[0]
        for metric, ratio in case["measured"].items():
            interval = printed(estimate, metric)
            if not interval.p10 <= ratio <= interval.p90:
                out.append(
                    (
                        case["id"],
                        metric,
                        f"{ratio:.3f} outside {interval.p10:.3f} to {interval.p90:.3f}",
                    )
                )
    return out


def test_measured_speedups_lie_inside_the_printed_interval() -> None:
    found = misses()
    unknown = [m for m in found if (m[0], m[1]) not in KNOWN_MISSES]
    assert not unknown, unknown
    measured = sum(
        len(case["measured"])
        for case in CASES
        if case["evidence"] == "measured" and case["arm"]["method"] != "none"
    )
    assert len(found) <= 0.2 * measured
