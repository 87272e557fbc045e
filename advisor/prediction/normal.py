"""The standard normal distribution for arrays: probabilities and quantiles, numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced

Floats = npt.NDArray[np.float64]

_ERF = sourced(
    (0.3275911, (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)),
    "",
    "Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; error below 1.5e-7",
    "read",
)
_MIDDLE = sourced(
    (
        (-39.69683028665376, 220.9460984245205, -275.9285104469687),
        (138.3577518672690, -30.66479806614716, 2.506628277459239),
        (-54.47609879822406, 161.5858368580409, -155.6989798598866),
        (66.80131188771972, -13.28068155288572, 1.0),
    ),
    "",
    "P. J. Acklam's rational approximation of the normal quantile; relative error below 1.2e-9",
    "read",
)
_TAIL = sourced(
    (
        (-0.007784894002430293, -0.3223964580411365, -2.400758277161838),
        (-2.549732539343734, 4.374664141464968, 2.938163982698783),
        (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0),
    ),
    "",
    "The same beyond 2.425 % of either side",
    "read",
)
_EDGE = sourced(0.02425, "probability", "Where Acklam's two parts meet", "read")
LEAST = sourced(1e-9, "probability", "No quantile further out is used", "chosen")


def _poly(factors: Sequence[float], x: Floats) -> Floats:
    """A polynomial, the factor of the highest power first (numpy's own is slow for few points)."""
    out = factors[0] * x + factors[1]
    for factor in factors[2:]:
        out *= x
        out += factor
    return out


def cdf(z: Floats) -> Floats:
    """Probability below each value of a standard normal (N,)."""
    size, (slope, factors) = np.abs(z) / np.sqrt(2.0), _ERF
    t = 1 / (1 + slope * size)
    tail = t * _poly(factors[::-1], t) * np.exp(-(size**2)) / 2
    return np.asarray(np.where(z < 0, tail, 1 - tail), dtype=np.float64)


def quantile(p: Floats) -> Floats:
    """Value of a standard normal below which each probability lies (N,)."""
    p = np.clip(p, LEAST, 1 - LEAST)
    away = p - 0.5
    (a, b, c, d), (e, f, g) = _MIDDLE, _TAIL
    r = away**2
    middle = away * _poly((*a, *b), r) / _poly((*c, *d), r)
    q = np.sqrt(-2 * np.log(np.fmin(p, 1 - p)))
    tail = _poly((*e, *f), q) / _poly(g, q)
    far = np.abs(away) > 0.5 - _EDGE
    return np.asarray(np.where(far, -np.sign(away) * tail, middle), dtype=np.float64)
