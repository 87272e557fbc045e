"""Leave-half-out: how much one or three A/B runs of an owner say of that owner's other rows.

Every source with at least six speculating arms is split into halves at random, several times. The
model has not seen the source, and the kernel is fitted to other owners. From the first half one or
three arms are taken as own runs, chosen at random or as `advisor calibrate` would choose them (the
largest reduction of the spread, without a look at any result); errors are on the second half.
Beside it: no own run, the own run's ratio for everything, and the nearest own run's. What could be
reached at most is said with it: all arms of the first half as own runs, and, with the answers
known, the second half's own median miss taken off, in one piece or for each model and method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.lab.training import own_runs_fit
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut, group_labels
from advisor.prediction import own_runs
from advisor.prediction.model import prepare
from advisor.prediction.own_runs import Kernel
from advisor.prediction.spread import REASONS

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]

FEWEST_ARMS = 6
SPLITS = 6
POOL = 12  # arms that are tried when the best is chosen
RUNS = (1, 3)
GROUPS = 4  # of owners, for the nested fits
NARROW = (0.4, 0.6, 0.8, 1.0, 1.2)  # shares of what own runs explain that are tried
COVER = 0.8


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
    """The left-out rows of all owners, (M,) each; `accepted` is the part of the miss that the
    stated acceptance explains, NaN where none is stated.
    """

    at: own_runs.Places
    log: Floats
    mean: Floats
    accepted: Floats
    low: Floats
    high: Floats
    owner: Words
    arm: Words
    metric: Words


def rows_of(examples: Examples, out: LeftOut) -> Rows:
    """Left-out predictions without a stated acceptance, as a user asks who has none; where the
    harness set the acceptance, with it, since no text has it.
    """
    where = own_runs.places(examples.points, prepare(examples.points)[1])
    forced = examples.forced
    tokens = REASONS.index("tokens")

    def pick(stated: Floats, hidden: Floats) -> Floats:
        return np.where(forced, stated, hidden)

    left_open = pick(out.reasons[:, tokens], out.reasons_hidden[:, tokens])
    told = out.known & ~forced & (examples.metric != "ttft")
    return Rows(
        own_runs.Places(where, left_open, pick(out.sd, out.sd_hidden)),
        examples.log_speedup,
        pick(out.mean, out.mean_hidden),
        np.where(told, out.mean - out.mean_hidden, np.nan),
        pick(out.low, out.low_hidden),
        pick(out.high, out.high_hidden),
        examples.fold,
        examples.run_id,
        examples.metric,
    )


def exam(
    rows: Rows, runs: int, chosen: bool, kernels: Mapping[str, Kernel] | None = None, seed: int = 0
) -> Scores:
    """Score one number of own runs, taken at random or chosen; `kernels` by owner, the shipped one
    where it is None.
    """
    dice = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in Scores._fields[3:]}
    owners = 0
    for owner in sorted(set(rows.owner.tolist())):
        made = kernels[owner] if kernels else own_runs.kernel()
        halves = list(splits(rows, owner, runs, chosen, made, dice))
        owners += bool(halves)
        for own, test in halves:
            for name, value in _score(rows, own, test, made).items():
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


def splits(
    rows: Rows, owner: str, runs: int, chosen: bool, made: Kernel, dice: np.random.Generator
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Own runs of one half and the tested rows of the other; none of an owner with few arms.

    Returns
    -------
    iterator of (ndarray, ndarray)
        Indices of the rows of the own runs (O,), and of the tested ones (T,).
    """
    index = np.flatnonzero(rows.owner == owner)
    arms = sorted(set(rows.arm[index].tolist()))
    for _ in range(SPLITS if len(arms) >= FEWEST_ARMS else 0):
        order = dice.permutation(arms).tolist()
        half, rest = order[: len(order) // 2], order[len(order) // 2 :]
        test = index[np.isin(rows.arm[index], rest)]
        taken = _choose(rows, index, test, half[:POOL], runs, made) if chosen else half[:runs]
        yield index[np.isin(rows.arm[index], taken)], test


def update(
    rows: Rows, own: npt.NDArray[np.int64], test: npt.NDArray[np.int64], made: Kernel
) -> own_runs.Update:
    """What own runs make of tested rows of their owner.

    Parameters
    ----------
    rows : Rows
        All of them.
    own, test : ndarray
        Indices of the own runs' rows (O,), and of the tested ones (T,).
    made : Kernel
        How misses go together.
    """
    noise = np.full(len(own), float(own_runs.LEAST_SD))
    miss = rows.log[own] - rows.mean[own]
    seen = own_runs.Observations(rows.at.take(own), miss, noise, rows.accepted[own])
    return own_runs.update(rows.at.take(test), seen, made)


def _choose(
    rows: Rows,
    index: npt.NDArray[np.int64],
    test: npt.NDArray[np.int64],
    pool: list[str],
    runs: int,
    made: Kernel,
) -> list[str]:
    """The arms that narrow the other half most, one after the other; no result is looked at."""
    taken: list[str] = []
    for _ in range(min(runs, len(pool))):
        left = {
            arm: float(
                update(rows, index[np.isin(rows.arm[index], [*taken, arm])], test, made).scale.sum()
            )
            for arm in pool
            if arm not in taken
        }
        taken.append(min(left, key=lambda arm: left[arm]))
    return taken


def _score(
    rows: Rows, own: npt.NDArray[np.int64], test: npt.NDArray[np.int64], kernel: Kernel
) -> dict[str, float]:
    made = update(rows, own, test, kernel)
    log, mean = rows.log[test], rows.mean[test]
    moved = mean + made.shift
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
            gap = np.abs(rows.at.where[same] - rows.at.where[row])
            apart = gap[:, :3].sum(axis=1) + 3 * (gap[:, 3:8] > 0).sum(axis=1)
            nearest[at] = rows.log[same[int(np.argmin(apart))]]
    return trusted, nearest


class Reach(NamedTuple):
    """Median errors that own runs could reach at most: every arm of the other half as an own run,
    and, with the answers known, the half's own median miss taken off, whole or by model and method.
    """

    whole_half: float
    known_offset: float
    known_by_model: float


def reach(rows: Rows, kernels: Mapping[str, Kernel] | None = None, seed: int = 0) -> Reach:
    """What no way to use one or three own runs can be expected to beat."""
    dice = np.random.default_rng(seed)
    found: list[tuple[float, float, float]] = []
    for owner in sorted(set(rows.owner.tolist())):
        index = np.flatnonzero(rows.owner == owner)
        arms = sorted(set(rows.arm[index].tolist()))
        for _ in range(SPLITS if len(arms) >= FEWEST_ARMS else 0):
            half = dice.permutation(arms).tolist()[: len(arms) // 2]
            own = np.isin(rows.arm[index], half)
            made = kernels[owner] if kernels else own_runs.kernel()
            mine, test = index[own], index[~own]
            miss = rows.log[test] - rows.mean[test]
            kinds = rows.at.where[test][:, [own_runs.METHOD, own_runs.MODEL, own_runs.FIRST]]
            found.append(
                (
                    _error(miss - update(rows, mine, test, made).shift),
                    _error(miss - np.median(miss)),
                    _error(miss - _medians(miss, kinds)),
                )
            )
    return Reach(*(float(np.median(column)) for column in zip(*found, strict=True)))


def _medians(miss: Floats, kinds: Floats) -> Floats:
    """The median miss of each row's kind (T,)."""
    out = np.zeros(len(miss))
    for kind in np.unique(kinds, axis=0):
        here = (kinds == kind).all(axis=1)
        out[here] = np.median(miss[here])
    return out


def kernels_by_owner(rows: Rows) -> dict[str, Kernel]:
    """For each owner a kernel fitted to owners of other groups."""
    groups = group_labels(rows.owner, GROUPS)
    out: dict[str, Kernel] = {}
    for group in sorted(set(groups.tolist())):
        made = fit_kernel(rows, groups != group)
        out |= dict.fromkeys(rows.owner[groups == group].tolist(), made)
    return out


def fit_kernel(rows: Rows, use: npt.NDArray[np.bool_] | None = None) -> Kernel:
    """The kernel that predicts these owners' other halves best, and narrows spreads so that the
    80 % intervals of the same owners cover 80 %.

    Parameters
    ----------
    rows : Rows
        M left-out rows of all owners.
    use : array of bool, optional
        The rows to fit to (M,); default all.

    Returns
    -------
    Kernel
        With the share of the narrowing that covers best.
    """
    index = np.flatnonzero(use) if use is not None else np.arange(len(rows.log))
    part = Rows(rows.at.take(index), *(getattr(rows, name)[index] for name in Rows._fields[1:]))
    made = own_runs_fit.fit(
        own_runs_fit.Rows(part.at, part.log - part.mean, part.accepted, part.owner, part.arm)
    )
    tried = [made._replace(narrow=share) for share in NARROW]
    covers = [
        np.mean([exam(part, runs, False, _same(part, one)).coverage for runs in RUNS])
        for one in tried
    ]
    return tried[int(np.argmin(np.abs(np.array(covers) - COVER)))]


def _same(rows: Rows, made: Kernel) -> dict[str, Kernel]:
    return dict.fromkeys(rows.owner.tolist(), made)


def exams(rows: Rows, kernels: Mapping[str, Kernel] | None = None) -> list[Scores]:
    """One and three own runs, at random and chosen."""
    return [exam(rows, count, chosen, kernels) for chosen in (False, True) for count in RUNS]


def _cut(error: float, scores: list[Scores]) -> str:
    return f"{error:.1%} (a cut of {1 - error / scores[0].without:.0%})"


def summary(scores: list[Scores], most: Reach | None = None) -> str:
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
    if most is not None:
        lines.append(
            f"at most: {_cut(most.whole_half, scores)} with every arm of the other half as an own "
            f"run; with the answers known, {_cut(most.known_offset, scores)} with each half's "
            f"median miss taken off, {_cut(most.known_by_model, scores)} with that of each model "
            "and method"
        )
    return "\n".join(lines)
