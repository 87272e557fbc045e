"""What a decision compares P(gain) with, chosen from predictions of left-out sources.

For the model card the choice is nested: the bounds that judge a source come from the other groups
of sources, as its spread and calibration do. For the shipped thresholds all left-out predictions
are used, and `advisor train --check` compares the two (`differs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge
from advisor.prediction.intervals import chance, measured_gain

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SIGNS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # log odds of one measured pair, tried
ON = tuple(round(0.70 + 0.005 * i, 3) for i in range(48))  # bounds for "on", tried
LEAST_MEASURED = 0.80  # of them where the configuration was measured: nothing is off from here on
# Of the losses that may be on, where the bound is chosen: half a point below the target of the
# card, since the sources that it judges are others.
MOST_LOSSES_ON = 0.07
SEEN = 0.5  # of `measured_gain`: rows that the bound for measured configurations is chosen from
LOSS_WEIGHT = 2.0  # gains that a loss weighs, as in `decision_off_p_gain`
SAME = {
    "on": 0.011,
    "sign": 0.51,
    "measured": 0.011,
}  # how far a shipped threshold may lie from the chosen one


class Bounds(NamedTuple):
    """`on`: P(gain) from which speculation is on; `sign`: log odds of a measured pair nearby;
    `measured`: the same as `on` where the configuration itself was measured and gained.
    """

    on: float
    sign: float
    measured: float


class Case(NamedTuple):
    """Left-out rows whose acceptance is stated, or is not; (M,) each."""

    likely: Floats  # calibrated chance of a gain without measured pairs
    evidence: Floats  # as in `prediction.intervals.chance`
    measured: Floats
    told: Floats  # the same with runs that drafted one token more
    gained: Flags
    weight: Floats  # of each row in the likelihood that chooses `sign`

    def chance(self, sign: float) -> Floats:
        """The chance of a gain with this weight of a measured pair (M,).

        Parameters
        ----------
        sign : float
            Weight of a measured pair, in log odds.

        Returns
        -------
        Floats
            (M,)
        """
        return chance(self.likely, self.evidence, self.measured, sign)

    def fit(self, sign: float) -> float:
        """Log likelihood of the rows that have a measured pair."""
        told = (self.measured >= 1) & (self.evidence != 0)
        p = self.chance(sign)[told]
        return float((self.weight[told] * np.log(np.where(self.gained[told], p, 1 - p))).sum())


def choose(cases: Sequence[Case]) -> Bounds:
    """The bounds that fit these rows.

    Parameters
    ----------
    cases : sequence of Case
        With stated acceptances and without them: the bounds must serve both.

    Returns
    -------
    Bounds
        `sign` of the highest likelihood, and with it the lowest `on` that leaves at most
        MOST_LOSSES_ON of the losses of each case on, rows alike; the highest of ON where none does.
        `measured` is the lowest of ON between LEAST_MEASURED and it that puts at least LOSS_WEIGHT
        gains on for every loss, of the measured configurations between the two.
    """
    sign = max(SIGNS, key=lambda one: sum(case.fit(one) for case in cases))
    lost = [case.chance(sign)[~case.gained] for case in cases]
    fine = (
        on for on in ON if all(np.mean(each >= on) <= MOST_LOSSES_ON for each in lost if len(each))
    )
    on = next(fine, ON[-1])
    told = [
        (case.chance(sign), case.gained, measured_gain(case.told, case.evidence) >= SEEN)
        for case in cases
    ]

    def pays(one: float) -> bool:
        between = [gained[here & (p >= one) & (p < on)] for p, gained, here in told]
        return all(each.sum() >= LOSS_WEIGHT * (~each).sum() for each in between)

    same = (one for one in ON if LEAST_MEASURED <= one <= on and pays(one))
    return Bounds(on, sign, next(same, on))


def differs(chosen: Bounds) -> list[str]:
    """One sentence for each shipped threshold that is not the chosen one."""
    shipped = {
        "on": knowledge.threshold("decision_on_p_gain").value,
        "sign": knowledge.threshold("measured_sign").value,
        "measured": knowledge.threshold("decision_on_p_gain_measured").value,
    }
    return [
        f"the threshold for {name!r} is {shipped[name]:g}; left-out sources ask for {value:g}"
        for name, value in chosen._asdict().items()
        if abs(shipped[name] - value) > SAME[name]
    ]
