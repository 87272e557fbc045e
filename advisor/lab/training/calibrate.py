"""Fit the constants of the physics core to measured speed-ups, shrunk to their published values.

A maximum a posteriori fit by Gauss-Newton steps with one shared Jacobian: every constant has a
prior width (its provenance says how wide), every source an effect of its own, rows far off lose
weight. A constant that the data do not identify stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from advisor.perf.arrays import PATHS
from advisor.perf.constants import PROVENANCE, Constants, shift_constants

Floats = npt.NDArray[np.float64]
Predictor = Callable[[Constants], Floats]

STEP = 0.15  # finite-difference step in log(constant)
STEPS = 4
RIG_SD = 0.35  # log miss at which a whole rig counts half
ROBUST = 2.0
# no room for effects of a source: a source's own level is what the constants should explain
SOURCE_SD = 0.005
PRIOR_WIDTH = (
    1.5  # the published widths are guesses of their authors; wider ones win on left-out sources
)
MAX_SHIFT_SD = 2.5


def names_for(paths: npt.NDArray[np.int16]) -> tuple[str, ...]:
    """Names of the constants that a fit may move: scalars, and per-path ones for the paths that
    have rows.

    Parameters
    ----------
    paths : array of int16
        Codes of PATHS. (M,)

    Returns
    -------
    tuple of str
        As `shift_constants` takes them.
    """
    default = Constants()
    present = [PATHS[code] for code in np.unique(paths)]
    out: list[str] = []
    for name, provenance in PROVENANCE.items():
        if provenance.log_sd <= 0:
            continue
        if isinstance(getattr(default, name), tuple):
            out += [f"{name}[{path}]" for path in present]
        else:
            out.append(name)
    return tuple(out)


def prior_sd(names: tuple[str, ...]) -> Floats:
    """Prior width of log(constant).

    Parameters
    ----------
    names : tuple of str
        P constants, as `names_for` gives them.

    Returns
    -------
    Floats
        In log. (P,)
    """
    return PRIOR_WIDTH * np.array([PROVENANCE[name.split("[")[0]].log_sd for name in names])


def jacobian(
    predict: Predictor, names: tuple[str, ...], at: Mapping[str, float] | None = None
) -> Floats:
    """d log(speed-up) / d log(constant), (M, P), by central differences.

    Parameters
    ----------
    predict : Predictor
        Log speed-ups (M,) for constants.
    names : tuple[str, ...]
        Constants to move.
    at : Mapping[str, float] | None
        Shifts of log(constant) around which to differentiate.

    Returns
    -------
    Floats
        One column a constant. (M, P)
    """
    start = dict(at or {})
    base = Constants()
    columns = []
    for name in names:
        up = predict(shift_constants(base, {**start, name: start.get(name, 0.0) + STEP}))
        down = predict(shift_constants(base, {**start, name: start.get(name, 0.0) - STEP}))
        columns.append((up - down) / (2 * STEP))
    return np.column_stack(columns)


def rig_trust(miss: Floats, which: npt.NDArray[np.int64]) -> Floats:
    """Weight of each row by how far its rig as a whole lies from the model, (N,): 1 near it, a half
    at RIG_SD.

    A rig that misses by a factor in all its rows tells of something that no row says; others must
    not pay for it.

    Parameters
    ----------
    miss : Floats
        Log of measured over predicted. (N,)
    which : NDArray[int64]
        Index of the rig of each row. (N,)

    Returns
    -------
    Floats
        From 0 to 1. (N,)
    """
    middle = np.array([np.median(miss[which == rig]) for rig in range(which.max() + 1)])
    return np.asarray(1 / (1 + (middle / RIG_SD) ** 2))[which]


def fit(
    predict: Predictor,
    names: tuple[str, ...],
    slopes: Floats,
    target: Floats,
    noise_sd: Floats,
    groups: npt.NDArray[np.str_],
) -> dict[str, float]:
    """Shifts of log(constant) by name, only those that moved by 0.01 or more. `slopes` from
    `jacobian`. Deterministic.

    Parameters
    ----------
    predict : Predictor
        Log speed-ups (M,) for constants.
    names : tuple[str, ...]
        Constants to move.
    slopes : Floats
        From `jacobian`. (M, P)
    target : Floats
        Log speed-ups to meet. (M,)
    noise_sd : Floats
        Expected scatter of each row. (M,)
    groups : NDArray[str_]
        Rig of each row. (M,)

    Returns
    -------
    dict of float
        Shifts of log(constant) by name.
    """
    sd = prior_sd(names)
    _, which = np.unique(groups, return_inverse=True)
    effects = np.eye(which.max() + 1)[which] * SOURCE_SD
    p = len(names)
    shift = np.zeros(p)
    source = np.zeros(effects.shape[1])
    full = np.hstack([slopes * sd, effects])
    for _ in range(STEPS):
        value = predict(shift_constants(Constants(), dict(zip(names, shift.tolist(), strict=True))))
        miss = (target - value - effects @ source) / noise_sd
        weight = 1 / np.maximum(1.0, np.abs(miss) / ROBUST)
        weight = weight * rig_trust(target - value, which)
        precision = weight / noise_sd**2
        goal = target - value + slopes @ shift  # chord: linear around the current shift
        hessian = (full * precision[:, None]).T @ full + np.eye(full.shape[1])
        solution = np.linalg.solve(hessian, full.T @ (precision * goal))
        wanted = np.clip(solution[:p], -MAX_SHIFT_SD, MAX_SHIFT_SD) * sd
        shift = shift + np.clip(wanted - shift, -0.4, 0.4)
        source = np.asarray(solution[p:], dtype=np.float64)
    return {
        name: round(float(s), 4) for name, s in zip(names, shift, strict=True) if abs(s) >= 0.01
    }
