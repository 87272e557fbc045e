"""Fit the model: acceptance, the cells that were measured, and the constants of physics, shrunk to
their published values: a maximum a posteriori fit by Gauss-Newton steps with one shared Jacobian
and an effect of each source.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.lab.arrays import Floats, Words
from advisor.lab.training import acceptance_fit
from advisor.lab.training.acceptance_fit import AcceptanceObservations
from advisor.lab.training.dataset import Examples
from advisor.perf import arrays
from advisor.perf.arrays import PATHS
from advisor.perf.constants import PROVENANCE, Constants, shift_constants
from advisor.prediction import acceptance as acc
from advisor.prediction import neighbours
from advisor.prediction.model import TTFT, Calibration, Model, loop, of_metric, prepare
from advisor.prediction.spread import Spread

BASE_SD = 0.05  # what one row misses beyond replicates: prompts, lengths, drivers
STATED_SD = 0.03
TTFT_SD = 0.25
ROWS_PER_RIG = 12.0  # rows of one rig beyond these add no weight
BASELINE_SD = 0.3  # how well the step model can know an absolute speed: clocks, limits, builds
IMPLIED_SD = 0.12
MOST_MISSED = 1.5  # log; a larger miss at a measured pair is not passed on


@dataclass(frozen=True)
class FitSetting:
    """Switches of a fit, for comparisons: which parts are learned."""

    constants: bool = True
    nearby: bool = True
    # the constants of absolute speeds too (training does; they change no speed-up)
    absolute: bool = False


class Slopes(NamedTuple):
    """Jacobian of physics over its constants at all examples, shared by all folds (a chord)."""

    names: tuple[str, ...]
    values: Floats


def slopes(examples: Examples, observations: AcceptanceObservations) -> Slopes:
    """The shared Jacobian, at acceptances of a fit to everything: it only steers the steps."""
    ready, full = prepare(examples.points)
    tau = acc.believe(acceptance_fit.fit(observations), ready).tau
    names = names_for(full.path)
    return Slopes(names, jacobian(lambda c: both(full, c, tau), names))


def both(full: arrays.Points, constants: Constants, tau: Floats) -> Floats:
    """Log speed-ups and, after them, log values of the off arms, of each point's metric (2 M,)."""
    return np.concatenate([of_metric(part, full.metric) for part in loop(full, constants, tau)[:2]])


def row_noise(examples: Examples, belief: acc.AcceptanceBelief) -> Floats:
    """Expected sd of each row around the model, larger where its rig has many rows."""
    tau_sd = np.where(belief.known, STATED_SD, belief.log_tau_sd)
    noise = np.sqrt(examples.sd**2 + BASE_SD**2 + tau_sd**2)
    noise = np.where(examples.points.metric == TTFT, np.hypot(noise, TTFT_SD), noise)
    noise = np.where(examples.primary, noise, np.hypot(noise, 0.05))
    _, which, count = np.unique(examples.rig, return_inverse=True, return_counts=True)
    return np.asarray(noise * np.sqrt(np.maximum(1.0, count[which] / ROWS_PER_RIG)))


def fit(
    examples: Examples,
    observations: AcceptanceObservations,
    chords: Slopes,
    setting: FitSetting | None = None,
) -> Model:
    """Fit acceptance and constants to examples. Spread and calibration are still the defaults."""
    setting = setting or FitSetting()
    ready, full = prepare(examples.points)
    belief = acc.believe(acceptance_fit.fit(observations), ready)
    noise = row_noise(examples, belief)
    shifts, absolute = (
        fit_constants(examples, full, belief, noise, chords, speeds) if wanted else {}
        for speeds, wanted in ((False, setting.constants), (True, setting.absolute))
    )
    base = of_metric(loop(full, shift_constants(Constants(), shifts), belief.tau)[0], full.metric)
    accepted = observations.plus(implied_acceptance(examples, belief, base))
    paths, methods = (tuple(np.unique(codes).tolist()) for codes in (full.path, full.method))
    model = Model(
        acceptance_fit.fit(accepted),
        shifts,
        Spread(),
        Calibration(),
        paths_seen=paths,
        methods_seen=methods,
        absolute=absolute,
    )
    return model.replace(nearby=measured_misses(model, examples)) if setting.nearby else model


def fit_constants(
    examples: Examples,
    full: arrays.Points,
    belief: acc.AcceptanceBelief,
    noise: Floats,
    chords: Slopes,
    absolute: bool,
) -> dict[str, float]:
    """Shifts of log(constant) from speed-ups; `absolute`: from the speeds of the off arms as well,
    which then are known (median error 21 to 13 %) and choose k worse.
    """
    n = len(examples)
    target = np.concatenate([examples.log_speedup, examples.log_base])
    spread = np.concatenate([noise, np.hypot(BASELINE_SD, 2 * noise)])
    use = np.isfinite(target) & (np.arange(2 * n) < (2 * n if absolute else n))
    return move_constants(
        lambda constants: both(full, constants, belief.tau)[use],
        chords.names,
        *(values[use] for values in (chords.values, target, spread, np.tile(examples.rig, 2))),
    )


def implied_acceptance(
    examples: Examples, belief: acc.AcceptanceBelief, physics: Floats
) -> AcceptanceObservations:
    """Tokens per step that speed-ups without a stated acceptance ask for at physics' cost."""
    log_tau = examples.log_speedup - physics + np.log(belief.tau)
    limit = np.log(np.maximum(belief.k + 0.9, 1.1))
    use = ~belief.known & (examples.metric == "request_tok_s") & (belief.k >= 1)
    # a lookup that finds nothing verifies nothing: its cycle is not what physics prices, so it
    # implies no acceptance
    use &= (log_tau > 0.05) & (log_tau < limit) & ~examples.points.is_method("ngram")
    ready, _ = prepare(examples.points.take(np.flatnonzero(use)))
    source = np.char.add(examples.rig[use], acceptance_fit.IMPLIED)
    return AcceptanceObservations(
        ready, belief.k[use], log_tau[use], source, np.full(use.sum(), IMPLIED_SD)
    )


def measured_misses(model: Model, examples: Examples) -> neighbours.Nearby:
    """What the model misses at measured pairs: whole, and beyond a stated acceptance (NaN)."""
    raw, blind = model.raw(examples.points), model.raw(examples.points, hide=True)
    ready, full = prepare(examples.points)
    keys, where = neighbours.cell_keys(ready, full), neighbours.coordinates(ready, full)
    whole, miss = (
        np.clip(examples.log_speedup - each.mean, -MOST_MISSED, MOST_MISSED)
        for each in (blind, raw)
    )
    beyond = np.where(raw.belief.known, miss, np.nan)
    return neighbours.Nearby.build(keys, where, examples.rig, whole, beyond)


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


def move_constants(
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
        precision = rig_trust(rest, which) / np.maximum(1.0, np.abs(miss) / ROBUST) / noise_sd**2
        goal = rest + slopes @ shift  # chord: linear around the current shift
        hessian = (full * precision[:, None]).T @ full + np.eye(full.shape[1])
        solution = np.linalg.solve(hessian, full.T @ (precision * goal))
        wanted = np.clip(solution[:p], -MAX_SHIFT_SD, MAX_SHIFT_SD) * sd
        shift = shift + np.clip(wanted - shift, -MOST_STEP, MOST_STEP)
        source = np.asarray(solution[p:], dtype=np.float64)
    shifts = zip(names, shift.tolist(), strict=True)
    return {name: round(value, 4) for name, value in shifts if abs(value) >= LEAST_SHIFT}
