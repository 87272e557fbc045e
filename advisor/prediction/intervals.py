"""Predicted speed-ups with their intervals, and the chance of a gain in step with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Predicted(NamedTuple):
    """Speed-ups of N points for each point's metric (ratios above 1 are faster), and what they rest
    on. (N,) each.
    """

    p10: Floats
    p50: Floats
    p90: Floats
    p_gain: Floats
    basis: npt.NDArray[np.int8]  # index into BASES
    tau: Floats  # tokens per step, bonus token included
    mean: Floats  # of the log speed-up
    sd: Floats


def agreeing(p_gain: Floats, low: Floats, high: Floats) -> Floats:
    """The chance of a gain as the 80 % interval (`low` to `high`, log speed-up) leaves it; the two
    are calibrated apart. (N,)

    An interval above 1 leaves a tenth for a loss, one that holds 1 leaves more.
    """
    above = np.where(low > 0, np.fmax(p_gain, 0.9), np.fmin(p_gain, 0.9))
    return np.asarray(np.where(high < 0, np.fmin(above, 0.1), np.fmax(above, 0.1)))
