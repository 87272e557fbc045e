"""The order of preference of the decision, step by step: each step against its neighbours, on
candidates made by hand.
"""

import math
from typing import Any

import pytest

from advisor.advice.decide import allowed_candidates, decide, effects, goal_interval, vetoes
from advisor.advice.explain import reasons
from advisor.advice.objectives import meets, p_objective
from advisor.domain.nouns import (
    Candidate,
    Estimate,
    Facts,
    Finding,
    Hardware,
    Interval,
    MetricEstimate,
    Plan,
    Request,
)
from advisor.knowledge import store as knowledge

HARDWARE = knowledge.hardware("gb10")
ON = knowledge.threshold("decision_on_p_gain").value
OFF_UP_TO = knowledge.threshold("decision_off_p_gain").value
UNSURE = (ON + OFF_UP_TO) / 2  # a chance that is neither on nor off


def metric(p50: float, spread: float = 1.1, baseline: float = 10.0, down: bool = True) -> Any:
    """A speed-up with its interval, `spread` times either way; times fall with it, rates rise."""
    value = baseline / p50 if down else baseline * p50
    return MetricEstimate(
        speedup=Interval(p10=p50 / spread, p50=p50, p90=p50 * spread),
        baseline=baseline,
        value=value,
    )


def estimate(
    gain: float = 1.4, p_gain: float = 0.95, *, tpot: float | None = None, ttft: float = 1.0,
    spread: float = 1.1, basis: str = "interpolated", tpot_ms: float = 10.0, ttft_ms: float = 500.0,
    terms: dict[str, float] | None = None,
) -> Estimate:  # fmt: skip
    return Estimate(
        output_tok_s=metric(gain, spread, 100.0, down=False),
        tpot_ms=metric(tpot if tpot is not None else gain, spread, tpot_ms),
        ttft_ms=metric(ttft, spread, ttft_ms),
        accepted_length=Interval(p10=1.5, p50=2.0, p90=2.5),
        p_gain=p_gain,
        basis=basis,
        terms=terms or {},
    )


def plan(k: int) -> Plan:
    return Plan(engine="vllm", method="mtp" if k else "none", k=k)


OFF = Candidate(plan=plan(0))


def at(k: int, *findings: Finding, **told: Any) -> Candidate:
    return Candidate(plan=plan(k), estimate=estimate(**told), findings=findings)


def finding(severity: str = "info", **told: Any) -> Finding:
    return Finding(code="SD999", severity=severity, message="m", **told)


def facts(**asked: Any) -> Facts:
    goal = asked.pop("goal", "balanced")
    output = asked.pop("output_tokens", 256)
    hardware = asked.pop("hardware", HARDWARE)
    request = Request(hardware="gb10", **asked)
    return Facts(request=request, goal=goal, output_tokens=output, hardware=hardware)


def verdict(*candidates: Candidate, **asked: Any) -> tuple[str, int | None, str]:
    made = decide(facts(**asked), [OFF, *candidates])
    k = None if made.best is None else made.candidates[made.best].plan.k
    return made.decision, k, made.rule


def test_without_a_plan_that_is_allowed_it_is_off_and_the_least_bad_is_named() -> None:
    assert verdict() == ("off", None, "no_method")
    error = finding("error")
    assert verdict(at(1, error, gain=1.2), at(2, error, gain=1.5)) == ("off", 2, "rule")
    assert verdict(at(1, error, gain=1.5), at(2, error, gain=1.2)) == ("off", 1, "rule")


@pytest.mark.parametrize("veto", [finding("error"), finding("info", effect="veto")])
def test_a_forbidden_plan_is_passed_over_and_a_warning_forbids_nothing(veto: Finding) -> None:
    assert vetoes([veto, finding("warning")]) == (veto,)
    assert vetoes([finding("warning"), finding("info", effect="support")]) == ()
    assert verdict(at(1, gain=1.2), at(2, veto, gain=1.9))[:2] == ("on", 1)
    assert verdict(at(1, gain=1.2), at(2, finding("warning"), gain=1.9))[:2] == ("on", 2)


def test_the_largest_documented_k_is_kept_to() -> None:
    limit = finding(effect="k_max", k_max=2)
    plans = [OFF, at(1, gain=1.2), at(2, limit, gain=1.3), at(4, limit, gain=1.9)]
    assert (allowed_candidates(plans), verdict(*plans[1:])[:2]) == ([1, 2], ("on", 2))
    lower = [OFF, at(2, finding(effect="k_max", k_max=3)), at(3, finding(effect="k_max", k_max=2))]
    assert allowed_candidates(lower) == [1]  # the smaller of two limits
    assert allowed_candidates([OFF, at(4, limit)]) == [1]  # one that nothing keeps to leaves all
    assert allowed_candidates([OFF, at(4), at(5)]) == [1, 2]


def test_the_k_that_gains_most_is_chosen_and_the_smaller_one_of_two_equals() -> None:
    assert verdict(at(1, gain=1.2), at(2, gain=1.6), at(3, gain=1.4))[1] == 2
    made = decide(facts(), [OFF, at(3), at(1), at(2)])
    regrets = [one.regret for one in made.candidates]
    assert made.best is not None and regrets[made.best] == min(regrets[1:])


def test_the_k_of_a_published_sweep_goes_before_the_estimates() -> None:
    published = finding(effect="support", k_best=1)
    assert effects([published, finding()], "support") == (published,)
    assert verdict(at(1, published, gain=1.2), at(2, gain=1.9))[:2] == ("on", 1)
    elsewhere = finding(effect="support", k_best=7)
    assert verdict(at(1, elsewhere, gain=1.2), at(2, gain=1.9))[1] == 2  # no plan has that k
    assert verdict(at(1, published, finding("error"), gain=1.2), at(2, gain=1.9))[1] == 2
    assert verdict(at(1, finding(effect="support"), gain=1.2), at(2, gain=1.9))[1] == 2


def test_a_sure_gain_goes_before_a_larger_one_that_is_not_sure() -> None:
    """The best of any plan's posterior, so that no other k of least regret makes it jump."""
    large = at(3, gain=1.6, p_gain=ON - 0.01)
    assert verdict(large) == ("measure", 3, "unsure")
    assert verdict(at(1, gain=1.2, p_gain=ON), large) == ("on", 1, "estimate")
    assert verdict(at(1, gain=1.2, p_gain=UNSURE), large)[:2] == ("measure", 3)


def test_off_needs_every_plan_to_be_off() -> None:
    lost = at(2, gain=1.1, p_gain=OFF_UP_TO)
    assert verdict(lost)[0] == "off"
    assert verdict(at(1, gain=1.05, p_gain=UNSURE), lost) == ("measure", 1, "unsure")
    assert verdict(at(1, finding("error"), gain=1.5, p_gain=UNSURE), lost)[0] == "off"


def test_the_limit_of_one_plan_says_nothing_of_another() -> None:
    """More draft tokens let fewer requests run (a B200 at 512 requests kept to k = 1 so)."""
    far = at(5, finding(effect="k_max", k_max=1), gain=1.1)
    assert allowed_candidates([OFF, at(1), at(2), far]) == [1, 2]
    assert verdict(at(1, gain=1.1), at(2, gain=1.5), far)[:2] == ("on", 2)


def test_beyond_the_documented_k_nothing_is_on_but_some_of_it_is_worth_a_measurement() -> None:
    limit = finding(effect="k_max", k_max=1)
    lost, beyond = at(1, gain=1.0, p_gain=OFF_UP_TO), at(3, limit, gain=1.5, p_gain=ON)
    assert verdict(lost, beyond) == ("measure", 3, "unsure")
    assert verdict(at(1, gain=1.2, p_gain=UNSURE), beyond)[:2] == ("measure", 1)
    assert verdict(lost, at(3, limit, gain=1.1, p_gain=OFF_UP_TO))[:2] == ("off", 1)
    far = at(4, limit, finding(effect="k_max", k_max=3), gain=1.7, p_gain=ON)
    assert verdict(lost, beyond, far)[:2] == ("measure", 3)  # within the other limit


@pytest.mark.parametrize(("k", "first"), [(3, True), (1, False)])
def test_a_limit_that_the_answer_exceeds_comes_before_the_nearest_run(k: int, first: bool) -> None:
    made = decide(facts(), [OFF, at(k, finding(effect="k_max", k_max=1), p_gain=UNSURE)])
    (told,) = reasons._from_rules(facts(), made.candidates[1], made)
    assert (told.weight > 1.0) is first  # 1.0: the nearest measurement


def test_a_k_that_keeps_to_the_objective_goes_before_one_that_gains_more() -> None:
    slow = at(3, gain=1.9, tpot=0.6)  # more tokens per second, each later
    fine = at(1, gain=1.2, tpot=1.4)
    assert verdict(fine, slow, goal="throughput")[1] == 3
    assert verdict(fine, slow, goal="throughput", max_tpot_ms=9.0)[1] == 1
    assert verdict(fine, slow, goal="throughput", max_tpot_ms=0.5)[1] == 3  # neither keeps to it
    late, early = at(3, gain=1.9, ttft=0.4), at(1, gain=1.2, ttft=1.3)
    assert verdict(early, late, goal="throughput")[1] == 3
    assert verdict(early, late, goal="throughput", max_ttft_ms=600.0)[1] == 1


def test_an_answer_of_one_token_is_off() -> None:
    assert verdict(at(1), output_tokens=1) == ("off", 1, "one_token")
    assert verdict(at(1), output_tokens=2)[0] == "on"
    strict = verdict(at(1, tpot=3.0), output_tokens=1, max_tpot_ms=5.0)
    assert strict == ("off", 1, "one_token")  # before any objective


def test_an_objective_decides_where_it_tells_the_runs_apart() -> None:
    weak = at(1, gain=1.01, p_gain=UNSURE, tpot=2.0)
    assert (verdict(weak)[0], verdict(weak, max_tpot_ms=6.0)) == ("measure", ("on", 1, "objective"))
    costly = at(1, gain=1.5, ttft=0.3)
    assert verdict(costly, goal="throughput")[0] == "on"
    assert verdict(costly, goal="throughput", max_ttft_ms=700.0) == ("off", 1, "objective")
    for limit in (1_000.0, 0.01):  # both runs meet it, or none
        assert verdict(at(1), max_tpot_ms=limit) == ("on", 1, "estimate")


def test_hardware_without_a_bandwidth_is_measured_first_unless_an_objective_decides() -> None:
    unknown: Hardware = HARDWARE.model_copy(update={"memory_bandwidth_gb_s": None})
    assert verdict(at(1), hardware=unknown) == ("measure", 1, "unknown_hardware")
    assert verdict(at(1, tpot=3.0), hardware=unknown, max_tpot_ms=6.0)[2] == "objective"
    assert verdict(at(1))[2] == "estimate"


@pytest.mark.parametrize(
    ("gain", "p_gain", "decision", "rule"),
    [
        (1.4, 0.95, "on", "estimate"),
        (0.7, 0.03, "off", "estimate"),
        (1.02, UNSURE, "measure", "unsure"),
        (0.98, UNSURE, "measure", "unsure"),
        (0.99, 0.99, "measure", "unsure"),
    ],
)
def test_the_posterior_decides(gain: float, p_gain: float, decision: str, rule: str) -> None:
    assert verdict(at(1, gain=gain, p_gain=p_gain)) == (decision, 1, rule)


def test_the_bounds_belong_to_the_decision() -> None:
    """At each threshold of P(gain) the answer is the surer one."""
    assert (verdict(at(1, p_gain=ON))[0], verdict(at(1, p_gain=ON - 1e-6))[0]) == ("on", "measure")
    assert verdict(at(1, gain=0.9, p_gain=OFF_UP_TO))[0] == "off"
    assert verdict(at(1, gain=0.9, p_gain=OFF_UP_TO + 1e-6))[0] == "measure"


def test_ttft_is_measured_where_its_interval_holds_one() -> None:
    assert verdict(at(1, ttft=1.05, spread=1.3), goal="ttft")[0] == "measure"
    assert verdict(at(1, ttft=1.5, spread=1.1), goal="ttft")[0] == "on"
    assert verdict(at(1, gain=1.05, spread=1.3), goal="tpot")[0] == "on"  # no other goal


def test_each_goal_looks_at_its_own_metric() -> None:
    made = estimate(gain=2.0, tpot=1.5, ttft=0.5, spread=1.0)
    assert goal_interval(made, "throughput").p50 == pytest.approx(2.0)
    assert goal_interval(made, "tpot").p50 == pytest.approx(1.5)
    assert goal_interval(made, "ttft").p50 == pytest.approx(0.5)
    assert 0.5 < goal_interval(made, "balanced").p50 < 2.0
    assert goal_interval(None, "balanced") == Interval(p10=1.0, p50=1.0, p90=1.0)
    wide = goal_interval(estimate(gain=2.0, spread=1.5), "throughput")
    assert (wide.p10, wide.p90) == (pytest.approx(2 / 1.5), pytest.approx(3.0))


def test_fewer_requests_at_once_change_what_balanced_looks_at() -> None:
    def middle(verified: int | None) -> float:
        terms = {"requests_verify": verified, "requests_base": 8} if verified else None
        made = estimate(gain=2.0, tpot=1.5, ttft=0.5, spread=1.0, terms=terms)
        return goal_interval(made, "balanced").p50

    assert middle(8) != pytest.approx(middle(4)) and middle(None) == pytest.approx(middle(8))


def test_the_chance_of_an_objective() -> None:
    made = estimate(tpot=2.0, spread=1.2)  # 10 ms without, 5 ms with speculation
    request = Request(hardware="gb10", max_tpot_ms=5.0)
    assert p_objective(request, made, "value") == pytest.approx(0.5, abs=0.01)
    off = p_objective(request, made, "baseline")
    assert off is not None and off < 0.1
    looser = p_objective(Request(hardware="gb10", max_tpot_ms=8.0), made, "value")
    assert looser is not None and looser > 0.7
    both = p_objective(Request(hardware="gb10", max_tpot_ms=8.0, max_ttft_ms=1.0), made, "value")
    assert both is not None and both < 0.01  # the smaller of the two
    hidden = made.replace(ttft_ms=made.ttft_ms.replace(predictable=False, baseline=9.0, value=7.0))
    unseen = p_objective(Request(hardware="gb10", max_ttft_ms=8.0), hidden, "value")
    assert unseen is not None and unseen < 0.5  # what no reader sees is not counted on
    assert p_objective(Request(hardware="gb10"), made, "value") is None
    assert p_objective(None, made, "value") is None and p_objective(request, None, "value") is None


@pytest.mark.parametrize(
    ("limit", "kept"), [(5.0 * 1.001, True), (5.0 * 0.999, False), (5.0 / 1.1, False)]
)
def test_an_objective_is_met_where_that_is_more_likely_than_not(limit: float, kept: bool) -> None:
    assert meets(Request(hardware="gb10", max_tpot_ms=limit), estimate(tpot=2.0)) is kept
    assert meets(None, estimate()) and meets(Request(hardware="gb10"), estimate())


def test_utilities_and_regrets_are_told() -> None:
    made = decide(facts(), [OFF, at(1, gain=1.2), at(2, gain=1.6), at(3, gain=0.7)])
    off, one, two, three = made.candidates
    assert off.utility == 0.0 and two.utility > one.utility > 0.0 > three.utility
    assert two.regret < one.regret < three.regret and off.regret > 0.0
    assert all(math.isfinite(c.regret) and c.regret >= 0 for c in made.candidates)
