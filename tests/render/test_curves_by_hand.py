"""Screens of hand-made curves, choices and layouts, word by word: by_hand.yaml has the texts."""

from math import log
from pathlib import Path
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice.explore.compare import ArmOverLoads, ComparedArm, Comparison, LoadComparison
from advisor.advice.explore.mix import WorkClass, WorkMix
from advisor.advice.explore.mix_plan import ClassResult, Instance, MixPlan, PlanLayout
from advisor.advice.explore.values import (
    BreakEven,
    KRanges,
    LoadPoint,
    Point,
    Policy,
    RangeLoad,
    Rate,
    Sweep,
    Within,
)
from advisor.advice.explore.why_not import WhyNot
from advisor.domain.nouns import Finding, Interval, MetricEstimate
from advisor.render.explore.chart import _near, charts
from advisor.render.explore.compare import comparison_text, loads_text, why_not_text
from advisor.render.explore.plan import plan_text
from advisor.render.explore.text import policy_text, sweep_text
from advisor.render.layout import Paper
from tests.tables import load_yaml

TEXTS = load_yaml(Path(__file__).with_name("by_hand.yaml"))["explored"]
PAPER = Paper(110)


def gain(middle: float) -> Interval:
    return Interval(p10=0.9 * middle, p50=middle, p90=1.2 * middle)


def point(k: int, middle: float = 1.0, **more: Any) -> Point:
    """A k whose gain is known: of 100 tok/s and 20 ms a token."""
    speed = MetricEstimate(speedup=gain(middle), baseline=100.0, value=100.0 * middle)
    times = {name: speed.replace(baseline=20.0, value=20.0 / middle) for name in ("tpot", "ttft")}
    about = {"plan": cases.plan(k), "method": "mtp" if k else "none", "k": k, "decision": "on",
             "gain": gain(middle), "p_gain": 0.75 if k else None,
             "utility": log(middle)}  # fmt: skip
    metrics = {"output_tok_s": speed, "tpot_ms": times["tpot"], "ttft_ms": times["ttft"]}
    return Point(**about | metrics | more)


def load(at: int, *points: Point, **more: Any) -> LoadPoint:
    about = {"setting": (("concurrency", at),), "request": cases.REQUEST.replace(concurrency=at)}
    return LoadPoint(**about | {"decision": "on", "points": (point(0), *points)} | more)


PRICED = {"cost_per_million": 2.0, "kwh_per_million": 0.5}
LOADS = (
    load(4, point(1, 1.2), point(2, 1.5), best_method="mtp", best_k=2),
    load(16, point(1, 1.25, utility=0.1), point(2, 1.1, utility=0.2, **PRICED), best_method="mtp",
         best_k=2, decision="measure", k_rules=("SD409",)),
    load(64, point(1, 0.75, predictable=False), point(2, 0.5), best_method="mtp", best_k=1,
         decision="off"),
    load(200, decision="off"),
    load(256, refusal="no memory is left", points=(), decision=None),
)  # fmt: skip
FALLS = BreakEven(axis="concurrency", setting=(), method="mtp", k=2, quantile="p50", at=18.37,
                  direction="falls")  # fmt: skip
FIXED = KRanges(
    setting=(), method="mtp", rows=((1, 16, 2), (17, 64, 0)), static_k=2, gain=1.01, pays=False,
    why="it gains 1 % at most", regrets=((1, 0.013), (2, 0.021)),
    loads=tuple(RangeLoad(requests=n, k=2, gain=g, best_k=k, best_gain=b)
                for n, g, k, b in ((4, 1.5, 2, 1.5), (16, 1.1, 1, 1.25), (64, 0.5, 0, 1.0))),
)  # fmt: skip
CHANGED = FIXED.replace(
    pays=True, why="it gains 9 %", arguments=("--k", "a.json"), file_name="a.json", file_text="{}\n"
)
SWEEP = Sweep(request=cases.REQUEST, facts=cases.FACTS, axes=(("concurrency", (4, 16, 64)),),
              ks=(1, 2), loads=LOADS, break_even=(FALLS,), pairs=(cases.EVIDENCE,),
              k_ranges=(FIXED,))  # fmt: skip
WITHIN = (
    Within(method="none", k=0, likely=8, p=0.62, sure=None),
    Within(method="mtp", k=2, likely=None, likely_bound="search", p=None, sure=1200, slots=32),
)
SWEEPS = {
    "curves": SWEEP,
    "bare": SWEEP.replace(axes=(), loads=LOADS[:1], pairs=(), break_even=()),
    "users": SWEEP.replace(within=WITHIN, k_ranges=(CHANGED,), break_even=(), loads=LOADS[:1]),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_is_told_with_its_curves_loads_and_ranges(name: str) -> None:
    assert sweep_text(SWEEPS[name], PAPER) == TEXTS["sweep"][name]


def test_a_chart_is_described_by_its_ends_and_crossings() -> None:
    (chart,) = charts(SWEEP)
    ends = [(curve.low[0], curve.low[2], curve.high[0], curve.high[2]) for curve in chart.curves]
    assert ends == [pytest.approx(row) for row in ((8, -32.5, 44, -10), (35, -55, 80, -40))]
    assert chart.description == " ".join(TEXTS["chart"].split())
    assert [(m.x, round(m.gain, 1), m.k) for m in chart.measured] == [(16.0, 24.2, 2)]


@pytest.mark.parametrize(
    ("asked", "near"),
    [({"concurrency": 8}, True), ({"concurrency": 32, "ctx_tokens": 1024}, True), ({}, True),
     ({"concurrency": 33}, False), ({"concurrency": 7.9}, False), ({"ctx_tokens": 4097}, False)],
)  # fmt: skip
def test_a_pair_is_drawn_within_a_factor_of_two(asked: dict[str, float], near: bool) -> None:
    """It was measured with 16 requests of 2,048 tokens."""
    assert _near(cases.EVIDENCE, asked) == near
    assert _near(cases.EVIDENCE.replace(concurrency=None, input_tokens=None), asked)


FINDING = Finding(code="SD431", severity="info", message="it was measured")
POLICY = Policy(
    decision="measure", ranges=FIXED, unsure=(16, 64), plan=cases.plan(2), sweep=SWEEP,
    launch=cases.launch(), launch_off=cases.launch(0), findings=(FINDING,),
)  # fmt: skip


def with_points(chance: float | None) -> Sweep:
    """The sweep with a chance of the objective for drafts, a tenth more without, and no price."""
    free = {"cost_per_million": None, "kwh_per_million": None}
    loads = (
        [
            p.replace(**free, p_objective=chance and chance + (p.k == 0) / 10)
            for p in one.points
            if p.k < 2 or one.best_k == 2
        ]
        for one in LOADS
    )
    return SWEEP.replace(loads=tuple(one.replace(points=tuple(own))
                                     for one, own in zip(LOADS, loads, strict=True)))  # fmt: skip


POLICIES = {
    "measure": POLICY,
    "on": POLICY.replace(
        decision="on", ranges=CHANGED, unsure=(), findings=(), sweep=with_points(None)
    ),
    "off": POLICY.replace(decision="off", unsure=(), findings=(), sweep=with_points(0.6)),
}


@pytest.mark.parametrize("name", POLICIES)
def test_one_launch_for_a_range_is_told_with_what_each_load_loses(name: str) -> None:
    assert policy_text(POLICIES[name], PAPER) == TEXTS["policy"][name]


def arm(label: str, advice: Any, **more: Any) -> ComparedArm:
    held = {"estimate": advice.estimate, "memory": cases.estimate().memory}
    return ComparedArm(label=label, kind="engine", advice=advice, **held | more)


def test_choices_stand_side_by_side() -> None:
    arms = (arm("a", cases.on(), within=WITHIN), arm("b", cases.no_method()),
            arm("c", cases.measure(), within=WITHIN[:1]))  # fmt: skip
    found = Comparison(arms=arms, differences=("a is faster",))
    assert comparison_text(found, Rate(per_hour=3.6, watts=360.0), PAPER) == TEXTS["compare"]


def test_choices_over_loads_name_which_is_ahead_where() -> None:
    points = {"a": (point(2, 1.5), point(1, 1.2), None), "b": (point(0), point(0), point(2, 1.1))}
    for kind in ("engine", "method"):
        arms = tuple(ArmOverLoads(label=n, kind=kind, points=row) for n, row in points.items())
        found = LoadComparison(request=cases.REQUEST, loads=(1, 2, 4), arms=arms)
        assert loads_text(found, PAPER) == TEXTS["loads"][kind]
    assert (
        why_not_text(WhyNot(asked="k=1", head="so", reasons=("one", "two"))) == "so\n- one\n- two\n"
    )


def instance(k: int, *classes: str, **more: Any) -> Instance:
    about = {"name": "s", "classes": classes, "gpus": 1, "decision": "on", "plan": cases.plan(k),
             "memory": cases.estimate().memory, "concurrency": 16, "facts": cases.FACTS,
             "request": cases.REQUEST, "candidates": (), "best": None}  # fmt: skip
    return Instance(**about | more)


SEEN = ClassResult(name="chat", concurrency=12, gain=gain(1.5), output_tok_s=1234.0,
                   tpot_ms=12.5, ttft_ms=150.0, p_objective=0.9)  # fmt: skip
BLIND = SEEN.replace(name="docs", ttft_predictable=False, p_objective=None)
LAYOUTS = (
    PlanLayout(kind="on", title="one server", gain=gain(1.5), p_gain=0.97, objectives=2,
               objectives_met=1, results=(SEEN, BLIND),
               instances=(instance(2, "chat", "docs"),)),
    PlanLayout(kind="off", title="off", gain=gain(1.0), results=(SEEN,),
               instances=(instance(0, "chat", decision="measure", gpus=2),)),
    PlanLayout(kind="gpus", title="two servers", refusal="no GPU is left"),
)  # fmt: skip
MIX = WorkMix(hardware="gb10", gpus=2, classes=(WorkClass(name="chat", concurrency=12),
              WorkClass(name="docs", concurrency=4, ctx_tokens=8192)))  # fmt: skip
MIXED = MixPlan(mix=MIX, layouts=LAYOUTS, chosen=0, why=("it gains most",))


def test_layouts_of_a_mix_are_told_with_what_each_class_sees() -> None:
    assert plan_text(MIXED, PAPER) == TEXTS["plan"]
