"""Predicted speed-ups with their quantiles and chance of a gain, as one distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.domain.normal import Z10
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf.arrays import MAX_K, Floats, Ints, Mask, Points
from advisor.perf.load import most_gain
from advisor.prediction import acceptance as acc
from advisor.prediction import spread

SURE = 0.005  # no chance is nearer to 0 or 1
LEAST_WIDTH = 1e-6  # of a half-width, in log
HALVINGS = 14  # of a chance
LEAST_SIDE = 1e-5  # of the probability of one side
CLEAR_SIDE = sourced(
    2.0,
    "times",
    "half of the evidence is a gain; left-out decisions are the same with 1",
    "measured",
)
QUANTILES = sourced((0.1, 0.5, 0.9), "probability", "the 80 % interval and its middle", "chosen")
ROUNDS = sourced(8, "steps", "Of the secant; the curve is nearly straight in these units", "chosen")
CHANGE, LEAST_SLOPE = sourced((0.05, 0.1), "logits", "Of the secant, and its least rise", "chosen")
END = sourced(1e-3, "tokens", "A length this near to 1 or to k + 1 is that one", "chosen")
NO_CHANCE = sourced(
    1e-6, "probability", "Of a gain, and how far below 1 it ends: a posterior needs some", "chosen"
)
CERTAIN = acc.FAR  # logit of a draft that is always accepted


class Predicted(NamedTuple):
    """Speed-ups of each point's metric (above 1 is faster), and what they rest on, (N,) each."""

    p10: Floats
    p50: Floats
    p90: Floats
    p_gain: Floats
    basis: npt.NDArray[np.int8]  # index into BASES
    tau: Floats  # tokens per step, bonus token included
    mean: Floats  # of the log speed-up
    sd: Floats
    evidence: Floats  # side of 1 by the pairs measured nearby, -1 to 1
    below: Floats  # from `mean` to the 10th percentile before the chance of a gain is known, in log
    above: Floats  # to the 90th
    known: Mask  # whether an acceptance was stated
    closeness: Floats  # how far the configuration itself was measured, 0 to 1
    measured_gain: Floats  # how far it was measured and gained, 0 to 1
    open: Floats  # variance of the log speed-up that acceptance leaves open

    def take(self, rows: Ints | slice) -> Predicted:
        """Those of some of the points (M,)."""
        return Predicted._make(column[rows] for column in self)

    def put(self, rows: Ints, part: Predicted) -> Predicted:
        """The same with those at `rows` (M,) taken from another table of M points."""
        columns: Any = [np.array(column) for column in self]
        for column, other in zip(columns, part, strict=True):
            column[rows] = other
        return Predicted(*columns)

    def restate(
        self,
        where: Mask,
        likely: Callable[[Floats, Floats, Mask], Floats] | None = None,
        **changes: npt.NDArray[Any],
    ) -> Predicted:
        """The same with some columns changed where so, and with the quantiles and the chance of a
        gain that follow; `likely`: `Model.p_gain`, without which `p_gain` is one of the changes.
        """
        new = self._replace(**changes)
        p_gain = new.p_gain
        if likely is not None:
            sd = np.where(new.sd > 0, new.sd, 1.0)
            p_gain = chance(likely(new.mean, sd, new.known), new.evidence, new.closeness)
        made = posterior(new.mean, new.mean - new.below, new.mean + new.above, p_gain)
        low, median, high = (np.exp(value) for value in made[:3])
        return pick(where, new._replace(p10=low, p50=median, p90=high, p_gain=made.p_gain), self)


def pick(where: Mask, one: Predicted, other: Predicted) -> Predicted:
    """One prediction at some points, another elsewhere."""
    return Predicted._make(np.where(where, getattr(one, x), getattr(other, x)) for x in one._fields)


class Posterior(NamedTuple):
    """Quantiles of N log speed-ups, and the probability that each is above 0."""

    low: Floats  # 10th percentile
    median: Floats
    high: Floats  # 90th percentile
    p_gain: Floats


def posterior(mean: Floats, low: Floats, high: Floats, p_gain: Floats) -> Posterior:
    """A split normal whose two sides of 1 are reweighted to a given chance of a gain.

    What is known of the size of a gain (a normal with a half-width of its own on either side) and
    what is known of its sign (calibrated, with measured pairs) are two facts. The density that is
    nearest to the first and has the second is the first times one factor below 0 and another above.
    `mean` is the mode of the log speed-up, `low` and `high` the 10th and 90th percentile that a
    normal with each side's width would have (N,). In what is returned `low` > 0 means `p_gain` >=
    0.9, `median` > 0 means 0.5, and `high` < 0 means 0.1.
    """
    below, above = mean - low, high - mean
    low, median, high = (quantile(mean, below, above, p_gain, share) for share in QUANTILES)
    return Posterior(low, median, high, p_gain)


def quantile(
    mean: Floats, below: Floats, above: Floats, p_gain: Floats, share: Floats | float
) -> Floats:
    """The quantile at `share` of the distribution that `posterior` describes; `below` and `above`
    are the half-widths of its 80 % interval before the chance of a gain is known (N,).
    """
    return _quantile_of(mean, *_sides(mean, below, above), p_gain, share)


def _sides(mean: Floats, below: Floats, above: Floats) -> tuple[Floats, Floats, Floats]:
    """Standard deviations below and above the median, and the chance of a gain before (N,)."""
    below, above = (np.fmax(side, LEAST_WIDTH) / Z10 for side in (below, above))
    gained = 1 - spread.cdf(-mean / np.where(mean > 0, below, above))
    return below, above, gained.clip(LEAST_SIDE, 1 - LEAST_SIDE)


def _quantile_of(
    mean: Floats,
    below: Floats,
    above: Floats,
    gained: Floats,
    p_gain: Floats,
    share: Floats | float,
) -> Floats:
    lost = share < 1 - p_gain
    fails, gains = np.where(lost, 1 - p_gain, 1.0), np.where(lost, 1.0, p_gain)
    there = np.where(lost, share * (1 - gained) / fails, 1 - (1 - share) * gained / gains)
    z = spread.quantile(there)
    value = mean + z * np.where(z < 0, below, above)
    return np.where(lost, np.fmin(value, 0.0), np.fmax(value, 0.0))


def chance_of_both(parts: Sequence[tuple[Floats, Predicted]]) -> Floats:
    """The chance that a weighted mean of log speed-ups gains, when what is good for one is good for
    all: the share at which the weighted mean of their quantiles crosses 0 (N,).
    """
    weights = np.stack([weight for weight, _ in parts])
    sides = np.stack([1 - found.p_gain for _, found in parts])
    counts = weights > 0
    low = np.where(counts, sides, 1.0).min(axis=0)
    high = np.where(counts, sides, 0.0).max(axis=0)
    mean, below, above, p_gain = (
        np.stack([getattr(found, name) for _, found in parts])
        for name in ("mean", "below", "above", "p_gain")
    )
    below, above, gained = _sides(mean, below, above)
    for _ in range(HALVINGS):
        share = (low + high) / 2
        value = (weights * _quantile_of(mean, below, above, gained, p_gain, share)).sum(axis=0)
        low, high = np.where(value > 0, low, share), np.where(value > 0, share, high)
    return np.asarray(1 - (low + high) / 2, dtype=np.float64)


def measured_gain(closeness: Floats, evidence: Floats) -> Floats:
    """How far a configuration itself was measured and gained there: 0 where the pairs say that it
    loses (N,). `closeness`: how far it was measured, at its own k or with one draft token more, 0
    to 1; `evidence`: side of 1 by the measured pairs, -1 to 1.
    """
    return np.asarray(closeness * np.clip(CLEAR_SIDE * evidence, 0.0, 1.0), dtype=np.float64)


def chance(p_gain: Floats, evidence: Floats, measured: Floats, sign: float | None = None) -> Floats:
    """The chance of a gain once the measured pairs nearby are counted. `p_gain`: calibrated chance
    without them (N,). `evidence`: their side of 1, -1 (losses, at this place) to 1 (gains); 0 where
    there are none. `measured`: how far the configuration itself was measured, 0 to 1; elsewhere the
    chance stays within what was ever confirmed (`chance_least` to `chance_most`). `sign`: log odds
    of one such pair; default the threshold `measured_sign`.
    """
    p = p_gain.clip(SURE, 1 - SURE)
    held = knowledge.threshold("measured_sign").value if sign is None else sign
    p = np.clip(1 / (1 + np.exp(-np.log(p / (1 - p)) - held * evidence)), SURE, 1 - SURE)
    least, most = (knowledge.threshold(name).value for name in ("chance_least", "chance_most"))
    return np.asarray(measured * p + (1 - measured) * p.clip(least, most), dtype=np.float64)


def pin_acceptance(belief: acc.AcceptanceBelief, points: Points) -> acc.AcceptanceBelief:
    """The belief with each stated acceptance exactly as stated, the rest as inferred."""
    k, length, usable = acc.stated_length(points, belief.k)
    rows = np.flatnonzero(belief.known & usable)
    each = np.isfinite(points.given_conditional)
    if not (len(rows) or each.any()):
        return belief
    mean = belief.mean.copy()
    if len(rows):
        mean[rows] = _with_length(mean[rows], np.fmin(length[rows], k[rows] + 1), k[rows])
    rates = points.given_conditional[each]
    with np.errstate(divide="ignore"):
        mean[each] = np.clip(np.log(rates) - np.log1p(-rates), -CERTAIN, CERTAIN)
    return acc.AcceptanceBelief(mean, belief.shared_sd, belief.k, belief.known)


def _with_length(mean: Floats, length: Floats, k: Floats) -> Floats:
    """Logits (R, MAX_K), the drafted positions moved alike until they give `length` (R,) at k."""
    drafted = np.arange(MAX_K)[None, :] < np.fmin(np.ceil(k), MAX_K)[:, None]
    ends = np.where(length <= 1 + END, -CERTAIN, np.where(length >= k + 1 - END, CERTAIN, 0.0))

    def odds(tokens: Floats) -> Floats:
        inside = tokens.clip(1 + END, k + 1 - END)
        return np.asarray(np.log((inside - 1) / (k + 1 - inside)))

    moved, target = np.zeros(len(mean)), odds(length)

    def place(shift: Floats) -> Floats:
        return odds(acc.tokens_per_step(acc.sigmoid(mean + drafted * shift[:, None]), k))

    for _ in range(ROUNDS):
        here = place(moved)
        slope = np.fmax((place(moved + CHANGE) - here) / CHANGE, LEAST_SLOPE)
        moved = moved + ((target - here) / slope).clip(-acc.STEP, acc.STEP)
    shifted = np.where(drafted, mean + moved[:, None], mean)
    return np.where(drafted & (ends != 0)[:, None], ends[:, None], shifted)


def within_tokens(found: Predicted, first_token: Mask, full: Points) -> Predicted:
    """Gains that the steps leave room for: at most those with every draft accepted, and with a
    stated acceptance the tokens of a cycle, which takes a step at least. Where one step is all
    there is, or no draft is accepted, nothing gains. `first_token`: the metric is the time to first
    token, which hangs on more than the cycle.
    """
    here = found.sd > 0
    stated = np.log(np.fmax(found.tau, 1.0)) + Z10 * np.sqrt(np.fmax(found.open, 0.0))
    most = np.log(most_gain(full))
    nothing = here & ((found.known & (found.tau <= 1 + END)) | (~first_token & (most <= 0)))
    most = np.where(found.known, np.fmin(stated, most), most)
    most = np.where(nothing, -NO_CHANCE, np.where(here & ~first_token, most, np.inf))
    mean = np.fmin(found.mean, most)
    high = np.exp(most)
    return found._replace(
        p10=np.fmin(found.p10 * np.exp(mean - found.mean), high),  # as far below as before
        p50=np.fmin(found.p50, high),
        p90=np.fmin(found.p90, high),
        p_gain=np.where(nothing, NO_CHANCE, found.p_gain),
        mean=mean,
        above=np.fmin(found.above, most - mean),
    )
