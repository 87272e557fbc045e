"""Words and sums over hand-made loads: by_hand.yaml and the curves of the hand-made screens."""

from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice import adaptive, decide
from advisor.advice.explore import k_ranges as ranges
from advisor.advice.explore import mix_plan, policy, why_not, within
from advisor.advice.explore.axes import parse_axis, series
from advisor.advice.explore.compare import ArmOverLoads, compare_over
from advisor.advice.explore.k_ranges import LoadFacts, merge_ranges
from advisor.advice.explore.mix_plan import PlanLayout
from advisor.advice.explore.values import break_evens
from advisor.domain.nouns import AdvisorError, Interval, Reason
from tests.render.test_curves_by_hand import FINDING, LOADS, POLICY, instance, load, point
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
    head = refusal or f"the answer is {word}: no speculative method is known to run in this layout"
    found = why_not.why_not(cases.REQUEST, "k=2")
    assert (found.asked, found.head) == ("k=2", head)
    assert found.reasons == (() if refusal else ("middle", "light", "heavy"))


def attempt(size: int, chance: float | None, slots: int | None = None) -> Any:
    return SimpleNamespace(size=size, chance=chance, slots=slots, arm=("mtp", 2, False))


@pytest.mark.parametrize(
    ("tries", "found", "between"),
    [
        (((1, 1.0), (8, 0.95), (64, 0.6), (128, 0.2)),
         (64, "objectives", 0.6, 8, "objectives", None), set(range(64, 128))),
        (((1, 0.9), (8, 0.5), (16, None)), (8, "objectives", 0.5, 1, "objectives", None),
         set(range(9, 16))),
        (((1, 1.0), (8, 0.95), (16, 0.95, 12)), (8, "slots", 0.95, 8, "slots", 12),
         set(range(9, 16))),
        (((1, 0.4), (8, 0.3)), (None, "objectives", None, None, "objectives", None), set()),
        (((1, 1.0), (8, 0.6)), (None, "search", 0.6, 1, "objectives", None), set()),
    ],
)  # fmt: skip
def test_the_largest_load_is_the_last_before_the_first_that_fails(
    tries: tuple[tuple[Any, ...], ...], found: tuple[Any, ...], between: set[int]
) -> None:
    """Of 0.5 and of 0.9; where all are kept the search ends it, where others wait the slots."""
    made = within._within([attempt(*one) for one in tries])
    assert (made.method, made.k, made.adaptive) == ("mtp", 2, False)
    assert (made.likely, made.likely_bound, made.p, made.sure, made.sure_bound,
            made.slots) == found  # fmt: skip
    tried = within._between([attempt(*one) for one in tries], within.LIKELY)
    assert tried <= between and (len(tried) >= min(7, len(between)))


@pytest.mark.parametrize(
    ("ranged", "pays", "gain", "rows", "why"),
    [
        ((1.45, 1.3, 1.2), True, (1.45 / 1.2) ** 0.25, ((1, 7, 3), (8, 64, 1)),
         "up to 21 % more than k=1 throughout, at 1 requests"),
        ((1.45, 1.25, 1.2), False, (1.45 / 1.2) ** 0.25 * (1.25 / 1.3) ** 0.5,
         ((1, 63, 3), (64, 64, 1)),
         "k=1 throughout is better: changing k costs the engine 3 % in CUDA graphs"),
        ((1.25, 1.3, 1.2), False, (1.25 / 1.2) ** 0.25, ((1, 63, 3), (64, 64, 1)),
         "k=1 throughout is better: changing k costs the engine 4 % in CUDA graphs"),
    ],
)  # fmt: skip
def test_a_k_by_load_pays_where_the_engine_keeps_its_gain(
    ranged: tuple[float, ...], pays: bool, gain: float, rows: Any, why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The ends count half; another k gives 5 % at its load, all of them lose no 1 %."""
    curves = ((1, 1.2, 1.5, 3), (8, 1.3, 1.32, 3), (64, 1.2, 0.9, 1))
    loads = [load(n, point(1, a), point(3, b), best_method="mtp", best_k=k)
             for n, a, b, k in curves]  # fmt: skip
    monkeypatch.setattr(ranges, "_with_ranges", lambda *_: [log(x) for x in ranged])
    (found,) = ranges.k_ranges([LoadFacts(one, cases.FACTS) for one in loads])
    assert (found.static_k, found.pays, found.rows, found.why) == (1, pays, rows, why)
    regret = {1: log(1.5 / 1.2) / 4 + log(1.32 / 1.3) / 2, 3: log(1.2 / 0.9) / 4,
              0: log(1.5 * 1.2) / 4 + log(1.32) / 2}  # fmt: skip
    assert found.gain == pytest.approx(gain) and dict(found.regrets) == pytest.approx(regret)
    run = [(3, 1.45), (1, 1.3), (1, 1.2)] if pays else [(1, 1.2), (1, 1.3), (1, 1.2)]
    told = [(row.requests, row.k, row.best_k, row.best_gain) for row in found.loads]
    assert told == [(1, run[0][0], 3, 1.5), (8, run[1][0], 3, 1.32), (64, 1, 1, 1.2)]
    assert [row.gain for row in found.loads] == pytest.approx([gain for _, gain in run])
    assert bool(found.arguments) == pays


def layout(middle: float | None, met: int = 0, decision: str = "on", **more: Any) -> PlanLayout:
    own = Interval(p10=0.9 * middle, p50=middle, p90=1.2 * middle) if middle else None
    made = {"kind": "gpus", "title": "two", "gain": own, "objectives": 2, "objectives_met": met}
    return PlanLayout(
        **made | {"p_gain": 0.75, "instances": (instance(2, decision=decision),)} | more
    )


MIX = SimpleNamespace(classes=("chat", "docs"))
ONE = "Speculation on in one server: +50 % (+35 % to +80 %), P(gain) 0.75"


@pytest.mark.parametrize(
    ("layouts", "chosen", "why"),
    [
        ([layout(None, refusal="no head")], 0, ["No speculation: no head"]),
        ([layout(1.5)], 1, [ONE]),
        ([layout(1.5, decision="measure")], 0, ["Measure speculation first in one server: +50 %"]),
        ([layout(1.5), layout(None, refusal="no room"), layout(None, refusal="x")], 1,
         [ONE, "No split: no room"]),
        ([layout(1.5), layout(9.0, met=1), layout(1.5, met=2)], 3,
         [ONE, "Split (two): 2 of 2 objectives are met, one server meets 0; +0 % ("]),
        ([layout(1.5, met=2), layout(9.0, met=1)], 1, [ONE, "No split: one server meets more obj"]),
        ([layout(1.5), layout(1.4)], 1, [ONE, "No split: one server with speculation reaches as"]),
        ([layout(1.5), layout(9.0)], 2, [ONE, "Split (two): +500 % ("]),
        ([layout(1.5), layout(1.51)], 1, [ONE, "No split: +1 % ("]),
        ([layout(0.8, decision="off"), layout(0.9)], 0,
         ["Speculation off in one server: -20 % (-28 % to -4 %)",
          "No split: the best one (two) loses, -10 % ("]),
    ],
)  # fmt: skip
def test_a_layout_is_chosen_by_objectives_then_by_a_sure_gain(
    layouts: list[PlanLayout], chosen: int, why: list[str]
) -> None:
    off = layout(1.0, kind="off")
    found, told = mix_plan._choose(MIX, [off, *layouts])
    assert found == chosen and len(told) == len(why) + (len(layouts) == 1), told
    assert all(line.startswith(words) for line, words in zip(told, why, strict=False)), told
    alone = (mix_plan._choose(SimpleNamespace(classes=("chat",)), [off, *layouts]))[1]
    assert alone == told[: len(alone)] and (len(layouts) > 1 or len(alone) == 1)


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
    assert (made.plan_off.k, made.launch_on) == (0, POLICY.launch) and made.findings == (FINDING,)
    assert made.launch_off == sure.launch_off == POLICY.launch_off
    assert made.gain == decide.goal_interval(made.estimate, cases.FACTS.aim)
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
    loads = [load(n, point(2, 1.2), point(2, x, adaptive=True)) for n, x in ((1, 1.4), (2, 1.3))]
    assert policy._adaptive_gains(cases.FACTS, cases.plan(2), loads) == gains
    assert seen == [cases.plan(2), pytest.approx((log(1.4 / 1.2) + log(1.3 / 1.2)) / 2)]
    assert policy._adaptive_gains(cases.FACTS, cases.plan(2), loads[:1] + [LOADS[0]]) == []


def test_a_range_that_is_not_whole_is_even_with_both_ends() -> None:
    assert series(0.0, 1.0, 5, whole=False) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert series(0.5, 0.5, 5, whole=False) == [0.5]
    steps = parse_axis("temperature=0..1")[1]
    assert steps[-1] == 1.0 and len(steps) == 20
    assert merge_ranges([4, 16, 64], [2, 2, 0], 100) == ((1, 63, 2), (64, 100, 0))
    assert merge_ranges([4], [1], 2) == ((1, 4, 1),)


def test_what_cannot_be_compared_by_speed_comes_last() -> None:
    blind = point(2).replace(output_tok_s=point(2).output_tok_s.replace(value=None, baseline=None))
    plain = point(0).replace(output_tok_s=point(0).output_tok_s.replace(value=70.0))
    arm = ArmOverLoads(label="a", kind="engine", points=(None, blind, point(2, 1.5), plain))
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
    found = break_evens(LOADS[:3], "concurrency")
    (one,) = (one for one in found if (one.k, one.quantile) == (2, "p50"))
    assert one.at == pytest.approx(16 * 4 ** (log(1.1) / log(2.2))) and one.direction == "falls"
    back = break_evens([load(1, point(2, 0.8)), load(2, point(2, 1.25))], "concurrency")
    assert [(one.quantile, one.direction) for one in back] == [
        ("p10", "rises"), ("p50", "rises"), ("p90", "rises"),
    ]  # fmt: skip
    assert back[1].at == pytest.approx(2**0.5)  # halfway in the logarithm
    assert break_evens(LOADS, None) == ()
