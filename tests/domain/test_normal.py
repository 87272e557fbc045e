"""Our normal distribution against the standard library's."""

from statistics import NormalDist

import pytest

from advisor.domain import normal

SHARES = [1e-6, 1e-3, 0.01, 0.1, 0.25, 0.4999, 0.5, 0.75, 0.9, 0.99, 0.999, 1 - 1e-6]


@pytest.mark.parametrize("share", SHARES)
def test_quantile_and_its_inverse(share: float) -> None:
    z = normal.quantile(share)
    assert z == pytest.approx(NormalDist().inv_cdf(share), abs=1e-12)
    assert normal.cdf(z) == pytest.approx(share, rel=1e-9)
