"""What a predicted speed-up is worth: log speed-up in which a loss weighs more than an equal
gain (`loss_aversion` in knowledge/thresholds.yaml). Chooses among plans, for a question
(advice/decide.py) and the sweeps of the model card; on or off decision.py decides.
"""

from functools import cache

import numpy as np

from advisor.domain.normal import Z10, quantile
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf.arrays import Floats

SAMPLES = sourced(128, "deviates", "Enough that the choice of k repeats; see `normal`", "chosen")
_STEPS = tuple(
    float(np.sqrt(prime)) for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
)


@cache
def normal() -> Floats:
    """Normal deviates, the same every time: quantiles at equal steps of probability, ordered in
    each of 14 dimensions by the multiples of another irrational number modulo 1, and made
    orthogonal (14, SAMPLES).
    """
    z = np.array([quantile((i + 0.5) / SAMPLES) for i in range(SAMPLES)])
    ranks = np.argsort(
        np.argsort(np.arange(1, SAMPLES + 1) * np.array(_STEPS)[:, None] % 1.0, axis=1), axis=1
    )
    free, triangle = np.linalg.qr(z[ranks].T)
    return np.asarray((free * np.sign(np.diag(triangle))).T * np.sqrt(SAMPLES))


def utilities(low: Floats, middle: Floats, high: Floats, z: Floats) -> Floats:
    """Loss-averse utility at each normal deviate: log percentiles (N,), z (S,) -> (N, S)."""
    side = np.where(z[None, :] < 0, (middle - low)[:, None], (high - middle)[:, None])
    gain = middle[:, None] + side * z[None, :] / Z10
    return np.asarray(
        np.where(gain < 0, knowledge.threshold("loss_aversion").value * gain, gain),
        dtype=np.float64,
    )


def symmetric(low: Floats, middle: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """The percentiles with one width on both sides of the median: for a choice among plans.

    That the sides differ says how likely a gain is, which plans of one machine share; which of them
    is the best does not follow from it (left-out sweeps: regret of k 4.5 % with one width, 4.7 %
    with two). (N,) each.
    """
    half = (high - low) / 2
    return middle - half, middle, middle + half


def expected_utility(low: Floats, middle: Floats, high: Floats) -> Floats:
    """Expected utility of log speed-ups by their percentiles, log units; 0: no speculation."""
    return np.asarray(utilities(low, middle, high, normal()[0]).mean(axis=1))


def deviates(index: int) -> Floats:
    """Normal deviates of one of several plans, whose errors are mostly shared (SAMPLES,)."""
    shared = knowledge.threshold("candidate_error_correlation").value
    own = normal()[(index + 1) % len(_STEPS)]
    return np.asarray(np.sqrt(shared) * normal()[0] + np.sqrt(1.0 - shared) * own)


def regrets(samples: Floats) -> Floats:
    """Expected regret of each plan in log units (N,): what the best of them has more, on average;
    from their utilities at each deviate (N, S).
    """
    return np.asarray((samples.max(axis=0)[None, :] - samples).mean(axis=1))
