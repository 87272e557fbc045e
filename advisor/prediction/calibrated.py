"""Predictions for one machine once its own runs are known: shifted, narrower near them, and with
the
baselines that were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from advisor.domain.facts import OwnRun
from advisor.domain.sourced import sourced
from advisor.perf import arrays, encode_rows, schedule
from advisor.perf.row_text import row_text
from advisor.prediction import acceptance as acc
from advisor.prediction import own_runs
from advisor.prediction.intervals import Predicted, chance, posterior
from advisor.prediction.model import Model, prepare

Floats = npt.NDArray[np.float64]

OWN_SHARE = sourced(
    0.7,
    "share",
    "Of the prior spread that own runs leave, below which a prediction counts as measured",
    "chosen",
)


def with_own_runs(
    runs: Sequence[OwnRun],
    found: dict[str, Predicted],
    baselines: dict[str, Floats],
    points: arrays.Points,
    full: arrays.Points,
    model: Model,
    predict: Callable[..., Predicted],
) -> tuple[dict[str, Predicted], dict[str, Floats]]:
    """The predictions of one machine once its own runs are known: shifted, and narrower near
    them.
    """
    rows = [(run, gain) for run in runs for gain in run.gains if gain[0] in found]
    out = dict(found)
    if rows:
        texts = [row_text(own_runs.as_row(run, gain[0])) for run, gain in rows]
        own, _ = encode_rows.from_rows(texts)
        expected = predict(own, model, hide=True)
        where = own_runs.places(own, prepare(own)[1])
        log, noise = (np.array([gain[i] for _, gain in rows]) for i in (1, 2))
        usable = (expected.sd > 0) & np.isfinite(expected.mean) & np.isfinite(where).all(axis=1)
        sd, miss = expected.sd[usable], (log - expected.mean)[usable]
        noise = np.maximum(noise[usable], own_runs.LEAST_SD)
        for name, predicted in found.items() if usable.any() else ():
            metric = np.full(len(full), arrays.METRICS.index(name), dtype=np.int16)
            here = own_runs.places(points, full.replace(metric=metric))
            made = own_runs.update(here, where[usable], miss / sd, noise / sd)
            out[name] = _shift(predicted, made, model)
    return out, {name: value * _scale(runs, name, full, model) for name, value in baselines.items()}


def _shift(found: Predicted, made: own_runs.Update, model: Model) -> Predicted:
    """A prediction with its mean moved and its interval narrowed."""
    mean, sd = found.mean + made.shift * found.sd, found.sd * made.scale
    below, above = found.below * made.scale, found.above * made.scale
    off = found.sd == 0
    own = ~off & (made.scale < OWN_SHARE)
    basis = np.where(own, 0, found.basis).astype(np.int8)
    closeness = np.where(own, 1.0, found.closeness)
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
    )


def _scale(runs: Sequence[OwnRun], name: str, full: arrays.Points, model: Model) -> Floats:
    """Measured over computed baseline of the own runs without speculation, the nearest load most
    (N,).
    """
    rows = [(run, dict(run.baseline)[name]) for run in runs if dict(run.baseline).get(name)]
    if not rows:
        return np.ones(len(full))
    own, _ = encode_rows.from_rows(
        [row_text(own_runs.as_row(run, "output_tok_s")) for run, _ in rows]
    )
    ready, filled = prepare(own)
    base = schedule.replay(filled, model.speeds, acc.believe(model.acceptance, ready).tau, "base")
    computed = {
        "output_tok_s": base.output_tok_s,
        "tpot": base.tpot_s * 1e3,
        "ttft": base.ttft_s * 1e3,
    }
    log = np.log(np.array([value for _, value in rows]) / computed[name])
    here, there = own_runs.places(full, full), own_runs.places(filled, filled)
    apart = np.abs(here[:, None, :2] - there[None, :, :2]).sum(axis=2)
    other = (
        here[:, None, own_runs.MODEL : own_runs.WHOLE]
        != there[None, :, own_runs.MODEL : own_runs.WHOLE]
    ).sum(axis=2)
    weight = np.exp(-apart / 2 - 2.0 * other) * np.isfinite(log)
    total = weight.sum(axis=1)
    pulled = (weight * np.nan_to_num(log)).sum(axis=1) / np.maximum(total, 1e-9)
    return np.asarray(np.exp(pulled * np.minimum(total, 1.0)))
