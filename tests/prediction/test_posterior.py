"""Size and sign of a gain as one distribution."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.prediction import intervals, spread


def one(value: float) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([value])


@given(st.floats(-2, 2), st.floats(0.01, 1.5), st.floats(0.01, 1.5), st.floats(0.006, 0.994))
def test_quantiles_and_chance_of_a_gain_agree(
    mean: float, below: float, above: float, chance: float
) -> None:
    made = intervals.posterior(one(mean), one(mean - below), one(mean + above), one(chance))
    assert made.low[0] <= made.median[0] <= made.high[0]
    for quantile, share in ((made.low, 0.1), (made.median, 0.5), (made.high, 0.9)):
        if abs(share - (1 - chance)) > 1e-6:
            assert quantile[0] >= 0 if share > 1 - chance else quantile[0] <= 0


def test_a_chance_that_the_normal_already_has_changes_nothing() -> None:
    mean, sd = 0.2, 0.3
    chance = 1 - NormalDist(mean, sd).cdf(0.0)
    half = sd * NormalDist().inv_cdf(0.9)
    made = intervals.posterior(one(mean), one(mean - half), one(mean + half), one(chance))
    assert made.median[0] == pytest.approx(mean, abs=1e-5)
    assert made.low[0] == pytest.approx(mean - half, abs=1e-5)
    assert made.high[0] == pytest.approx(mean + half, abs=1e-5)


def test_normal_distribution() -> None:
    exact = NormalDist()
    shares = np.array([1e-6, 0.001, 0.02, 0.1, 0.5, 0.9, 0.98, 0.999])
    assert spread.quantile(shares) == pytest.approx([exact.inv_cdf(p) for p in shares], abs=1e-7)
    values = np.array([-4.0, -1.0, 0.0, 0.3, 2.0])
    assert spread.cdf(values) == pytest.approx([exact.cdf(z) for z in values], abs=2e-7)
