"""A stated acceptance is used as stated, and what no accepted draft can bring is not promised.

The prior (acceptance.py) learns from published figures as from noisy ones; who asks about his own
figure means that figure. What it does not know: whether it was measured with care.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.domain.normal import Z10
from advisor.domain.sourced import sourced
from advisor.perf.arrays import MAX_K, Points
from advisor.prediction import acceptance as acc
from advisor.prediction.intervals import Predicted

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ROUNDS = sourced(8, "steps", "Of the secant; the curve is nearly straight in these units", "chosen")
CHANGE, LEAST_SLOPE = sourced((0.05, 0.1), "logits", "Of the secant, and its least rise", "chosen")
END = sourced(1e-3, "tokens", "A length this near to 1 or to k + 1 is that one", "chosen")
NO_CHANCE = sourced(
    1e-6, "probability", "Of a gain, and how far below 1 it ends: a posterior needs some", "chosen"
)
CERTAIN = acc.FAR  # logit of a draft that is always accepted


def as_stated(belief: acc.Acceptance, points: Points) -> acc.Acceptance:
    """The belief with each stated acceptance exactly as stated; what was not stated, later
    positions above all, stays as inferred from it.

    Parameters
    ----------
    belief : Acceptance
        Prior and stated figures combined. (N,)
    points : Points
        N points, as `acceptance.believe` had them.

    Returns
    -------
    Acceptance
        (N,)
    """
    k = np.where(np.isnan(points.given_k), belief.k, points.given_k)
    length = np.where(
        np.isnan(points.given_length), 1.0 + k * points.given_rate, points.given_length
    )
    rows = np.flatnonzero(belief.known & np.isfinite(length) & (k > 0) & (length >= 1.0))
    each = np.isfinite(points.given_conditional)
    if not (len(rows) or each.any()):
        return belief
    mean = belief.mean.copy()
    if len(rows):
        mean[rows] = _with_length(mean[rows], np.fmin(length[rows], k[rows] + 1), k[rows])
    rates = points.given_conditional[each]
    with np.errstate(divide="ignore"):
        mean[each] = np.clip(np.log(rates) - np.log1p(-rates), -CERTAIN, CERTAIN)
    return acc.Acceptance(mean, belief.shared_sd, belief.k, belief.known)


def _with_length(mean: Floats, length: Floats, k: Floats) -> Floats:
    """Logits (R, MAX_K), the drafted positions moved alike until they give `length` (R,) at k."""
    drafted = np.arange(MAX_K)[None, :] < np.fmin(np.ceil(k), MAX_K)[:, None]
    ends = np.where(length <= 1 + END, -CERTAIN, np.where(length >= k + 1 - END, CERTAIN, 0.0))

    def odds(tokens: Floats) -> Floats:
        inside = np.clip(tokens, 1 + END, k + 1 - END)
        return np.asarray(np.log((inside - 1) / (k + 1 - inside)))

    moved, target = np.zeros(len(mean)), odds(length)

    def told(shift: Floats) -> Floats:
        return odds(acc.tokens_per_step(acc.sigmoid(mean + drafted * shift[:, None]), k))

    for _ in range(ROUNDS):
        here = told(moved)
        slope = np.fmax((told(moved + CHANGE) - here) / CHANGE, LEAST_SLOPE)
        moved = moved + np.clip((target - here) / slope, -acc.STEP, acc.STEP)
    shifted = np.where(drafted, mean + moved[:, None], mean)
    return np.where(drafted & (ends != 0)[:, None], ends[:, None], shifted)


def within_tokens(found: Predicted, first_token: Flags) -> Predicted:
    """Gains that a stated acceptance leaves room for: a cycle takes a step at least, so tokens do
    not come faster than by the tokens of a cycle, and where no draft is accepted nothing gains.

    Parameters
    ----------
    found : Predicted
        Of N points.
    first_token : ndarray of bool, shape (N,)
        Whether the metric is the time to first token, which hangs on more than the cycle.

    Returns
    -------
    Predicted
        (N,)
    """
    here = found.known & (found.sd > 0)
    if not here.any():
        return found
    nothing = here & (found.tau <= 1 + END)
    most = np.log(np.fmax(found.tau, 1.0)) + Z10 * np.sqrt(np.fmax(found.open, 0.0))
    most = np.where(nothing, -NO_CHANCE, np.where(here & ~first_token, most, np.inf))
    mean = np.fmin(found.mean, most)
    high = np.exp(most)
    return found._replace(
        **{name: np.fmin(getattr(found, name), high) for name in ("p10", "p50", "p90")},
        p_gain=np.where(nothing, NO_CHANCE, found.p_gain),
        mean=mean,
        above=np.fmin(found.above, most - mean),
    )
