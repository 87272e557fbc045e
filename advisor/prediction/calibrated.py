"""Predictions for one machine with its own runs: shifted, narrower near them, baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from advisor.domain.facts import OwnRun
from advisor.domain.sourced import sourced
from advisor.perf import arrays, schedule
from advisor.perf.arrays import Floats
from advisor.perf.encoding import encode_rows
from advisor.perf.encoding.cells import row_text
from advisor.prediction import acceptance as acc
from advisor.prediction import own_runs
from advisor.prediction.decision import ESTIMATED
from advisor.prediction.intervals import Predicted, chance, posterior
from advisor.prediction.model import Model, prepare

OWN_SHARE = sourced(
    0.7,
    "share",
    "Of the prior spread that own runs leave, below which a prediction counts as measured",
    "chosen",
)


class Level(NamedTuple):
    """How a measured level without speculation moves the computed one. (N,) each."""

    log: Floats  # by which the computed one moves
    share: Floats  # of what is known that was measured: 1 at a load that was run
    sd: Floats  # of the log of what was measured


class Calibrated(NamedTuple):
    """Predictions and baselines by metric, and by how much log tokens per step move, (N,) each."""

    found: dict[str, Predicted]
    baselines: dict[str, Floats]
    levels: dict[str, Level]
    tokens: Floats
    told: Floats  # share of the variance of the output tok/s gain that the own runs explain


def with_own_runs(
    runs: Sequence[OwnRun],
    found: dict[str, Predicted],
    baselines: dict[str, Floats],
    points: arrays.Points,
    full: arrays.Points,
    model: Model,
    predict: Callable[..., Predicted],
) -> Calibrated:
    """The predictions of one machine once its own runs are known: shifted, and narrower near them.
    `baselines`: log values without speculation by metric, (N,) each.
    """
    out, tokens, told = dict(found), np.zeros(len(full)), np.zeros(len(full))
    own = _observations(tuple(runs), model, predict)
    for name, predicted in found.items():
        if own is None:
            break
        metric = np.full(len(full), arrays.METRICS.index(name), dtype=np.int16)
        where = own_runs.places(points, full.replace(metric=metric))
        there = own_runs.Places(where, predicted.open, predicted.sd)
        made = own_runs.update(there, own)
        out[name] = _shift(predicted, made, model)
        tokens = made.accepted if name == "tpot" else tokens
        told = 1 - made.scale**2 if name == "output_tok_s" else told
    levels = {name: _level(tuple(runs), name, full, model) for name in baselines}
    measured = {name: value * np.exp(levels[name].log) for name, value in baselines.items()}
    return Calibrated(out, measured, levels, tokens, told)


def expected_moves(
    runs: Sequence[OwnRun], points: arrays.Points, model: Model, predict: Callable[..., Predicted]
) -> Floats:
    """By how much one more A/B of each of N points is expected to move the log speed-up of all, in
    the points' own metric (N, N). Entry (i, j) is the standard deviation of the move of point i by
    an A/B of point j, with its sign.
    """
    found = predict(points, model, exact=True)
    there = own_runs.Places(own_runs.places(points, prepare(points)[1]), found.open, found.sd)
    return own_runs.expected_moves(there, _observations(tuple(runs), model, predict))


@lru_cache(maxsize=4)
def _observations(
    runs: tuple[OwnRun, ...], model: Model, predict: Callable[..., Predicted]
) -> own_runs.Observations | None:
    """What own runs say of the model's misses: each gain as a whole, and the part of it that their
    own acceptance explains. None where no run has a gain that can be predicted.
    """
    rows = [(run, gain) for run in runs for gain in run.gains if gain[0] in ESTIMATED]
    if not rows:
        return None

    def points_of(accepted: bool) -> arrays.Points:
        texts = [row_text(own_runs.as_row(run, gain[0], accepted)) for run, gain in rows]
        return encode_rows.from_rows(texts)[0]

    own = points_of(False)
    expected, told = predict(own, model, hide=True), predict(points_of(True), model)
    where = own_runs.places(own, prepare(own)[1])
    log, noise = (np.array([gain[i] for _, gain in rows]) for i in (1, 2))
    stated = np.array([bool(run.accepted_length) for run, _ in rows]) & (
        where[:, own_runs.FIRST] == 0
    )
    usable = (expected.sd > 0) & np.isfinite(expected.mean) & np.isfinite(where).all(axis=1)
    if not usable.any():
        return None
    places = own_runs.Places(where, expected.open, expected.sd).take(usable)
    accepted = np.where(stated, told.mean - expected.mean, np.nan)[usable]
    total = (log - expected.mean)[usable]
    return own_runs.Observations(
        places, total, np.maximum(noise[usable], own_runs.LEAST_SD), accepted
    )


def _shift(found: Predicted, made: own_runs.Update, model: Model) -> Predicted:
    """A prediction with its mean moved and its interval narrowed."""
    off = found.sd == 0
    mean, sd = found.mean + np.where(off, 0.0, made.shift), found.sd * made.scale
    below, above = found.below * made.scale, found.above * made.scale
    own = ~off & (made.scale < OWN_SHARE)
    basis = np.where(own, 0, found.basis).astype(np.int8)
    closeness = np.where(own, 1.0, found.closeness)
    seen = np.where(own, 1.0, found.measured_gain)  # the posterior itself holds what was measured
    likely = model.p_gain(mean, np.where(off, 1.0, sd), found.known)
    likely = chance(likely, found.evidence * made.scale, closeness)
    now = posterior(mean, mean - below, mean + above, likely)
    p_gain = np.where(off, found.p_gain, now.p_gain)
    p10, p50, p90 = (np.where(off, 1.0, np.exp(value)) for value in now[:3])
    quantiles = {"p10": p10, "p50": p50, "p90": p90, "p_gain": p_gain}
    return found._replace(
        **quantiles,
        basis=basis,
        mean=mean,
        sd=sd,
        below=below,
        above=above,
        closeness=closeness,
        measured_gain=seen,
    )


@lru_cache(maxsize=4)
def _plain_runs(
    runs: tuple[OwnRun, ...], model: Model
) -> tuple[arrays.Points, Mapping[str, Floats]]:
    """Own runs as filled points, and their computed speeds without speculation."""
    own, _ = encode_rows.from_rows([row_text(own_runs.as_row(run, "output_tok_s")) for run in runs])
    ready, filled = prepare(own)
    base = schedule.replay(filled, model.speeds, acc.believe(model.acceptance, ready).tau, "base")
    return filled, {
        "output_tok_s": base.output_tok_s,
        "tpot": base.tpot_s * 1e3,
        "ttft": base.ttft_s * 1e3,
    }


def _level(runs: tuple[OwnRun, ...], name: str, full: arrays.Points, model: Model) -> Level:
    """Measured over computed baseline of own plain runs, the nearest and surest most."""
    known = [next(((v, sd) for n, v, sd in run.baseline if n == name), None) for run in runs]
    stated = np.array([i for i, one in enumerate(known) if one is not None], dtype=np.intp)
    if not len(stated):
        nothing = np.zeros(len(full))
        return Level(nothing, nothing, nothing)
    every, computed = _plain_runs(runs, model)
    filled = every.take(stated)
    values, deviations = np.array([one for one in known if one is not None]).T
    log = np.log(values / computed[name][stated])
    variance = np.maximum(deviations, own_runs.LEAST_SD) ** 2
    here, there = own_runs.places(full, full), own_runs.places(filled, filled)
    apart = np.abs(here[:, None, :2] - there[None, :, :2]).sum(axis=2)
    other = (
        here[:, None, own_runs.MODEL : own_runs.WHOLE]
        != there[None, :, own_runs.MODEL : own_runs.WHOLE]
    ).sum(axis=2)
    near = np.exp(-apart / 2 - 2.0 * other) * np.isfinite(log)
    share = np.minimum(near.sum(axis=1), 1.0)
    weight = near / variance
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-9)
    pulled = (weight * np.nan_to_num(log)).sum(axis=1)
    return Level(pulled * share, share, np.sqrt((weight * variance).sum(axis=1)))
