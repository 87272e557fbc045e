"""What a decision compares P(gain) with, chosen from predictions of left-out sources."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.knowledge import store as knowledge
from advisor.lab.arrays import Flags, Floats
from advisor.prediction.intervals import chance, measured_gain

SIGNS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # log odds of one measured pair, tried
ON = tuple(round(0.70 + 0.005 * i, 3) for i in range(48))  # bounds for "on", tried
LEAST_MEASURED = 0.80  # of them where the configuration was measured: nothing is off from here on
# Of the losses that may be on, where the bound is chosen: a point below the target of the card,
# since the sources that it judges are others.
MOST_LOSSES_ON = 0.07
SEEN = 0.5  # of `measured_gain`: rows that the bound for measured configurations is chosen from
LOSS_WEIGHT = 2.0  # gains that a loss weighs, where the configuration was measured
# bounds for "off", tried; two thirds is where losses that weigh twice a gain break even
OFF = tuple(round(0.66 - 0.01 * i, 2) for i in range(27))
MOST_GAINS_OFF = 0.08  # of the gains, where the bound is chosen
# threshold of each bound, and how far the shipped one may lie from the chosen one
SHIPPED = {
    "on": ("decision_on_p_gain", 0.011),
    "sign": ("measured_sign", 0.51),
    "measured": ("decision_on_p_gain_measured", 0.011),
    "off": ("decision_off_p_gain", 0.011),
}


class Bounds(NamedTuple):
    """P(gain) for on, log odds of a measured pair, P(gain) for on where measured, and for off."""

    on: float
    sign: float
    measured: float
    off: float


class BoundCase(NamedTuple):
    """Left-out rows whose acceptance is stated, or is not."""

    likely: Floats  # calibrated chance of a gain without measured pairs
    evidence: Floats  # as in `prediction.intervals.chance`
    measured: Floats
    longer: Floats  # `measured`, with runs that drafted one token more
    gained: Flags
    weight: Floats  # of each row in the likelihood that chooses `sign`

    def chance(self, sign: float) -> Floats:
        """The chance of a gain with this weight of a measured pair, in log odds."""
        return chance(self.likely, self.evidence, self.measured, sign)

    def fit(self, sign: float) -> float:
        """Log likelihood of the rows that have a measured pair."""
        near = (self.measured >= 1) & (self.evidence != 0)
        p = self.chance(sign)[near]
        return float((self.weight[near] * np.log(np.where(self.gained[near], p, 1 - p))).sum())


def choose(cases: Sequence[BoundCase]) -> Bounds:
    """The bounds that fit rows with stated acceptances and without them: `sign` of the highest
    likelihood; `on` the lowest that leaves at most MOST_LOSSES_ON of the losses on; `measured` the
    lowest between LEAST_MEASURED and it that puts LOSS_WEIGHT gains on for every loss; `off` the
    highest with at most MOST_GAINS_OFF of the gains off.
    """
    sign = max(SIGNS, key=lambda one: sum(case.fit(one) for case in cases))
    chances = [case.chance(sign) for case in cases]
    lost = [p[~case.gained] for p, case in zip(chances, cases, strict=True)]
    fine = (
        on for on in ON if all(np.mean(each >= on) <= MOST_LOSSES_ON for each in lost if len(each))
    )
    on = next(fine, ON[-1])

    def pays(one: float) -> bool:
        for p, case in zip(chances, cases, strict=True):
            seen = measured_gain(case.longer, case.evidence) >= SEEN
            gained = case.gained[seen & (p >= one) & (p < on)]
            if gained.sum() < LOSS_WEIGHT * (~gained).sum():
                return False
        return True

    same = (one for one in ON if LEAST_MEASURED <= one <= on and pays(one))
    won = [p[case.gained] for p, case in zip(chances, cases, strict=True)]
    few = (off for off in OFF if all(np.mean(p <= off) <= MOST_GAINS_OFF for p in won if len(p)))
    return Bounds(on, sign, next(same, on), next(few, OFF[-1]))


def differs(chosen: Bounds) -> list[str]:
    """One sentence for each shipped threshold that is not the chosen one."""
    out = []
    for name, value in chosen._asdict().items():
        threshold, slack = SHIPPED[name]
        shipped = knowledge.threshold(threshold).value
        if abs(shipped - value) > slack:
            out.append(
                f"the threshold for {name!r} is {shipped:g}; left-out sources ask for {value:g}"
            )
    return out
