"""Scores of predicted speed-ups, as pure functions of arrays; groups are averaged, not rows, unless
a name says pooled.

Everything is in log speed-up: `measured` and `predicted` (M,), above 0 is a gain. A group is the
unit that was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]
Flags = npt.NDArray[np.bool_]

NOISE = 0.029  # replicate spread of one arm, as a share: ten replicates spread over 2.9 points
BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Score:
    """A figure with its 90 % bootstrap interval over groups."""

    value: float
    low: float
    high: float

    def text(self, form: str = "{:.1f}", scale: float = 100.0) -> str:
        """Return the score with its range, "-" where it is not a number."""
        if np.isnan(self.value):
            return "-"
        parts = [form.format(scale * v) for v in (self.value, self.low, self.high)]
        return f"{parts[0]} ({parts[1]} to {parts[2]})"


def ape(measured: Floats, predicted: Floats) -> Floats:
    """Absolute percentage error of the speed-up, as a share (M,).

    Parameters
    ----------
    measured : Floats
        Log speed-ups that were measured. (M,)
    predicted : Floats
        Log speed-ups that were predicted. (M,)

    Returns
    -------
    Floats
        Shares. (M,)
    """
    out: Floats = np.abs(np.exp(predicted - measured) - 1)
    return out


def group_values(
    values: Floats, groups: Words, reduce: Callable[[Floats], float] = np.mean
) -> Floats:
    """One figure a group, in the order of the sorted group names.

    Parameters
    ----------
    values : Floats
        (M,)
    groups : Words
        Label of the group of each row. (M,)
    reduce : Callable[[Floats], float]
        Makes one figure of the rows of a group.

    Returns
    -------
    Floats
        One figure a group. (G,)
    """
    by_group = pd.Series(values).groupby(groups)
    each = by_group.apply(lambda rows: float(reduce(rows.to_numpy())))
    return np.asarray(each, dtype=np.float64)


def group_average(
    values: Floats, groups: Words, reduce: Callable[[Floats], float] = np.mean, seed: int = 7
) -> Score:
    """Mean over groups of a figure per group, with a bootstrap over groups.

    Parameters
    ----------
    values : Floats
        (M,)
    groups : Words
        Label of the group of each row. (M,)
    reduce : Callable[[Floats], float]
        Makes one figure of the rows of a group.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Score
        Mean and 80 % range.
    """
    each = group_values(values, groups, reduce)
    if not len(each):
        return Score(np.nan, np.nan, np.nan)
    draws = np.random.default_rng(seed).integers(0, len(each), (BOOTSTRAPS, len(each)))
    means = each[draws].mean(axis=1)
    return Score(
        float(each.mean()), float(np.quantile(means, 0.05)), float(np.quantile(means, 0.95))
    )


def group_weight(groups: Words) -> Floats:
    """1 / rows of the group (M,)."""
    _, which, count = np.unique(groups, return_inverse=True, return_counts=True)
    weight: Floats = 1.0 / count[which]
    return weight


def confusion(measured: Floats, on: Flags, weight: Floats) -> dict[str, float]:
    """Balanced accuracy, MCC, recall of losses and share of gains called off, weighted.

    Parameters
    ----------
    measured : Floats
        Log speed-ups that were measured. (M,)
    on : Flags
        Whether speculation is called on. (M,)
    weight : Floats
        Of each row. (M,)

    Returns
    -------
    dict of float
        Shares by name.
    """
    gain = measured > 0
    tp, fn = weight[gain & on].sum(), weight[gain & ~on].sum()
    tn, fp = weight[~gain & ~on].sum(), weight[~gain & on].sum()
    sensitivity = tp / (tp + fn) if tp + fn else np.nan
    specificity = tn / (tn + fp) if tn + fp else np.nan
    under = float(np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    return {
        "balanced": float((sensitivity + specificity) / 2),
        "mcc": float((tp * tn - fp * fn) / under) if under else 0.0,
        "loss_recall": float(specificity),
        "false_off": float(1 - sensitivity),
    }


def interval_score(measured: Floats, low: Floats, high: Floats, level: float = 0.8) -> Floats:
    """Width plus a penalty for what falls outside, in log units; smaller is better (M,).

    Parameters
    ----------
    measured : Floats
        Log speed-ups that were measured. (M,)
    low : Floats
        Lower end of the interval, log. (M,)
    high : Floats
        Upper end, log. (M,)
    level : float
        Probability that the interval claims.

    Returns
    -------
    Floats
        Log units. (M,)
    """
    below, above = np.maximum(low - measured, 0), np.maximum(measured - high, 0)
    out: Floats = (high - low) + 2 / (1 - level) * (below + above)
    return out


def coverage(
    measured: Floats, low: Floats, high: Floats, groups: Words
) -> tuple[Score, Score, Score]:
    """Coverage, half-width as a log factor, and interval score, each averaged over groups.

    Parameters
    ----------
    measured : Floats
        Log speed-ups that were measured. (M,)
    low : Floats
        Lower end of the interval, log. (M,)
    high : Floats
        Upper end, log. (M,)
    groups : Words
        Label of the group of each row. (M,)

    Returns
    -------
    tuple of Score
        Share covered, half-width as a factor, interval score.
    """
    inside = ((measured >= low) & (measured <= high)).astype(float)
    return (
        group_average(inside, groups),
        group_average((high - low) / 2, groups),
        group_average(interval_score(measured, low, high), groups),
    )


@dataclass(frozen=True)
class Regret:
    """Regret of the chosen k over sweeps, as shares of the best measured speed; `adjusted` counts
    what is within noise as none.
    """

    sweeps: int
    mean: float
    p90: float
    adjusted_mean: float
    adjusted_p90: float


def regrets(
    measured: Floats,
    predicted: Floats,
    k: Floats,
    sweeps: Words,
    rule: Callable[[Floats, Floats], int] | None = None,
) -> Floats:
    """Regret of each sweep with 3 or more measured k, as a share of its best speed; off (speed 1)
    is always among the choices.

    Parameters
    ----------
    measured : Floats
        Measured log speed-ups. (M,)
    predicted : Floats
        Predicted ones; (M,), or (M, C) for a rule that looks at more than the median.
    k : Floats
        Draft tokens. (M,)
    sweeps : Words
        Rows of one word differ by k alone. (M,)
    rule : callable, optional
        Takes what is predicted for each k of a sweep (K,) or (K, C), and these k (K,), and
        returns an index, -1 for off; default: the highest median.

    Returns
    -------
    Floats
        Shares of 1. (sweeps,)
    """
    table = pd.DataFrame(predicted).assign(measured=measured, sweep=sweeps, k=k)
    means = table[np.isfinite(k)].groupby(["sweep", "k"]).mean()
    found = []
    for _, sweep in means.groupby(level="sweep"):
        if len(sweep) < 3:
            continue
        mean, ks = sweep["measured"].to_numpy(), sweep.index.get_level_values("k").to_numpy()
        guess = sweep.drop(columns="measured").to_numpy().reshape(len(ks), *predicted.shape[1:])
        pick = rule(guess, ks) if rule else (int(guess.argmax()) if guess.max() > 0 else -1)
        got = mean[pick] if pick >= 0 else 0.0
        found.append(1 - np.exp(got - max(mean.max(), 0.0)))
    return np.array(found)


def sweep_regret(
    measured: Floats,
    predicted: Floats,
    k: Floats,
    sweeps: Words,
    rule: Callable[[Floats, Floats], int] | None = None,
) -> Regret:
    """Mean and 90th percentile of `regrets`.

    Parameters
    ----------
    measured, predicted, k, sweeps, rule
        As for `regrets`. (M,) each
    """
    each = regrets(measured, predicted, k, sweeps, rule)
    if not len(each):
        return Regret(0, np.nan, np.nan, np.nan, np.nan)
    close = np.where(each <= NOISE, 0.0, each)
    return Regret(
        len(each),
        float(each.mean()),
        float(np.quantile(each, 0.9)),
        float(close.mean()),
        float(np.quantile(close, 0.9)),
    )


EDGES = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)
FEWEST_IN_BIN = 100  # rows; fewer say nothing within 5 points


def calibration(
    measured: Floats, p_gain: Floats, weight: Floats, edges: Sequence[float] = EDGES
) -> list[tuple[float, float, int]]:
    """(mean predicted, share that gained, rows) per bin of p_gain; empty bins are left out.

    Parameters
    ----------
    measured : Floats
        Log speed-ups that were measured. (M,)
    p_gain : Floats
        Predicted chance of a gain. (M,)
    weight : Floats
        Of each row. (M,)
    edges : Sequence[float]
        Of the bins.

    Returns
    -------
    list of tuple
        One entry a bin.
    """
    which = np.clip(np.digitize(p_gain, edges) - 1, 0, len(edges) - 2)
    out = []
    for b in range(len(edges) - 1):
        here = which == b
        if here.any():
            w = weight[here]
            stated = float(np.average(p_gain[here], weights=w))
            out.append(
                (stated, float(np.average((measured > 0)[here], weights=w)), int(here.sum()))
            )
    return out


def worst_gap(measured: Floats, p_gain: Floats, weight: Floats) -> float:
    """Largest distance between the predicted chance and the share that gained, over bins of at
    least FEWEST_IN_BIN rows; 0 where no bin has that many.

    Parameters
    ----------
    measured : Floats
        Log speed-ups that were measured. (M,)
    p_gain : Floats
        Predicted chance of a gain. (M,)
    weight : Floats
        Of each row. (M,)

    Returns
    -------
    float
        A distance of probabilities.
    """
    curve = calibration(measured, p_gain, weight)
    return max((abs(p - hit) for p, hit, rows in curve if rows >= FEWEST_IN_BIN), default=0.0)
