"""The published configurations that we started from: the documented decision, and the measured
speed-up inside the interval.
"""

from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from advisor.advice import judge, recommend
from advisor.advice.decide import vetoes
from advisor.advice.plans import propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Goal, Interval, Plan, Request
from advisor.prediction import estimates
from tests.tables import cells, load_yaml

CASES: list[dict[str, Any]] = load_yaml(Path(__file__).with_suffix(".yaml"))["cases"]
NEAR = 0.15  # of the measured ratio
# Points whose median is further off though the question states what was accepted, with what the
# source or own runs show of it (docs/research/notes.md, experts in host memory).
FAR: dict[tuple[str, str], str] = {
    **{
        (f"2x3090-vllm-k1-{streams}", "tpot"): (
            "16 and 17 % too good where output of the same runs is 10 to 13 %; no cause found"
        )
        for streams in ("four", "eight")
    },
    ("2x3090-vllm-k1-single", "ttft"): (
        "the same arm's first token takes 53.9 ms here and 82 ms in the source's next sweep, that "
        "without drafts 78.6 ms"
    ),
    **{
        (f"3090-llama-draft-model-{k}", "request_tok_s"): (
            "a build whose --draft-p-min was 0.75, so drafts ended early (later the source "
            "measured 42.8 for 32.7 tok/s with it, ERRATA A10); what was accepted is withdrawn"
        )
        for k in (8, 32, 64)
    },
    ("3090-llama-draft-model-controlled", "request_tok_s"): (
        "785 copies of the states at 21.9 ms and 728 restores at 29.8 ms are 39 of its 97 s (timed "
        "in the source, ERRATA A12); other owners pay half of that or nothing"
    ),
    **{
        (f"3090-llama-dflash-{k}", "output_tok_s"): (
            "cycles of 4.6 and 8.4 plain steps where the same model takes 5.7 for the longer on a "
            "V100 and 7.1 on an RX 7900 XTX; half of a token's time here goes by the processor's "
            "clock (the source's run Y). Not experts in system memory: its plain run is as fast as "
            "with all layers on the card"
        )
        for k in (8, 16)
    },
    ("3090-llama-dflash-eight-streams", "output_tok_s"): (
        "experts of about six layers in system memory, copied to the card for 40 tokens a step: "
        "how fast this host copies is not published"
    ),
}
# Measured points outside the printed 80 % interval, each with its reason.
KNOWN_MISSES: dict[tuple[str, str], str] = {
    ("3090-llama-draft-model-64", "request_tok_s"): (
        "a separate draft on a hybrid model: 0.40 at 8 tokens, 0.61 at 64; the engine ends drafts "
        "early, so 64 is priced as 8"
    ),
    ("3090-llama-dflash-eight-streams", "output_tok_s"): "1.00 at four: states nobody timed",
}


def ask(case: dict[str, Any], goal: Goal = "balanced") -> Request:
    return Request.model_validate({**case["request"], "goal": goal})


def arm_plan(case: dict[str, Any], request: Request) -> tuple[Any, Plan]:
    facts = facts_for_request(request)
    base = judge.workable_layouts([facts])[0]()[0].plan
    plan = propose.with_method(facts, base, case["arm"]["method"], case["arm"]["k"] or 3)
    return facts, Plan.model_validate({**plan.model_dump(), **case.get("launched", {})})


def goals(case: dict[str, Any]) -> list[tuple[Goal, str]]:
    named = {g: d for g, d in case["decision"].items() if g != "any"}
    rest = case["decision"].get("any")
    every: tuple[Goal, ...] = ("throughput", "tpot", "balanced")
    if "ttft" in case["measured"] or "ttft" in named:  # decode says nothing of the first token
        every = (*every, "ttft")
    return [(g, named.get(g, rest)) for g in every if named.get(g, rest)]


MTP = [c for c in CASES if c["arm"]["method"] == "mtp"]
OTHER = [c for c in CASES if c["arm"]["method"] not in ("mtp", "none")]


@pytest.mark.parametrize("case", MTP, ids=lambda c: c["id"])
def test_documented_decision(case: dict[str, Any]) -> None:
    for goal, documented in goals(case):
        advice = recommend.recommend(ask(case, goal))
        k = f" with k={advice.plan.k}" if advice.decision == "on" else ""
        # the time to first token decides only where its interval excludes 1
        unsure = ("measure",) if goal == "ttft" else ()
        allowed = {documented, *case.get("accept", ()), *unsure}
        assert {advice.decision, advice.decision + k} & allowed, (goal, advice.reasons[0].text)


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


FIELDS = cells("output_tok_s=output_tok_s request_tok_s=tpot_ms tpot=tpot_ms ttft=ttft_ms")


@cache
def measured_points(stated: bool = False) -> tuple[tuple[str, str, float, Interval], ...]:
    """(case, metric, ratio, printed interval) of measured pairs; `stated`: accepted as measured."""
    out = []
    for case in CASES:
        # its author still stands by the pair
        measured = case["evidence"] == "measured" and case["arm"]["method"] != "none"
        if measured and "superseded_by" not in case:
            given = case.get("stated", {}) if stated else {}
            facts, plan = arm_plan(case, ask({**case, "request": {**case["request"], **given}}))
            estimate = estimates.estimate(facts, [plan])[0]
            out += [
                (case["id"], metric, ratio, getattr(estimate, FIELDS[metric]).speedup)
                for metric, ratio in case["measured"].items()
            ]
    return tuple(out)


def middle_half(interval: Interval) -> tuple[float, float]:
    """The 50 % interval: each side's share of its half-width in a normal."""
    part = NormalDist().inv_cdf(0.75) / NormalDist().inv_cdf(0.9)
    low, high = interval.p50 / interval.p10, interval.p90 / interval.p50
    return interval.p50 / low**part, interval.p50 * high**part


def is_near(ratio: float, interval: Interval) -> bool:
    return abs(interval.p50 / ratio - 1) <= NEAR


def test_measured_speedups_lie_inside_the_printed_interval() -> None:
    outside = {
        (case, metric)
        for case, metric, ratio, interval in measured_points()
        if not interval.p10 <= ratio <= interval.p90
    }
    assert len(measured_points()) >= 40
    assert outside <= set(KNOWN_MISSES), outside - set(KNOWN_MISSES)
    assert len(outside) <= 2


def test_half_of_the_measured_speedups_lie_inside_the_half_interval() -> None:
    inside = [
        low <= ratio <= high
        for _, _, ratio, interval in measured_points()
        for low, high in [middle_half(interval)]
    ]
    assert sum(inside) >= 0.5 * len(inside)


def test_what_the_seed_measured_lies_in_the_middle_of_the_readmes_answer() -> None:
    asked = Request(hardware="gb10", concurrency=16, ctx_tokens=2048)
    low, high = middle_half(recommend.recommend(asked, what_if=False).estimate.output_tok_s.speedup)
    assert low <= 266.25 / 214.28 <= high  # output tok/s with k = 2 and without


def test_the_median_is_near_what_was_measured() -> None:
    """Within 15 %, as many as were reached: without and with the source's acceptance."""
    without, told = (
        sum(is_near(ratio, interval) for *_, ratio, interval in measured_points(stated))
        for stated in (False, True)
    )
    assert without >= 27 and told >= 32


def test_every_median_that_is_far_has_a_named_cause() -> None:
    far = {
        (case, metric)
        for case, metric, ratio, interval in measured_points(stated=True)
        if not is_near(ratio, interval)
    }
    assert far <= set(FAR), far - set(FAR)


def test_no_stated_acceptance_is_more_than_its_drafts_allow() -> None:
    rows = [(case, case["stated"]) for case in CASES if case.get("stated") is not None]
    assert len(rows) == 22
    for case, told in rows:
        assert 1 <= told["acceptance_length"] <= told["acceptance_k"] + 1, case["id"]
        assert told["acceptance_k"] == case["arm"]["k"], case["id"]
