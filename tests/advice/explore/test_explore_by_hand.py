"""Words and sums over hand-made loads: by_hand.yaml and the curves of the hand-made screens."""

from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice import adaptive
from advisor.advice.explore import policy, why_not
from advisor.advice.explore.axes import parse_axis, series
from advisor.advice.explore.compare import ArmOverLoads, compare_over
from advisor.advice.explore.k_ranges import merge_ranges
from advisor.advice.explore.values import break_evens
from advisor.domain.nouns import AdvisorError, Interval, Reason
from tests.render.test_curves_by_hand import LOADS, POLICY, load, point
from tests.tables import load_yaml

BY_HAND = load_yaml(Path(__file__).with_name("by_hand.yaml"))
LENGTHS = {k: Interval(p10=1.0, p50=length, p90=3.0) for k, length in ((1, 1.8), (2, 2.4))}
BEYOND = {"gain": Interval(p10=1.0, p50=1.6, p90=2.0), "forbidden_by": ("SD201",)}
REASONS = [Reason(text=t, weight=w) for t, w in (("middle", 2), ("light", 1), ("heavy", 3))]


@pytest.mark.parametrize(("decision", "asked", "head", "reasons"), BY_HAND["why_not"])
def test_why_not_is_answered_beside_the_best(
    decision: str, asked: str, head: str, reasons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [point(k, gain, accepted_length=LENGTHS[k]) for k, gain in ((1, 1.2), (2, 1.5))]
    made = load(4, *points, point(3, 1.6, **BEYOND), best_method="mtp", best_k=2, decision=decision,
                lacking=((7, "seven is too many"),))  # fmt: skip
    monkeypatch.setattr(why_not, "sweep", lambda request, vary: SimpleNamespace(loads=[made]))
    monkeypatch.setattr(why_not, "recommend", lambda *_, **__: SimpleNamespace(reasons=REASONS))
    found = why_not.why_not(cases.REQUEST, asked)
    assert (found.head, list(found.reasons)) == (head, reasons)


@pytest.mark.parametrize(
    ("refusal", "decision", "word"),
    [("no memory", "off", ""), (None, "off", "off"), (None, "measure", "to measure first")],
)
def test_why_not_where_nothing_can_draft(
    refusal: str | None, decision: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load(4, refusal=refusal)
    answer = SimpleNamespace(decision=decision, reasons=REASONS)
    monkeypatch.setattr(why_not, "sweep", lambda request, vary: SimpleNamespace(loads=[made]))
    monkeypatch.setattr(why_not, "recommend", lambda *_, **__: answer)
    head = refusal or f"the answer is {word}: no speculative method is known to run here"
    assert why_not.why_not(cases.REQUEST, "k=2").head == head


def test_one_launch_says_what_it_loses_at_worst() -> None:
    """Of the gains 1.5 of 1.5, 1.1 of 1.25 and 0.5 of 1: half, at 64 requests."""
    made = policy.as_advice(POLICY, cases.on())
    first = "One launch for 4 to 64 requests, figures of the most: "
    worst = "beside the best of each load at worst -50 %, at 64"
    assert made.reasons[0].text == f"{first}not surely a gain at 16, 64; {worst}"
    assert (made.decision, made.decided_by, made.reasons[0].weight) == ("measure", "unsure", 5.0)
    assert made.plan.k == 0 and made.launch == POLICY.launch_off and made.candidate.k == 2
    sure = policy.as_advice(POLICY.replace(decision="on", unsure=()), cases.on())
    assert sure.reasons[0].text == first + worst and sure.decided_by == "estimate"
    assert sure.plan.k == 2 and sure.launch == POLICY.launch == sure.launch_on


@pytest.mark.parametrize(("sure", "gains"), [(adaptive.SURE, [1.4, 1.3]), (0.1, [])])
def test_adaptive_verification_is_taken_where_it_is_surely_faster(
    sure: float, gains: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the mean log of 1.4 / 1.2 and 1.3 / 1.2."""
    seen: list[Any] = []

    def measure(facts: Any, plan: Any) -> Any:
        seen.append(plan)
        return SimpleNamespace(beside=lambda more: seen.append(more) or sure)

    monkeypatch.setattr(adaptive, "measure", measure)
    loads = [
        load(n, point(2, 1.2), point(2, own, adaptive=True)) for n, own in ((1, 1.4), (2, 1.3))
    ]
    assert policy._adaptive_gains(cases.FACTS, cases.plan(2), loads) == gains
    assert seen == [cases.plan(2), pytest.approx((log(1.4 / 1.2) + log(1.3 / 1.2)) / 2)]
    assert policy._adaptive_gains(cases.FACTS, cases.plan(2), loads[:1] + [LOADS[0]]) == []


def test_a_range_that_is_not_whole_is_even_with_both_ends() -> None:
    assert series(0.0, 1.0, 5, whole=False) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert series(0.5, 0.5, 5, whole=False) == [0.5]
    assert (
        parse_axis("temperature=0..1")[1][-1] == 1.0
        and len(parse_axis("temperature=0..1")[1]) == 20
    )
    assert merge_ranges([4, 16, 64], [2, 2, 0], 100) == ((1, 63, 2), (64, 100, 0))
    assert merge_ranges([4], [1], 2) == ((1, 4, 1),)


def test_what_cannot_be_compared_by_speed_comes_last() -> None:
    blind = point(2).replace(output_tok_s=point(2).output_tok_s.replace(value=None, baseline=None))
    arm = ArmOverLoads(label="a", kind="engine", points=(None, blind, point(2, 1.5), point(0)))
    assert [arm.score(i) for i in range(4)] == [0.0, 0.0, 150.0, 100.0]
    arm = ArmOverLoads(label="a", kind="method", points=(None, point(2, 1.5), point(0)))
    assert [arm.score(i) for i in range(3)] == [0.0, 1.5, 0.0]
    names = ("mtp", "dflash", "eagle3", "ngram", "eagle", "dspark", "draft_model")
    with pytest.raises(
        AdvisorError, match=r"takes 2 to 6 names here, not 7 \(up to 6 with a range"
    ):
        compare_over(cases.REQUEST, names, 4)


def test_a_curve_crosses_where_its_logarithm_does() -> None:
    """1.5 at 4 and 1.1 at 16 and 0.5 at 64: from 16 on log 1.1 of log 2.2 of the way to 64."""
    found = [
        one for one in break_evens(LOADS[:3], "concurrency") if (one.k, one.quantile) == (2, "p50")
    ]
    (one,) = found
    assert one.at == pytest.approx(16 * 4 ** (log(1.1) / log(2.2))) and one.direction == "falls"
    back = break_evens([load(1, point(2, 0.8)), load(2, point(2, 1.25))], "concurrency")
    assert [(one.quantile, one.direction) for one in back] == [
        ("p10", "rises"), ("p50", "rises"), ("p90", "rises"),
    ]  # fmt: skip
    assert break_evens(LOADS, None) == ()
