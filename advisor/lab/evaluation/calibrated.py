"""Leave-half-out: how much one or three A/B runs of an owner say of that owner's other rows.

Every source with at least six speculating arms is split into halves at random, several times. The
model has not seen the source. From the first half one or three arms are taken as own runs, chosen
at random or as `advisor calibrate` would choose them (the largest reduction of the spread, without
a look at any result); errors are on the second half. Beside it: no own run, the own run's ratio for
everything, and the nearest own run's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.lab.evaluation import evaluate
from advisor.lab.progress import bar
from advisor.lab.training import train
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut
from advisor.prediction import own_runs
from advisor.prediction.model import prepare

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]

FEWEST_ARMS = 6
SPLITS = 6
POOL = 12  # arms that are tried when the best is chosen
RUNS = (1, 3)


class Scores(NamedTuple):
    """Medians over splits of the owners' median errors; shares of rows."""

    runs: int
    chosen: bool
    owners: int
    without: float
    calibrated: float
    trusted: float
    nearest: float
    coverage: float
    wrong_without: float
    wrong_calibrated: float


class Rows(NamedTuple):
    """The left-out rows of all owners. (M,) each, `where` (M, 10)."""

    where: Floats
    log: Floats
    mean: Floats
    sd: Floats
    low: Floats
    high: Floats
    owner: Words
    arm: Words
    metric: Words


def rows_of(examples: Examples, out: LeftOut) -> Rows:
    """Left-out predictions without a stated acceptance, as a user asks who has none."""
    where = own_runs.places(examples.points, prepare(examples.points)[1])
    return Rows(
        where,
        examples.log_speedup,
        out.mean_hidden,
        out.sd_hidden,
        out.low_hidden,
        out.high_hidden,
        examples.fold,
        examples.run_id,
        examples.metric,
    )


def exam(rows: Rows, runs: int, chosen: bool, seed: int = 0) -> Scores:
    """Score one number of own runs, taken at random or chosen."""
    dice = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in Scores._fields[3:]}
    owners = 0
    for owner in sorted(set(rows.owner.tolist())):
        index = np.flatnonzero(rows.owner == owner)
        arms = sorted(set(rows.arm[index].tolist()))
        if len(arms) < FEWEST_ARMS:
            continue
        owners += 1
        for _ in range(SPLITS):
            order = dice.permutation(arms).tolist()
            half, rest = order[: len(order) // 2], order[len(order) // 2 :]
            test = index[np.isin(rows.arm[index], rest)]
            taken = _choose(rows, index, test, half[:POOL], runs) if chosen else half[:runs]
            for name, value in _score(rows, index[np.isin(rows.arm[index], taken)], test).items():
                found[name].append(value)
    middle = {
        name: float(np.median(found[name]))
        for name in ("without", "calibrated", "trusted", "nearest")
    }
    share = {
        name: float(np.mean(found[name]))
        for name in ("coverage", "wrong_without", "wrong_calibrated")
    }
    return Scores(runs=runs, chosen=chosen, owners=owners, **middle, **share)


def _update(rows: Rows, own: npt.NDArray[np.int64], test: npt.NDArray[np.int64]) -> own_runs.Update:
    miss = (rows.log[own] - rows.mean[own]) / rows.sd[own]
    return own_runs.update(
        rows.where[test], rows.where[own], miss, own_runs.LEAST_SD / rows.sd[own]
    )


def _choose(
    rows: Rows,
    index: npt.NDArray[np.int64],
    test: npt.NDArray[np.int64],
    pool: list[str],
    runs: int,
) -> list[str]:
    """The arms that narrow the other half most, one after the other; no result is looked at."""
    taken: list[str] = []
    for _ in range(min(runs, len(pool))):
        left = {
            arm: float(
                _update(rows, index[np.isin(rows.arm[index], [*taken, arm])], test).scale.sum()
            )
            for arm in pool
            if arm not in taken
        }
        taken.append(min(left, key=lambda arm: left[arm]))
    return taken


def _score(rows: Rows, own: npt.NDArray[np.int64], test: npt.NDArray[np.int64]) -> dict[str, float]:
    made = _update(rows, own, test)
    log, mean = rows.log[test], rows.mean[test]
    moved = mean + made.shift * rows.sd[test]
    low = moved - (mean - rows.low[test]) * made.scale
    high = moved + (rows.high[test] - mean) * made.scale
    trusted, nearest = _simple(rows, own, test)
    return {
        "without": _error(log - mean),
        "calibrated": _error(log - moved),
        "trusted": _error(log - trusted),
        "nearest": _error(log - nearest),
        "coverage": float(np.mean((low <= log) & (log <= high))),
        "wrong_without": float(np.mean((mean > 0) != (log > 0))),
        "wrong_calibrated": float(np.mean((moved > 0) != (log > 0))),
    }


def _error(miss: Floats) -> float:
    return float(np.median(np.abs(np.expm1(miss))))


def _simple(
    rows: Rows, own: npt.NDArray[np.int64], test: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The own runs' mean ratio of the metric, and that of the nearest own run; the model where
    they have none.
    """
    trusted, nearest = rows.mean[test].copy(), rows.mean[test].copy()
    for at, row in enumerate(test.tolist()):
        same = own[rows.metric[own] == rows.metric[row]]
        if len(same):
            trusted[at] = rows.log[same].mean()
            gap = np.abs(rows.where[same] - rows.where[row])
            apart = gap[:, :3].sum(axis=1) + 3 * (gap[:, 3:8] > 0).sum(axis=1)
            nearest[at] = rows.log[same[int(np.argmin(apart))]]
    return trusted, nearest


def run() -> str:
    """Train without each source (minutes), then score; the summary."""
    with train.single_thread():
        made = evaluate.evaluate(True, bar("left-out fits"))
        rows = rows_of(made.examples, made.shipped)
        return summary([exam(rows, count, chosen) for chosen in (False, True) for count in RUNS])


def summary(scores: list[Scores]) -> str:
    """One line a case."""
    lines = [
        f"{scores[0].owners} sources with {FEWEST_ARMS} or more arms; median error of the other "
        "half's rows:",
        "own runs         without  calibrated    cut  always trusted  nearest  coverage  wrong "
        "decisions",
    ]
    for one in scores:
        name = f"{one.runs}, {'chosen' if one.chosen else 'at random'}"
        cut = 1 - one.calibrated / one.without
        lines.append(
            f"{name:15} {one.without:8.1%} {one.calibrated:11.1%} {cut:6.0%} {one.trusted:15.1%} "
            f"{one.nearest:8.1%}"
            f" {one.coverage:9.0%}  {one.wrong_without:.1%} -> {one.wrong_calibrated:.1%}"
        )
    return "\n".join(lines)
