"""Scores of log speed-ups, averaged over groups (what was left out) unless a name says pooled."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

from advisor.lab.arrays import Flags, Floats, Words

NOISE = 0.029  # replicate spread of one arm, as a share: ten replicates spread over 2.9 points
BOOTSTRAPS = 1000
EDGES = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)  # of bins of the chance of a gain
FEWEST_IN_BIN = 100  # rows; fewer say nothing within 5 points
Rule = Callable[[Floats, Floats], int]  # predictions of a sweep and its k -> index, -1 for off


class GroupScore(NamedTuple):
    """A figure with its 90 % bootstrap interval over groups."""

    value: float
    low: float
    high: float

    def text(self) -> str:
        """The score in percent with its range."""
        return f"{100 * self.value:.1f} ({100 * self.low:.1f} to {100 * self.high:.1f}) %"


def ape(measured: Floats, predicted: Floats) -> Floats:
    """Absolute percentage error of the speed-up, as a share."""
    return np.asarray(np.abs(np.exp(predicted - measured) - 1))


def group_values(
    values: Floats, groups: Words, reduce: Callable[[Floats], float] = np.mean
) -> Floats:
    """One figure for each group, in the order of the sorted names."""
    return np.array([reduce(values[groups == name]) for name in np.unique(groups)])


def group_average(
    values: Floats, groups: Words, reduce: Callable[[Floats], float] = np.mean, seed: int = 7
) -> GroupScore:
    """Mean over groups of a figure for each group, with a bootstrap over groups."""
    each = group_values(values, groups, reduce)
    if not len(each):
        return GroupScore(np.nan, np.nan, np.nan)
    draws = np.random.default_rng(seed).integers(0, len(each), (BOOTSTRAPS, len(each)))
    return GroupScore(each.mean(), *np.quantile(each[draws].mean(axis=1), (0.05, 0.95)))


def confusion(measured: Floats, on: Flags, weight: Floats) -> tuple[float, float]:
    """Balanced accuracy and Matthews correlation of calling speculation on, weighted."""
    scores = (balanced_accuracy_score, matthews_corrcoef)
    balanced, mcc = (float(score(measured > 0, on, sample_weight=weight)) for score in scores)
    return balanced, mcc


def interval_score(measured: Floats, low: Floats, high: Floats, level: float = 0.8) -> Floats:
    """Width plus a penalty for what falls outside, in log units; smaller is better."""
    below, above = np.maximum(low - measured, 0), np.maximum(measured - high, 0)
    return np.asarray((high - low) + 2 / (1 - level) * (below + above))


def coverage(
    measured: Floats, low: Floats, high: Floats, groups: Words
) -> tuple[GroupScore, GroupScore, GroupScore]:
    """Share covered, log half-width and interval score, each averaged over groups."""
    inside = ((measured >= low) & (measured <= high)).astype(float)
    each = (inside, (high - low) / 2, interval_score(measured, low, high))
    covered, width, score = (group_average(values, groups) for values in each)
    return covered, width, score


def regrets(
    measured: Floats, predicted: Floats, k: Floats, sweeps: Words, rule: Rule | None = None
) -> Floats:
    """Regret of the chosen k in each sweep with 3 or more measured k, as a share of its best speed;
    off is always among the choices, and the highest median the rule where none is given.
    """
    table = pd.DataFrame(predicted).assign(measured=measured, sweep=sweeps, k=k)
    means = table[np.isfinite(k)].groupby(["sweep", "k"]).mean()
    out = []
    for _, sweep in means.groupby(level="sweep"):
        if len(sweep) < 3:
            continue
        mean, ks = sweep["measured"].to_numpy(), sweep.index.get_level_values("k").to_numpy()
        guess = sweep.drop(columns="measured").to_numpy().reshape(len(ks), *predicted.shape[1:])
        pick = rule(guess, ks) if rule else (int(guess.argmax()) if guess.max() > 0 else -1)
        out.append(1 - np.exp((mean[pick] if pick >= 0 else 0.0) - max(mean.max(), 0.0)))
    return np.array(out)


class MethodPicks(NamedTuple):
    """Settings in which several methods were measured, outside the noise (S,) each: whether the
    better one was named, the error of the two best ones' ratio, and the speed that the pick lost.
    """

    named: Flags
    error: Floats
    lost: Floats
    settings: Words


def method_picks(
    measured: Floats, predicted: Floats, settings: Words, methods: Words, first: str = ""
) -> MethodPicks:
    """The method of the highest prediction in each setting against the one that was fastest, each
    at its own best k; `first` is taken wherever it was measured. Noise: 2.9 points between both.
    """
    rows: list[tuple[bool, float, float, str]] = []
    for setting in np.unique(settings):
        seen, guess, taken = {}, {}, {}
        for method in np.unique(methods[settings == setting]):
            pick = np.flatnonzero((settings == setting) & (methods == method))
            guess[method], seen[method] = predicted[pick].max(), measured[pick].max()
            taken[method] = measured[pick[predicted[pick].argmax()]]
        best, *others = sorted(seen, key=seen.__getitem__, reverse=True)
        if not others or seen[best] - seen[others[0]] <= np.log(1 + NOISE):
            continue
        choice = first if first in seen else max(guess, key=guess.__getitem__)
        miss = guess[best] - guess[others[0]] - (seen[best] - seen[others[0]])
        lost = 1 - np.exp(taken[choice] - seen[best])
        rows.append((choice == best, abs(np.exp(miss) - 1), lost, str(setting)))
    return MethodPicks(*(np.array(each) for each in zip(*rows, strict=True)))


def mean_and_tail(values: Floats) -> tuple[float, float]:
    """Mean and 90th percentile; NaN where there are no values."""
    return (float(values.mean()), float(np.quantile(values, 0.9))) if len(values) else (np.nan,) * 2


def calibration(
    measured: Floats, p_gain: Floats, weight: Floats, edges: Sequence[float] = EDGES
) -> list[tuple[float, float, int]]:
    """Mean predicted, share that gained and rows of each bin of `p_gain` that has any."""
    which = np.clip(np.digitize(p_gain, edges) - 1, 0, len(edges) - 2)
    out = []
    for here in (which == b for b in np.unique(which)):
        mean, gained = (np.average(v[here], weights=weight[here]) for v in (p_gain, measured > 0))
        out.append((float(mean), float(gained), int(here.sum())))
    return out


def worst_gap(measured: Floats, p_gain: Floats, weight: Floats) -> float:
    """Largest gap of chance and share that gained, over bins of FEWEST_IN_BIN rows, or 0."""
    curve = calibration(measured, p_gain, weight)
    return max((abs(p - hit) for p, hit, rows in curve if rows >= FEWEST_IN_BIN), default=0.0)
