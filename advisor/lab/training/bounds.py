"""What a decision compares P(gain) with, chosen from predictions of left-out sources.

For the model card the choice is nested: the bounds that judge a source come from the other groups
of sources, as its spread and calibration do. For the shipped thresholds all left-out predictions
are used, and `advisor train --check` compares the two (`differs`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge
from advisor.prediction.intervals import chance

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SIGNS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # log odds of one measured pair, tried
ON = tuple(round(0.70 + 0.005 * i, 3) for i in range(48))  # bounds for "on", tried
MOST_LOSSES_ON = 0.08  # of the losses that may be on
SAME = {"on": 0.011, "sign": 0.51}  # how far a shipped threshold may lie from the chosen one


class Bounds(NamedTuple):
    """`on`: P(gain) from which speculation is on; `sign`: log odds of a measured pair nearby."""

    on: float
    sign: float


def choose(
    likely: Floats, evidence: Floats, measured: Flags, gained: Flags, weight: Floats
) -> Bounds:
    """The bounds that fit these rows.

    Parameters
    ----------
    likely : ndarray, shape (M,)
        Calibrated chance of a gain without measured pairs.
    evidence, measured : ndarray, shape (M,)
        As in `prediction.intervals.chance`.
    gained : ndarray of bool, shape (M,)
        Whether the row gained.
    weight : ndarray, shape (M,)
        Of each row in the likelihood that chooses `sign`.

    Returns
    -------
    Bounds
        `sign` of the highest likelihood, and with it the lowest `on` that leaves at most
        MOST_LOSSES_ON of the losses on, rows alike; the highest of ON where none does.
    """
    told = measured & (evidence != 0)

    def fit(sign: float) -> float:
        p = chance(likely[told], evidence[told], measured[told], sign)
        return float((weight[told] * np.log(np.where(gained[told], p, 1 - p))).sum())

    sign = max(SIGNS, key=fit)
    lost = np.sort(chance(likely, evidence, measured, sign)[~gained])
    for on in ON:
        if np.mean(lost >= on) <= MOST_LOSSES_ON:
            return Bounds(on, sign)
    return Bounds(ON[-1], sign)


def differs(chosen: Bounds) -> list[str]:
    """One sentence for each shipped threshold that is not the chosen one."""
    shipped = {
        "on": knowledge.threshold("decision_on_p_gain").value,
        "sign": knowledge.threshold("measured_sign").value,
    }
    return [
        f"the threshold for {name!r} is {shipped[name]:g}; left-out sources ask for {value:g}"
        for name, value in chosen._asdict().items()
        if abs(shipped[name] - value) > SAME[name]
    ]
