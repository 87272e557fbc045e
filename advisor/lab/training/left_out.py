"""Predictions of measured rows by models fitted to the other groups of sources."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GroupKFold

from advisor.lab.arrays import Flags, Floats, Words
from advisor.lab.training import acceptance_fit, bounds, spread_fit
from advisor.lab.training.dataset import Examples
from advisor.lab.training.fitting import FitSetting, Slopes, fit
from advisor.prediction import neighbours
from advisor.prediction.decision import bound
from advisor.prediction.intervals import chance, measured_gain, posterior
from advisor.prediction.model import TTFT, Calibration, Model, prepare
from advisor.prediction.spread import Spread

GROUPS = 20
LEAST_FOLDS = 8  # fewer are done before a second process has started
MOST_WORKERS = 8  # each holds its own copy of what it computes
Columns = dict[str, npt.NDArray[Any]]  # predictions by the names of `LeftOut`
TAILS = ("", "_hidden")  # of those names: with a stated acceptance, and without
SECOND = ("sd", "low", "median", "high", "p_gain")  # from the errors on the other groups


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of M rows by models that have not seen them, (M,) each: `mean` before the chance
    of a gain is known, `median` with it; `known` uses stated acceptances.
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
    on_from: Floats  # bounds for "on" and "off", chosen without the source
    off_to: Floats
    sign: Floats  # log odds of a measured pair, chosen without the source
    tau: Floats
    tau_hidden: Floats
    reasons: Floats  # (M, R)
    reasons_hidden: Floats


def group_labels(labels: Words, groups: int = GROUPS) -> Words:
    """The group in which each row is left out, equal labels together; at most so many groups."""
    count = min(groups, len(np.unique(labels)))
    out = np.zeros(len(labels), dtype="U4")
    for number, (_, test) in enumerate(GroupKFold(count).split(labels, groups=labels)):
        out[test] = f"{number:03d}"
    return out


def row_weight(labels: Words) -> Floats:
    """1 / rows of the label."""
    _, which, count = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / count[which], dtype=np.float64)


def cross_predict(
    train: Examples,
    observations: acceptance_fit.AcceptanceObservations,
    labels: Words,
    chords: Slopes,
    setting: FitSetting | None = None,
    extra: tuple[Examples, Words] | None = None,
    groups: int = GROUPS,
) -> LeftOut:
    """Predict each group of `train` (or `extra`) by a model fitted to the other groups."""
    test, test_labels = extra or (train, labels)
    every = group_labels(np.concatenate([labels, test_labels]), groups)
    folds, test_folds = every[: len(labels)], every[len(labels) :]

    def one(fold: str) -> Columns:
        here, rest = test_folds == fold, folds != fold
        inside = train.take(rest)
        gone = set(train.source[~rest]) | set(test.source[here])
        gone -= set(inside.source)  # a table that is split by rig still has its other rigs
        cut = Slopes(chords.names, chords.values[np.tile(rest, 2)])
        return _raw(fit(inside, observations.without(gone), cut, setting), test.take(here))

    names = np.unique(test_folds).tolist()
    parts = list(each_fold(one, names))
    order = np.argsort(np.concatenate([np.flatnonzero(test_folds == name) for name in names]))
    raw = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    return _finish(raw, test, test_folds, row_weight(test_labels))


def _raw(model: Model, rows: Examples) -> Columns:
    """Means, reasons for doubt and neighbours of rows, with and without their stated acceptance."""
    out: Columns = {}
    ready, full = prepare(rows.points)
    keys, where = neighbours.cell_keys(ready, full), neighbours.coordinates(ready, full)
    for tail in reversed(TAILS):
        raw = model.raw(rows.points, bool(tail))
        known, zeros = raw.belief.known, np.zeros(len(rows))
        pull = (raw.mean, zeros, zeros, zeros > 0, zeros)
        if model.nearby is not None:
            pull = model.nearby.pull(keys, where, raw.mean, known)
        mean, evidence, closeness, near, longer = pull
        names = ("mean", "reasons", "tau", "evidence")
        values = (mean, raw.reasons, raw.belief.tau, evidence)
        out |= {name + tail: value for name, value in zip(names, values, strict=True)}
        out |= {"known": known, "closeness": closeness, "longer": longer, "near": near}
    return out


def second_stage(raw: Columns, rows: Examples, weight: Floats) -> tuple[Spread, Calibration]:
    """Spread and calibration from left-out means and reasons; a forced acceptance teaches nothing
    about predictions that do not know it.
    """
    measured, decoding = rows.log_speedup, rows.points.metric != TTFT
    every, natural = np.ones(len(rows), dtype=bool), ~rows.forced
    stated, hidden = raw["mean"], raw["mean_hidden"]
    parts = (("", every), ("_hidden", natural))
    spread = spread_fit.fit_spread(
        np.concatenate([raw[f"reasons{tail}"][use] for tail, use in parts]),
        np.concatenate([(measured - raw[f"mean{tail}"])[use] for tail, use in parts]),
        np.concatenate([weight[use] for _, use in parts]),
    )
    sds = (spread.sd(raw["reasons"]), spread.sd(raw["reasons_hidden"]))
    uses = (raw["known"], natural)
    return spread, spread_fit.calibration(measured, (stated, hidden), sds, uses, weight, decoding)


def _finish(raw: Columns, test: Examples, folds: Words, weight: Floats) -> LeftOut:
    """Spread, intervals and chances of each group from the errors of the other groups."""
    names = [name + tail for name in SECOND for tail in TAILS]
    out: Columns = {name: np.zeros(len(test)) for name in (*names, "on_from", "off_to", "sign")}
    for fold in np.unique(folds):
        here, rest = folds == fold, folds != fold
        inside = {name: value[rest] for name, value in raw.items()}
        own = {name: value[here] for name, value in raw.items()}
        spread, calibration, chosen = learn(inside, test.take(rest), weight[rest])
        model = Model.from_calibration(spread, calibration)
        seen = measured_gain(np.fmax(own["closeness"], own["longer"]), own["evidence"])
        out["on_from"][here] = bound(chosen.on, chosen.measured, seen)
        out["off_to"][here], out["sign"][here] = chosen.off, chosen.sign
        for tail, known in zip(TAILS, (own["known"], np.zeros(here.sum(), bool)), strict=True):
            mean, sd = own[f"mean{tail}"], spread.sd(own[f"reasons{tail}"])
            low, high = model.interval(mean, sd, known)
            likely = model.p_gain(mean, sd, known)
            likely = chance(likely, own[f"evidence{tail}"], own["closeness"], chosen.sign)
            for name, value in zip(SECOND, (sd, *posterior(mean, low, high, likely)), strict=True):
                out[name + tail][here] = value
    return LeftOut(**raw, **out)


def learn(
    raw: Columns, examples: Examples, weight: Floats
) -> tuple[Spread, Calibration, bounds.Bounds]:
    """Spread, calibration and decision bounds from left-out predictions, `weight` of each row."""
    spread, calibration = second_stage(raw, examples, weight)
    model = Model.from_calibration(spread, calibration)
    scored = examples.primary & (examples.points.metric != TTFT)
    natural, nobody = scored & ~examples.forced, np.zeros(len(examples), dtype=bool)
    cases = []
    for tail, use, known in (("", scored, raw["known"]), ("_hidden", natural, nobody)):
        likely = model.p_gain(raw[f"mean{tail}"], spread.sd(raw[f"reasons{tail}"]), known)
        seen = (raw[f"evidence{tail}"], raw["closeness"], np.fmax(raw["closeness"], raw["longer"]))
        columns = (likely, *seen, examples.log_speedup > 0, np.sqrt(weight))
        cases.append(bounds.BoundCase(*(column[use] for column in columns)))
    return spread, calibration, bounds.choose(cases)


_work: Callable[[str], Any] | None = None


def each_fold(work: Callable[[str], Any], names: Sequence[str]) -> Iterator[Any]:
    """`work(name)` for every name, in their order, one forked process for each core (one by one if
    not on Linux); what it returns must be picklable.
    """
    global _work  # noqa: PLW0603  (forked workers find it there)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if cores < 2 or len(names) < LEAST_FOLDS:
        yield from map(work, names)
        return
    _work = work
    try:
        with ProcessPoolExecutor(min(cores, MOST_WORKERS), mp_context=get_context("fork")) as pool:
            yield from pool.map(_call, names)
    finally:
        _work = None


def _call(name: str) -> Any:
    assert _work is not None, "forked before the work was set"
    return _work(name)
