"""Predicted speed-ups with their intervals, and the bounds of a chance of a gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge

Floats = npt.NDArray[np.float64]

SURE = 0.005  # no chance is nearer to 0 or 1


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
    evidence: Floats  # of a gain, from pairs measured nearby, in log odds


def within(p_gain: Floats, low: Floats, high: Floats) -> Floats:
    """The chance of a gain as the 80 % interval leaves it: an interval (ends in log) that holds 1
    leaves a tenth for either side, one that does not leaves less. (N,)
    """
    p = np.where(low > 0, np.fmax(p_gain, 0.9), np.fmin(p_gain, 0.9))
    return np.asarray(np.where(high < 0, np.fmin(p, 0.1), np.fmax(p, 0.1)), dtype=np.float64)


def chance(p_gain: Floats, evidence: Floats, measured: npt.NDArray[np.bool_]) -> Floats:
    """The chance of a gain with the evidence of measured pairs (log odds); where the configuration
    itself was not `measured`, within what was ever confirmed (`chance_least` to `chance_most`).
    (N,)
    """
    p = np.clip(p_gain, SURE, 1 - SURE)
    p = 1 / (1 + np.exp(-np.log(p / (1 - p)) - evidence))
    least, most = (knowledge.threshold(name).value for name in ("chance_least", "chance_most"))
    return np.asarray(np.where(measured, p, np.clip(p, least, most)), dtype=np.float64)
