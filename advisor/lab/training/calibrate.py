"""Fit the constants of physics to measured speed-ups, shrunk to their published values: a maximum a
posteriori fit by Gauss-Newton steps with one shared Jacobian and an effect of each source.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from advisor.lab.arrays import Floats, Words
from advisor.perf.arrays import PATHS
from advisor.perf.constants import PROVENANCE, Constants, shift_constants

Predictor = Callable[[Constants], Floats]

STEP = 0.15  # finite-difference step in log(constant)
STEPS = 4
RIG_SD = 0.35  # log miss at which a whole rig counts half
ROBUST = 2.0
# no room for effects of a source: a source's own level is what the constants should explain
SOURCE_SD = 0.005
# the published widths are guesses of their authors; wider ones win on left-out sources
PRIOR_WIDTH = 1.5
MAX_SHIFT_SD = 2.5
MOST_STEP = 0.4  # in log(constant)
LEAST_SHIFT = 0.01  # a constant that moved less stays where it was


def names_for(paths: npt.NDArray[np.int16]) -> tuple[str, ...]:
    """Names of the constants that a fit may move, per-path ones for the paths that have rows."""
    default, present = Constants(), [PATHS[code] for code in np.unique(paths)]
    return tuple(
        word
        for name, source in PROVENANCE.items()
        if source.log_sd > 0
        for word in (
            [f"{name}[{path}]" for path in present]
            if isinstance(getattr(default, name), tuple)
            else [name]
        )
    )


def jacobian(
    predict: Predictor, names: tuple[str, ...], at: Mapping[str, float] | None = None
) -> Floats:
    """d log(speed-up) / d log(constant) by central differences around `at`, a column for each."""
    start, base = dict(at or {}), Constants()

    def at_step(name: str, step: float) -> Floats:
        return predict(shift_constants(base, {**start, name: start.get(name, 0.0) + step}))

    return np.column_stack([(at_step(n, STEP) - at_step(n, -STEP)) / (2 * STEP) for n in names])


def rig_trust(miss: Floats, which: npt.NDArray[np.int64]) -> Floats:
    """Weight of each row by how far its rig (`which`) as a whole lies from the model, a half at
    RIG_SD: what no row says must not be paid for by others.
    """
    middle = np.array([np.median(miss[which == rig]) for rig in range(which.max() + 1)])
    return np.asarray(1 / (1 + (middle / RIG_SD) ** 2))[which]


def fit(
    predict: Predictor,
    names: tuple[str, ...],
    slopes: Floats,
    target: Floats,
    noise_sd: Floats,
    rigs: Words,
) -> dict[str, float]:
    """Shifts of log(constant) by name with which `predict` meets the targets. Deterministic."""
    sd = PRIOR_WIDTH * np.array([PROVENANCE[name.split("[")[0]].log_sd for name in names])
    _, which = np.unique(rigs, return_inverse=True)
    effects = np.eye(which.max() + 1)[which] * SOURCE_SD
    p = len(names)
    shift: Floats = np.zeros(p)
    source: Floats = np.zeros(effects.shape[1])
    full = np.hstack([slopes * sd, effects])
    for _ in range(STEPS):
        moved = shift_constants(Constants(), dict(zip(names, shift.tolist(), strict=True)))
        rest = target - predict(moved)
        miss = (rest - effects @ source) / noise_sd
        weight = rig_trust(rest, which) / np.maximum(1.0, np.abs(miss) / ROBUST)
        precision = weight / noise_sd**2
        goal = rest + slopes @ shift  # chord: linear around the current shift
        hessian = (full * precision[:, None]).T @ full + np.eye(full.shape[1])
        solution = np.linalg.solve(hessian, full.T @ (precision * goal))
        wanted = np.clip(solution[:p], -MAX_SHIFT_SD, MAX_SHIFT_SD) * sd
        shift = shift + np.clip(wanted - shift, -MOST_STEP, MOST_STEP)
        source = np.asarray(solution[p:], dtype=np.float64)
    shifts = zip(names, shift.tolist(), strict=True)
    return {name: round(value, 4) for name, value in shifts if abs(value) >= LEAST_SHIFT}
