"""Fit the model: acceptance, constants of physics, and the cells that were measured. Used by train
and evaluate.

The settings in this module are frozen before a fold is opened: noise, number of steps. The spread
and the calibration are fitted to left-out predictions (`left_out`, `spread_fit`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from advisor.lab.training import acceptance_fit, calibrate
from advisor.lab.training.dataset import Examples
from advisor.perf import arrays
from advisor.perf.constants import Constants, shift_constants
from advisor.prediction import acceptance as acc
from advisor.prediction import neighbours
from advisor.prediction.model import (
    TTFT,
    Calibration,
    Model,
    loop,
    of_metric,
    prepare,
)
from advisor.prediction.spread import Spread

Floats = npt.NDArray[np.float64]

BASE_SD = 0.05  # what one row misses beyond replicates: prompts, lengths, drivers
STATED_SD = 0.03
TTFT_SD = 0.25
ROWS_PER_RIG = 12.0  # rows of one rig beyond these add no weight
BASELINE_SD = (
    0.3  # how well the step model can know an absolute speed: clocks, power limits, builds
)
IMPLIED_SD = 0.12
MOST_MISSED = 1.5  # log; a larger miss at a measured pair is not passed on


@dataclass(frozen=True)
class Setting:
    """Switches of a fit, for comparisons: which parts are learned."""

    constants: bool = True
    nearby: bool = True
    absolute: bool = (
        False  # fit the constants of absolute speeds too (training does; they change no speed-up)
    )


@dataclass(frozen=True)
class Slopes:
    """Jacobian of physics over its constants at all examples, shared by all folds (a chord
    method).
    """

    names: tuple[str, ...]
    values: Floats


def slopes(examples: Examples, observations: acceptance_fit.Observations) -> Slopes:
    """The shared Jacobian, with acceptances of a fit to everything: it only steers the steps of a
    fold's own fit.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    observations : acceptance_fit.Observations
        Tokens per step that sources state, with their points.

    Returns
    -------
    Slopes
        Derivatives by constant.
    """
    ready, full = prepare(examples.points)
    tau = acc.believe(acceptance_fit.fit(observations), ready).tau
    names = calibrate.names_for(full.path)
    return Slopes(names, calibrate.jacobian(lambda c: both(full, c, tau), names))


def both(full: arrays.Points, constants: Constants, tau: Floats) -> Floats:
    """Log speed-ups and, after them, log values of the off arms, of each point's metric (2 N,).

    Parameters
    ----------
    full : Points
        Filled points with a k.
    constants : Constants
        Rates and overheads of the kernel paths.
    tau : Floats
        Tokens per step, the bonus token included. (N,)

    Returns
    -------
    Floats
        Speed-ups first. (2 N,)
    """
    gain, plain = loop(full, constants, tau)
    return np.concatenate([of_metric(gain, full.metric), of_metric(plain, full.metric)])


def row_noise(examples: Examples, belief: acc.Acceptance) -> Floats:
    """Expected sd of each row around the model, larger where its rig has many rows (M,).

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    belief : acc.Acceptance
        What is expected of acceptance at the points.

    Returns
    -------
    Floats
        Of log speed-ups. (M,)
    """
    tau_sd = np.where(belief.known, STATED_SD, belief.log_tau_sd)
    noise = np.sqrt(examples.sd**2 + BASE_SD**2 + tau_sd**2)
    noise = np.where(examples.points.metric == TTFT, np.hypot(noise, TTFT_SD), noise)
    noise = np.where(examples.primary, noise, np.hypot(noise, 0.05))
    _, which, count = np.unique(examples.rig, return_inverse=True, return_counts=True)
    out: Floats = noise * np.sqrt(np.maximum(1.0, count[which] / ROWS_PER_RIG))
    return out


def fit(
    examples: Examples,
    observations: acceptance_fit.Observations,
    chords: Slopes,
    setting: Setting | None = None,
) -> Model:
    """Fit acceptance and constants to examples. Spread and calibration are still the defaults.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    observations : acceptance_fit.Observations
        Tokens per step that sources state, with their points.
    chords : Slopes
        Shared Jacobian, as `slopes` gives it.
    setting : Setting | None
        Parts of the model to fit; None: as shipped.

    Returns
    -------
    Model
        With default spread and calibration.
    """
    setting = setting or Setting()
    belief_model = acceptance_fit.fit(observations)
    ready, full = prepare(examples.points)
    belief = acc.believe(belief_model, ready)
    noise = row_noise(examples, belief)
    shifts: dict[str, float] = {}
    if setting.constants:
        shifts = fit_constants(examples, full, belief, noise, chords, absolute=False)
    anchored = (
        fit_constants(examples, full, belief, noise, chords, absolute=True)
        if setting.absolute
        else {}
    )
    base = of_metric(loop(full, shift_constants(Constants(), shifts), belief.tau)[0], full.metric)
    belief_model = acceptance_fit.fit(observations.plus(implied_acceptance(examples, belief, base)))
    model = Model(
        belief_model,
        shifts,
        Spread(),
        Calibration(),
        paths_seen=tuple(int(c) for c in np.unique(full.path)),
        methods_seen=tuple(int(c) for c in np.unique(full.method)),
        absolute=anchored,
    )
    return replace(model, nearby=measured_misses(model, examples)) if setting.nearby else model


def fit_constants(
    examples: Examples,
    full: arrays.Points,
    belief: acc.Acceptance,
    noise: Floats,
    chords: Slopes,
    absolute: bool,
) -> dict[str, float]:
    """Shifts of the constants from speed-ups; `absolute`: from the speeds of the off arms as well.

    Two sets on purpose: with the off arms in it the fit knows absolute speeds (median error 21 to
    13 %) and chooses k worse.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    full : Points
        Filled points with a k.
    belief : acc.Acceptance
        What is expected of acceptance at the points.
    noise : Floats
        Expected sd of each row. (M,)
    chords : Slopes
        Shared Jacobian, as `slopes` gives it.
    absolute : bool
        Fit the speeds of runs without speculation as well.

    Returns
    -------
    dict of float
        Shifts of log(constant) by name.
    """
    n = len(examples)
    target = np.concatenate([examples.log_speedup, examples.log_base])
    spread = np.concatenate([noise, np.hypot(BASELINE_SD, 2 * noise)])
    use = np.isfinite(target) & (np.arange(2 * n) < (2 * n if absolute else n))
    return calibrate.fit(
        lambda c: both(full, c, belief.tau)[use],
        chords.names,
        chords.values[use],
        target[use],
        spread[use],
        np.tile(examples.rig, 2)[use],
    )


def implied_acceptance(
    examples: Examples, belief: acc.Acceptance, physics: Floats
) -> acceptance_fit.Observations:
    """Tokens per step that decode speed-ups without a stated acceptance ask for, at the cycle cost
    of physics.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    belief : acc.Acceptance
        What is expected of acceptance at the points.
    physics : Floats
        Log speed-ups of the current constants. (M,)

    Returns
    -------
    Observations
        Tokens per step with their points.
    """
    log_tau = examples.log_speedup - physics + np.log(belief.tau)
    limit = np.log(np.maximum(belief.k + 0.9, 1.1))
    rows = np.flatnonzero(~belief.known & (examples.metric == "request_tok_s") & (belief.k >= 1))
    inside = (log_tau[rows] > 0.05) & (log_tau[rows] < limit[rows])
    # a lookup that finds nothing verifies nothing: its cycle is not what physics prices, so it
    # implies no acceptance
    rows = rows[inside & ~examples.points.is_method("ngram")[rows]]
    ready, _ = prepare(examples.points.take(rows))
    source = np.char.add(examples.rig[rows], acceptance_fit.IMPLIED)
    return acceptance_fit.Observations(
        ready, belief.k[rows], log_tau[rows], source, np.full(len(rows), IMPLIED_SD)
    )


def measured_misses(model: Model, examples: Examples) -> neighbours.Nearby:
    """What the model still misses at the measured pairs, by cell: as a whole, and beyond the stated
    acceptance (NaN where none is).
    """
    raw, blind = model.raw(examples.points), model.raw(examples.points, hide=True)
    ready, full = prepare(examples.points)
    keys, where = neighbours.cell_keys(ready, full), neighbours.coordinates(ready, full)
    whole, miss = (
        np.clip(examples.log_speedup - made.mean, -MOST_MISSED, MOST_MISSED)
        for made in (blind, raw)
    )
    told = np.where(raw.belief.known, miss, np.nan)
    return neighbours.Nearby.build(keys, where, examples.rig, whole, told)
