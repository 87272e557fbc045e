"""Expected utility of a speed-up: losses weigh more, and a doubtful gain is no answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.decide import decide
from advisor.domain.nouns import Candidate, Estimate, Facts, Interval, MetricEstimate, Plan
from advisor.knowledge import store as knowledge
from advisor.lab.evaluation.scores import least_regret
from advisor.prediction import utility
from advisor.prediction.decision import decide_one, goal_weights, plain_sd, token_wait


def estimate(speedup: tuple[float, float, float]) -> Estimate:
    p10, p50, p90 = speedup
    metric = MetricEstimate(speedup=Interval(p10=p10, p50=p50, p90=p90))
    length = Interval(p10=2.0, p50=2.0, p90=2.0)
    return Estimate(
        output_tok_s=metric, tpot_ms=metric, ttft_ms=metric, accepted_length=length, p_gain=0.5
    )


def one(*speedups: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, middle, high = (np.log([value]) for value in speedups)
    return low, middle, high


def test_without_risk_the_utility_is_the_gain_and_a_loss_counts_by_its_weight() -> None:
    weight = knowledge.threshold("loss_aversion").value
    assert utility.expected_utility(*one(1.5, 1.5, 1.5))[0] == pytest.approx(np.log(1.5))
    assert utility.expected_utility(*one(0.5, 0.5, 0.5))[0] == pytest.approx(weight * np.log(0.5))


@given(st.floats(0.3, 3), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.001, 0.5))
def test_a_higher_median_is_worth_more_and_a_deeper_low_end_less(
    mid: float, down: float, up: float, step: float
) -> None:
    low, middle, high = (np.array([np.log(mid) + by]) for by in (-down, 0.0, up))
    here = utility.expected_utility(low, middle, high)[0]
    assert utility.expected_utility(low + step, middle + step, high + step)[0] > here
    assert utility.expected_utility(low - step, middle, high)[0] < here


def test_dimensions_are_standard_and_uncorrelated() -> None:
    drawn = utility.normal()
    assert np.cov(drawn, bias=True) == pytest.approx(np.eye(14), abs=1e-9)
    assert drawn.mean(axis=1) == pytest.approx(np.zeros(14), abs=0.01)
    assert (
        np.abs(np.quantile(drawn, [0.1, 0.5, 0.9], axis=1) - np.array([[-1.28], [0], [1.28]])).max()
        < 0.2
    )


@given(
    st.lists(st.tuples(st.floats(0.4, 2.5), st.floats(0.01, 0.6), st.floats(0.01, 0.6)),
             min_size=1, max_size=6)
)  # fmt: skip
def test_what_is_decided_is_what_the_card_scores(plans: list[tuple[float, float, float]]) -> None:
    """The sign and the certainty of each plan alone, whichever other plans stand beside it."""
    intervals = [(mid * np.exp(-down), mid, mid * np.exp(up)) for mid, down, up in plans]
    candidates = [Candidate(plan=Plan(engine="vllm"))]
    candidates += [
        Candidate(plan=Plan(engine="vllm", method="mtp", k=i), estimate=estimate(x))
        for i, x in enumerate(intervals, 1)
    ]
    verdict = decide(Facts(goal="throughput"), candidates)
    chosen = candidates[verdict.best].estimate
    assert verdict.decision == decide_one(chosen.output_tok_s.speedup.p50, chosen.p_gain)


def test_least_regret_may_be_no_speculation_and_prefers_the_safer_of_near_equals() -> None:
    def pick(*rows: tuple[float, float, float]) -> int:
        return least_regret(*np.log(np.array(rows)).T)

    assert pick((0.5, 0.8, 0.9), (0.4, 0.7, 0.9)) == -1
    assert pick((1.1, 1.2, 1.3), (0.7, 1.21, 1.8)) == 0
    assert pick((1.1, 1.2, 1.3), (1.3, 1.5, 1.7)) == 1


def test_a_balanced_goal_leans_towards_throughput() -> None:
    """By hand, with weights of 0.6 and 0.4: a log gain of 0.3 in output tok/s alone is worth 0.18,
    in TPOT alone 0.12; where the wait pays for the quicker tokens all of it and nothing.
    """
    weights = np.array(goal_weights("balanced", np.array([0.0, 0.0, 1.0, 1.0])))
    gains = np.array([[0.3, 0, 0.3, 0], [0, 0.3, 0, 0.3], [9] * 4])  # of tok/s, TPOT, TTFT
    assert (weights * gains).sum(axis=0) == pytest.approx([0.18, 0.12, 0.3, 0.0])


def test_a_level_without_speculation_is_known_as_well_as_published_runs_were_met() -> None:
    """Log sd of steps on one GPU and on two, on three and more, and of the first token."""
    found = [plain_sd("tpot"), *(plain_sd("output_tok_s", n) for n in (2, 3, 8)), plain_sd("ttft")]
    assert found == [0.36, 0.36, 0.55, 0.55, 0.6]


@pytest.mark.parametrize(("later", "wait"), [(1.5, 0.0), (4.5**0.5, 0.5), (3.0, 1.0), (9.0, 1.0)])
def test_quicker_tokens_are_paid_by_a_first_one_that_comes_later(later: float, wait: float) -> None:
    """From 1.5 times as late on, and in full from three times; a half in the middle of the logs."""
    open_server, crowded = np.array([False]), np.array([True])
    assert token_wait(open_server, np.array([1 / later]))[0] == pytest.approx(wait, abs=1e-9)
    assert token_wait(crowded, np.array([1 / later]))[0] == 1.0
