"""Leave-half-out: what one or three A/B runs of an owner say of that owner's other rows."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from advisor.lab.arrays import Flags, Floats, Index, Words
from advisor.lab.training import own_runs_fit
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut, group_labels
from advisor.prediction import own_runs
from advisor.prediction.model import prepare
from advisor.prediction.own_runs import Kernel
from advisor.prediction.spread import REASONS

FEWEST_ARMS = 6
SPLITS = 6
POOL = 12  # arms that are tried when the best is chosen
RUNS = (1, 3)
GROUPS = 4  # of owners, for the nested fits
NARROW = (0.4, 0.6, 0.8, 1.0, 1.2)  # shares of what own runs explain that are tried
COVER = 0.8
Kernels = Mapping[str, Kernel]  # by owner


class Scores(NamedTuple):
    """Medians over splits of the owners' median errors; shares of rows."""

    runs: int
    chosen: bool
    owners: int
    without: float
    calibrated: float
    coverage: float
    wrong_without: float
    wrong_calibrated: float


class Rows(NamedTuple):
    """Left-out rows of all owners; `accepted`: what a stated acceptance explains, or NaN."""

    at: own_runs.Places
    log: Floats
    mean: Floats
    accepted: Floats
    low: Floats
    high: Floats
    owner: Words
    arm: Words

    def take(self, index: Index) -> Self:
        """The rows at these positions."""
        return type(self)._make([self.at.take(index), *(column[index] for column in self[1:])])


class Half(NamedTuple):
    """One split of an owner's arms."""

    owner: str
    kernel: Kernel
    own: Index  # rows of the own runs (O,)
    test: Index  # tested rows of the other half (T,)


def rows_of(examples: Examples, fit: LeftOut) -> Rows:
    """Left-out predictions without a stated acceptance; with it where the harness set it."""
    where = own_runs.places(examples.points, prepare(examples.points)[1])
    forced, tokens = examples.forced, REASONS.index("tokens")
    stated = fit.known & ~forced & (examples.metric != "ttft")
    mean, sd, low, high, reasons = (
        np.where(forced if known.ndim == 1 else forced[:, None], known, hidden)
        for known, hidden in (
            (getattr(fit, name), getattr(fit, f"{name}_hidden"))
            for name in ("mean", "sd", "low", "high", "reasons")
        )
    )
    accepted = np.where(stated, fit.mean - fit.mean_hidden, np.nan)
    at = own_runs.Places(where, reasons[:, tokens], sd)
    labels = (examples.fold, examples.run_id)
    return Rows(at, examples.log_speedup, mean, accepted, low, high, *labels)


def halves(
    rows: Rows, runs: int, chosen: bool = False, kernels: Kernels | None = None, seed: int = 0
) -> Iterator[Half]:
    """Own runs of one half of an owner's arms and the other's rows, SPLITS times each."""
    dice = np.random.default_rng(seed)
    for owner in np.unique(rows.owner).tolist():
        index = np.flatnonzero(rows.owner == owner)
        arms = np.unique(rows.arm[index])
        kernel = kernels[owner] if kernels else own_runs.kernel()
        for _ in range(SPLITS if len(arms) >= FEWEST_ARMS else 0):
            order = dice.permutation(arms.tolist()).tolist()
            half, rest = order[: len(order) // 2], order[len(order) // 2 :]
            test = index[np.isin(rows.arm[index], rest)]
            own = _choose(rows, index, test, half, runs, kernel) if chosen else half[:runs]
            yield Half(owner, kernel, index[np.isin(rows.arm[index], own)], test)


def update(rows: Rows, own: Index, test: Index, kernel: Kernel) -> own_runs.Update:
    """What own runs (O,) make of tested rows (T,) of their owner."""
    noise = np.full(len(own), float(own_runs.LEAST_SD))
    miss = rows.log[own] - rows.mean[own]
    seen = own_runs.Observations(rows.at.take(own), miss, noise, rows.accepted[own])
    return own_runs.update(rows.at.take(test), seen, kernel)


def _choose(
    rows: Rows, index: Index, test: Index, half: list[str], runs: int, kernel: Kernel
) -> list[str]:
    """The arms that narrow the other half most, one after the other; no result is looked at."""
    pool, chosen = half[:POOL], list[str]()

    def left_open(arm: str) -> float:
        own = index[np.isin(rows.arm[index], [*chosen, arm])]
        return float(update(rows, own, test, kernel).scale.sum())

    for _ in range(min(runs, len(pool))):
        chosen.append(min((arm for arm in pool if arm not in chosen), key=left_open))
    return chosen


def exam(
    rows: Rows, runs: int, chosen: bool, kernels: Kernels | None = None, seed: int = 0
) -> Scores:
    """Score one number of own runs, taken at random or chosen."""
    parts = list(halves(rows, runs, chosen, kernels, seed))
    scores = pd.DataFrame([_score(rows, half) for half in parts])
    middle, share = scores.iloc[:, :2].median(), scores.iloc[:, 2:].mean()
    return Scores(runs, chosen, len({half.owner for half in parts}), *middle, *share)


def _score(rows: Rows, half: Half) -> dict[str, float]:
    test, seen = half.test, update(rows, half.own, half.test, half.kernel)
    log, mean = rows.log[test], rows.mean[test]
    moved = mean + seen.shift
    low = moved - (mean - rows.low[test]) * seen.scale
    high = moved + (rows.high[test] - mean) * seen.scale
    return {
        "without": _error(log - mean),
        "calibrated": _error(log - moved),
        "coverage": np.mean((low <= log) & (log <= high)),
        "wrong_without": np.mean((mean > 0) != (log > 0)),
        "wrong_calibrated": np.mean((moved > 0) != (log > 0)),
    }


def _error(miss: Floats) -> float:
    return float(np.median(np.abs(np.expm1(miss))))


def kernels_by_owner(rows: Rows) -> dict[str, Kernel]:
    """For each owner a kernel fitted to owners of other groups."""
    groups = group_labels(rows.owner, GROUPS)
    out: dict[str, Kernel] = {}
    for group in np.unique(groups):
        kernel = fit_kernel(rows, groups != group)
        out |= dict.fromkeys(rows.owner[groups == group].tolist(), kernel)
    return out


def fit_kernel(rows: Rows, use: Flags | None = None) -> Kernel:
    """The kernel that predicts these owners' other halves best, with 80 % in its intervals."""
    part = rows.take(np.flatnonzero(np.ones(len(rows.log), bool) if use is None else use))
    fitted = own_runs_fit.fit(
        own_runs_fit.OwnRunRows(part.at, part.log - part.mean, part.accepted, part.owner, part.arm)
    )
    tried = [fitted._replace(narrow=share) for share in NARROW]
    covers = [
        np.mean([exam(part, n, False, dict.fromkeys(part.owner, one)).coverage for n in RUNS])
        for one in tried
    ]
    return tried[int(np.argmin(np.abs(np.array(covers) - COVER)))]


def exams(rows: Rows, kernels: Kernels | None = None) -> list[Scores]:
    """One and three own runs, at random and chosen."""
    return [exam(rows, count, chosen, kernels) for chosen in (False, True) for count in RUNS]


def as_thresholds(kernel: Kernel) -> str:
    """The kernel as knowledge/thresholds.yaml holds it, rounded."""
    numbers = dict(zip(Kernel._fields[:5], kernel[:5], strict=True))
    for part in ("accepted", "step", "first"):
        measures = getattr(own_runs, f"{part.upper()}_MEASURES")
        fades = zip(measures, getattr(kernel, f"{part}_fade"), strict=True)
        numbers |= {f"{part}_fade_{name}": fade for name, fade in fades}
    rounded = (f"own_runs_{name} {float(f'{value:.3g}'):g}" for name, value in numbers.items())
    return "kernel of all owners: " + ", ".join(rounded)
