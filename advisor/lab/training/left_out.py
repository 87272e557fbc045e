"""Predictions of measured rows by models that have not seen their source.

Sources are left out in groups (scikit-learn's GroupKFold): all rows of a source lie in one group,
and a model that predicts a group is fitted to the other groups. Spread, interval and chance of a
gain of a group come from the errors on the other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GroupKFold

from advisor.lab.training import acceptance_fit, bounds, spread_fit
from advisor.lab.training.dataset import Examples
from advisor.lab.training.fitting import Setting, Slopes, fit
from advisor.lab.training.folds import each
from advisor.prediction import neighbours
from advisor.prediction.decision import bound
from advisor.prediction.intervals import chance, measured_gain, posterior
from advisor.prediction.model import TTFT, Calibration, Model, prepare
from advisor.prediction.spread import Spread

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.str_]
Progress = Callable[[Iterable[str]], Iterable[str]]

GROUPS = 20


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of M rows by models that have not seen them. (M,) each.

    `mean` is what the model says before the chance of a gain is known, `median` with it; `known`
    uses stated acceptances, `closeness` and `near` say whether another source measured the
    configuration or its cell.
    """

    mean: Floats
    sd: Floats
    mean_hidden: Floats
    sd_hidden: Floats
    known: Flags
    closeness: Floats
    longer: Floats  # the same with one draft token more
    near: Flags
    evidence: Floats  # side of 1 by other sources' pairs nearby, -1 to 1
    evidence_hidden: Floats
    median: Floats
    median_hidden: Floats
    low: Floats
    high: Floats
    low_hidden: Floats
    high_hidden: Floats
    p_gain: Floats
    p_gain_hidden: Floats
    on_from: Floats  # bound for "on", chosen without the source
    sign: Floats  # log odds of a measured pair, chosen without the source
    tau: Floats
    tau_hidden: Floats
    reasons: Floats  # (M, R)
    reasons_hidden: Floats


def group_labels(labels: Words, groups: int = GROUPS) -> Words:
    """The group in which each row is left out, equal labels together (M,).

    Parameters
    ----------
    labels : Words
        What is left out together (M,).
    groups : int
        At most so many.

    Returns
    -------
    array of str
        One group a row (M,).
    """
    count = min(groups, len(set(labels.tolist())))
    out = np.zeros(len(labels), dtype="U4")
    splits = GroupKFold(count).split(labels, groups=labels)
    for number, (_, test) in enumerate(splits):
        out[test] = f"{number:03d}"
    return out


def row_weight(labels: Words) -> Floats:
    """1 / rows of the label, of labels (M,): (M,)."""
    _, which, count = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / count[which], dtype=np.float64)


def cross_predict(
    train: Examples,
    observations: acceptance_fit.Observations,
    labels: Words,
    chords: Slopes,
    setting: Setting | None = None,
    extra: tuple[Examples, Words] | None = None,
    progress: Progress = iter,
    groups: int = GROUPS,
) -> LeftOut:
    """Predict each group of labels of `train` (or of `extra`, rows that are only tested) by a model
    fitted to the other groups.

    Parameters
    ----------
    train : Examples
        Measured pairs, M rows.
    observations : acceptance_fit.Observations
        Tokens per step that sources state, with their points.
    labels : Words
        What is left out together (M,).
    chords : Slopes
        Shared Jacobian, as `slopes` gives it.
    setting : Setting | None
        Parts of the model to fit; None: as shipped.
    extra : tuple[Examples, Words] | None
        Rows that are only tested, with their labels.
    progress : Progress
        Wraps the groups as they are fitted, for a progress bar.
    groups : int
        At most so many; labels beyond are left out together.

    Returns
    -------
    LeftOut
        Predictions of the rows that were left out.
    """
    test, test_labels = extra or (train, labels)
    every = group_labels(np.concatenate([labels, test_labels]), groups)
    folds, test_folds = every[: len(labels)], every[len(labels) :]
    raw: dict[str, npt.NDArray[Any]] = {}

    def one(fold: str) -> dict[str, npt.NDArray[Any]]:
        here, rest = test_folds == fold, folds != fold
        inside = train.take(np.flatnonzero(rest))
        gone = set(train.source[~rest]) | set(test.source[here])
        gone -= set(inside.source)  # a table that is split by rig still has its other rigs
        cut = Slopes(chords.names, chords.values[np.tile(rest, 2)])
        model = fit(inside, observations.without(gone), cut, setting)
        return _raw(model, test.take(np.flatnonzero(here)))

    names = sorted(set(test_folds.tolist()))
    for fold, made in zip(names, each(one, names, progress), strict=True):
        here = test_folds == fold
        for name, value in made.items():
            shape = (len(test), *value.shape[1:])
            raw.setdefault(name, np.zeros(shape, dtype=value.dtype))[here] = value
    return _finish(raw, test, test_folds, row_weight(test_labels))


def _raw(model: Model, rows: Examples) -> dict[str, npt.NDArray[Any]]:
    """Means, reasons for doubt and neighbours of rows, with and without their stated acceptance."""
    made: dict[str, npt.NDArray[Any]] = {}
    for hide, tail in ((False, ""), (True, "_hidden")):
        found = model.raw(rows.points, hide)
        mean, closeness, near = found.mean, np.zeros(len(rows)), np.zeros(len(rows), bool)
        evidence, longer = np.zeros(len(rows)), np.zeros(len(rows))
        if model.nearby is not None:
            ready, full = prepare(rows.points)
            keys, where = neighbours.cell_keys(ready, full), neighbours.coordinates(ready, full)
            told = found.belief.known
            mean, evidence, closeness, near, longer = model.nearby.pull(keys, where, mean, told)
        made |= {
            f"mean{tail}": mean,
            f"reasons{tail}": found.reasons,
            f"tau{tail}": found.belief.tau,
            f"evidence{tail}": evidence,
        }
        if not hide:
            made |= {
                "known": found.belief.known,
                "closeness": closeness,
                "longer": longer,
                "near": near,
            }
    return made


def second_stage(
    raw: dict[str, npt.NDArray[Any]], rows: Examples, weight: Floats
) -> tuple[Spread, Calibration]:
    """Spread and calibration from left-out means and reasons. (M,) or (M, R) each.

    A forced acceptance is nobody's text: such rows teach nothing about predictions that do not
    know it.

    Parameters
    ----------
    raw : dict of str to array
        Left-out means and reasons. (M,) or (M, R) each
    rows : Examples
        M examples.
    weight : Floats
        (M,)

    Returns
    -------
    tuple of Spread and Calibration
        Fitted to them.
    """
    measured, decoding = rows.log_speedup, rows.points.metric != TTFT
    every, natural = np.ones(len(rows), dtype=bool), ~rows.forced
    means = (raw["mean"], raw["mean_hidden"])
    parts = (("", every), ("_hidden", natural))
    reasons = np.concatenate([raw[f"reasons{tail}"][use] for tail, use in parts])
    errors = np.concatenate([(measured - raw[f"mean{tail}"])[use] for tail, use in parts])
    both = np.concatenate([weight[use] for _, use in parts])
    spread = spread_fit.fit_spread(reasons, errors, both)
    sds = (spread.sd(raw["reasons"]), spread.sd(raw["reasons_hidden"]))
    uses = (raw["known"], natural)
    return spread, spread_fit.calibration(measured, means, sds, uses, weight, decoding)


def _finish(
    raw: dict[str, npt.NDArray[Any]], test: Examples, folds: Words, weight: Floats
) -> LeftOut:
    """Spread, intervals and chances of each group from the errors of the other groups."""
    n = len(test)
    names = ("sd", "low", "median", "high", "p_gain")
    made = {name + tail: np.zeros(n) for name in names for tail in ("", "_hidden")}
    made |= {"on_from": np.zeros(n), "sign": np.zeros(n)}
    nobody = np.zeros(n, dtype=bool)
    for fold in np.unique(folds):
        here, rest = folds == fold, folds != fold
        part = {name: value[rest] for name, value in raw.items()}
        others = test.take(np.flatnonzero(rest))
        spread, calibration = second_stage(part, others, weight[rest])
        model = Model.from_calibration(spread, calibration)
        chosen = _bounds(model, part, others, weight[rest])
        told_of = np.fmax(raw["closeness"], raw["longer"])[here]
        seen = measured_gain(told_of, raw["evidence"][here])
        made["on_from"][here] = bound(chosen.on, chosen.measured, seen)
        made["sign"][here] = chosen.sign
        for tail, told in (("", raw["known"]), ("_hidden", nobody)):
            mean = raw[f"mean{tail}"][here]
            sd = spread.sd(raw[f"reasons{tail}"][here])
            low, high = model.interval(mean, sd, told[here])
            likely = chance(
                model.p_gain(mean, sd, told[here]),
                raw[f"evidence{tail}"][here],
                raw["closeness"][here],
                chosen.sign,
            )
            for name, value in zip(names, (sd, *posterior(mean, low, high, likely)), strict=True):
                made[name + tail][here] = value
    columns: dict[str, npt.NDArray[Any]] = {**raw, **made}
    return LeftOut(**columns)


def _bounds(
    model: Model, raw: dict[str, npt.NDArray[Any]], rows: Examples, weight: Floats
) -> bounds.Bounds:
    """The bounds of a decision that left-out predictions ask for, acceptance known and ignored."""
    scored = rows.primary & (rows.points.metric != TTFT)
    nobody = np.zeros(len(rows), dtype=bool)
    cases = []
    for tail, use, told in (
        ("", scored, raw["known"]),
        ("_hidden", scored & ~rows.forced, nobody),
    ):
        likely = model.p_gain(raw[f"mean{tail}"], model.spread.sd(raw[f"reasons{tail}"]), told)
        seen = (raw[f"evidence{tail}"], raw["closeness"])
        told_of = np.fmax(raw["closeness"], raw["longer"])
        columns = (likely, *seen, told_of, rows.log_speedup > 0, np.sqrt(weight))
        cases.append(bounds.Case(*(column[use] for column in columns)))
    return bounds.choose(cases)


def learn(
    found: LeftOut, examples: Examples, labels: Words
) -> tuple[Spread, Calibration, bounds.Bounds]:
    """The shipped spread, calibration and bounds: from all left-out predictions.

    Parameters
    ----------
    found : LeftOut
        Left-out predictions of the same rows.
    examples : Examples
        Measured pairs, M rows.
    labels : Words
        What is left out together (M,).

    Returns
    -------
    tuple
        Spread, calibration and decision bounds.
    """
    both = ("mean", "reasons", "evidence")
    names = ("known", "closeness", "longer", *both, *(f"{name}_hidden" for name in both))
    raw = {name: getattr(found, name) for name in names}
    weight = row_weight(labels)
    spread, calibration = second_stage(raw, examples, weight)
    chosen = _bounds(Model.from_calibration(spread, calibration), raw, examples, weight)
    return spread, calibration, chosen
