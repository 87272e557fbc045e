"""Spread, intervals and chances of a gain from left-out errors, by scikit-learn."""

from itertools import pairwise

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression

from advisor.lab.arrays import Flags, Floats
from advisor.prediction.model import Calibration
from advisor.prediction.spread import Spread

MOST_SQUARE = 0.5  # a squared log error beyond this counts as this
# Half-widths over those that left-out sources ask for: 44 sources that were predicted before they
# were trained on lay inside 63 % of the time, where left-out ones had said 79; 18 of the next set
# inside 62 %, and 75 % with this factor.
FROM_OUTSIDE = 1.2
LEAST_WIDTH = 0.3  # in sd
LEAST_ROW = 0.0025  # variance of a row without any other reason for doubt
KNOTS = 25  # of the chance of a gain
# rows of a source are neither independent nor one: each weighs (1 / rows of its source) to this
CURVE_POWER = 0.25
DIGITS = 4


def fit_spread(reasons: Floats, errors: Floats, weight: Floats) -> Spread:
    """Non-negative weights of the reasons for doubt (M, R) from left-out errors (M,)."""
    learned = LinearRegression(positive=True, fit_intercept=False)
    learned.fit(reasons, np.minimum(errors**2, MOST_SQUARE), sample_weight=weight)
    learned.coef_[0] = max(learned.coef_[0], LEAST_ROW)
    return Spread(tuple(round(float(w), DIGITS) for w in learned.coef_))


def half_widths(errors: Floats, weight: Floats) -> tuple[float, float]:
    """Half-widths of the 80 % interval below and above the median, in sd, from errors in sd."""
    low, high = -quantile(errors, weight, 0.1), quantile(errors, weight, 0.9)
    low, high = (round(FROM_OUTSIDE * max(w, LEAST_WIDTH), DIGITS) for w in (low, high))
    return low, high


def gain_curve(z: Floats, gained: Flags, weight: Floats) -> tuple[tuple[float, float], ...]:
    """Knots (z, chance) of a line that never falls; z: predicted log speed-up over its sd."""
    learned = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    learned.fit(z, gained.astype(float), sample_weight=weight)
    at = np.unique(np.round(weighted_quantiles(z, weight, np.linspace(0, 1, KNOTS)), DIGITS))
    # the mean of the steps around each knot: a chance that moves with every change of the question
    edges = np.concatenate([[at[0]], (at[1:] + at[:-1]) / 2, [at[-1]]])
    fine = [learned.predict(np.linspace(a, b, 21)).mean() for a, b in pairwise(edges)]
    rising = np.maximum.accumulate(np.round(fine, DIGITS))
    return tuple((float(a), float(p)) for a, p in zip(at, rising, strict=True))


def calibration(
    measured: Floats,
    means: tuple[Floats, Floats],
    sds: tuple[Floats, Floats],
    uses: tuple[Flags, Flags],
    weight: Floats,
    decoding: Flags,
) -> Calibration:
    """Half-widths and chances from left-out rows, acceptance stated and ignored."""
    widths, curves = [], []
    for mean, sd, use, rows in zip(means, sds, uses, (decoding, decoding & uses[1]), strict=True):
        widths.append(half_widths(((measured - mean) / sd)[use], weight[use]))
        chances = weight[rows] ** CURVE_POWER
        curves.append(gain_curve((mean / sd)[rows], measured[rows] > 0, chances))
    (low, low_hidden), (high, high_hidden) = zip(*widths, strict=True)
    return Calibration((low, low_hidden), (high, high_hidden), (curves[0], curves[1]))


def quantile(values: Floats, weight: Floats, share: float) -> float:
    """Weighted quantile, interpolated at the middles of the weights."""
    return float(weighted_quantiles(values, weight, np.array([share]))[0])


def weighted_quantiles(values: Floats, weight: Floats, shares: Floats) -> Floats:
    """Weighted quantiles at several shares (S,): (S,)."""
    order = np.argsort(values, kind="stable")
    v, w = values[order], weight[order]
    return np.interp(shares, (np.cumsum(w) - 0.5 * w) / w.sum(), v)
