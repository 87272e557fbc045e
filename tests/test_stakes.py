"""Expected utility of a speed-up: losses weigh more, and a doubtful gain is no answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import knowledge, stakes
from advisor.decide import unsure
from advisor.types import Candidate, Interval, Plan


def one(*speedups: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, middle, high = (np.log([value]) for value in speedups)
    return low, middle, high


def test_an_even_chance_is_not_worth_it() -> None:
    assert stakes.expected(*one(0.8, 1.0, 1.25))[0] < 0
    assert stakes.expected(*one(1.0, 1.0, 1.0))[0] == 0


def test_without_risk_the_utility_is_the_gain_and_a_loss_counts_by_its_weight() -> None:
    weight = knowledge.threshold("loss_aversion").value
    assert stakes.expected(*one(1.5, 1.5, 1.5))[0] == pytest.approx(np.log(1.5))
    assert stakes.expected(*one(0.5, 0.5, 0.5))[0] == pytest.approx(weight * np.log(0.5))


@given(st.floats(0.3, 3), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.001, 0.5))
def test_a_higher_median_is_worth_more_and_a_deeper_low_end_less(mid: float, down: float, up: float, step: float) -> None:
    low, middle, high = np.array([np.log(mid) - down]), np.array([np.log(mid)]), np.array([np.log(mid) + up])
    here = stakes.expected(low, middle, high)[0]
    assert stakes.expected(low + step, middle + step, high + step)[0] > here
    assert stakes.expected(low - step, middle, high)[0] < here


@pytest.mark.parametrize(
    ("interval", "silent"),
    [
        ((1.05, 1.3, 1.6), False),
        ((0.95, 1.2, 1.5), False),  # five in six gain: an answer, though the interval spans 1
        ((0.8, 1.05, 1.4), True),
        ((0.9, 1.0, 1.11), True),
        ((0.6, 0.8, 1.02), False),
    ],
)
def test_what_is_sure_enough(interval: tuple[float, float, float], silent: bool) -> None:
    p10, p50, p90 = interval
    low, middle, high = one(*interval)
    worth = stakes.expected(low, middle, high)
    assert bool(stakes.unsure(stakes.certainty(worth, low, high))[0]) is silent
    candidate = Candidate(plan=Plan(engine="vllm"), utility=float(worth[0]))
    assert unsure(candidate, Interval(p10=p10, p50=p50, p90=p90)) is silent


def test_least_regret_may_be_no_speculation_and_prefers_the_safer_of_near_equals() -> None:
    def pick(*rows: tuple[float, float, float]) -> int:
        return stakes.least_regret(*np.log(np.array(rows)).T)

    assert pick((0.5, 0.8, 0.9), (0.4, 0.7, 0.9)) == -1
    assert pick((1.1, 1.2, 1.3), (0.7, 1.21, 1.8)) == 0
    assert pick((1.1, 1.2, 1.3), (1.3, 1.5, 1.7)) == 1
