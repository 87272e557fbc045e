"""A rule asks a formula about one case, the estimate about a table of them: both hear the same."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.perf.regimes import setting

NUMBERS = st.floats(1e-3, 1e7)
MAYBE = st.one_of(NUMBERS, st.just(math.nan))


@given(MAYBE, NUMBERS)
def test_how_near_a_number_lies_is_what_an_array_of_it_hears(value: float, limit: float) -> None:
    one = setting.nearness(value, limit)
    (of_table,) = setting.nearness(np.array([value]), limit)
    assert isinstance(one, float) and 0 <= one <= 1
    assert math.isclose(one, of_table, rel_tol=1e-12, abs_tol=1e-12)
    (between,) = setting.between(np.array([value]), limit / 3, limit)
    assert math.isclose(
        setting.between(value, limit / 3, limit), between, rel_tol=1e-12, abs_tol=1e-12
    )


def test_nearness_is_none_at_half_of_the_limit_and_whole_from_there_on() -> None:
    assert setting.nearness(2048, 4096) == 0 and setting.nearness(1, 4096) == 0
    assert setting.nearness(4096, 4096) == 1 and setting.nearness(10**6, 4096) == 1
    assert math.isclose(setting.nearness(4096 / math.sqrt(2), 4096), 0.5)
    assert setting.nearness(math.nan, 4096) == 0
    assert setting.between(8, 2, 8) == 1 and setting.between(2, 2, 8) == 0
    assert math.isclose(setting.between(4, 2, 8), 0.5)


@given(NUMBERS, NUMBERS, st.booleans())
def test_numbers_and_arrays_are_compared_alike(a: float, b: float, mask: bool) -> None:
    left, right, truth = np.array([a]), np.array([b]), np.array([mask])
    assert [setting.lesser(a, b)] == setting.lesser(left, right) == setting.lesser(left, b)
    assert [setting.greater(a, b)] == setting.greater(left, right) == setting.greater(a, right)
    assert [setting.negate(mask)] == setting.negate(truth) == [not mask]
    assert [setting.choose(mask, a, b)] == setting.choose(truth, left, b) == [a if mask else b]
    assert setting.is_known(a) is True and list(setting.is_known(np.array([a, math.nan]))) == [
        True,
        False,
    ]


def test_the_truth_of_one_numpy_value_is_turned_round_too() -> None:
    assert not setting.negate(np.True_) and setting.negate(np.False_)
    assert float(setting.choose(np.True_, 1.0, 2.0)) == 1.0
