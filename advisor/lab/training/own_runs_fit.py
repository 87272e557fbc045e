"""The kernel with which a user's own runs move predictions, fitted to published owners.

The objective is what it is for: of owners' rows that were predicted without their source, one to
three arms are taken as own runs, and the absolute errors on arms of the other half are summed, each
owner counted once and in units of its errors without own runs. Likelihood is not used: misses have
heavy tails, and what predicts halves best is not what explains them best.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from advisor.prediction import own_runs
from advisor.prediction.own_runs import Kernel, Observations, Places

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST_ARMS = 4
SPLITS = 2  # of each owner in the objective
MOST_OWN = 10  # rows of the own arms
MOST_OTHER = 14  # rows of the other half
SMOOTH = 0.03  # log ratio below which an error hardly counts less
HELD = 0.002  # weight of the distance from the start, so that what no row tells does not wander
NOBODY = 1e3  # noise of an observation that is not there
LOW, HIGH = -7.0, 1.0  # of the logarithms of the parameters
STEP = 1e-3  # of the numerical gradient
START = Kernel(
    0.8, 0.5, 0.2, 0.05, 1.0,
    (0.3, 0.1, 1.5, 0.25, 0.2, 0.1),
    (0.2, 0.3, 0.3, 0.3, 0.4, 0.6, 0.6, 0.6, 0.05),
    (0.3, 0.5, 0.1, 0.1),
)  # fmt: skip


class Rows(NamedTuple):
    """Left-out predictions of owners' rows: where they lie, what was missed, the part of it that
    the stated acceptance explains (NaN where none is), owner and arm. (M,) each.
    """

    at: Places
    miss: Floats
    accepted: Floats
    owner: npt.NDArray[np.str_]
    arm: npt.NDArray[np.str_]


class Problems(NamedTuple):
    """B halves to be predicted from one to three arms, padded; distances are kept."""

    own: Observations
    other: Places
    inside: Floats  # (B, 2M, 2M, 10)
    across: Floats  # (B, T, 2M, 10)
    stated: Floats  # (2M,): 1 where an entry is the acceptance alone
    miss: Floats  # (B, T)
    weight: Floats  # (B, T)


def problems_of(rows: Rows, seed: int = 0) -> Problems:
    """Random halves of every owner with enough arms."""
    dice = np.random.default_rng(seed)
    own, other = [], []
    for owner in sorted(set(rows.owner.tolist())):
        index = np.flatnonzero(rows.owner == owner)
        arms = sorted(set(rows.arm[index].tolist()))
        for _ in range(SPLITS if len(arms) >= FEWEST_ARMS else 0):
            order = dice.permutation(arms).tolist()
            taken = order[: int(dice.integers(1, 4))]
            rest = order[max(len(order) // 2, len(taken)) :]
            mine = index[np.isin(rows.arm[index], taken)]
            others = index[np.isin(rows.arm[index], rest)]
            if len(mine) and len(others):
                own.append(dice.permutation(mine)[:MOST_OWN])
                other.append(dice.permutation(others)[:MOST_OTHER])
    return _padded_problems(rows, own, other)


def _padded_problems(rows: Rows, own: list[Ints], other: list[Ints]) -> Problems:
    mine, here = _pad(own, MOST_OWN)
    theirs, there = _pad(other, MOST_OTHER)
    twice = np.tile(mine, (1, 2))  # each row as a whole, then its acceptance alone
    told = here & np.isfinite(rows.accepted[mine])
    noise = np.concatenate(
        [
            np.where(here, float(own_runs.LEAST_SD), NOBODY),
            np.where(told, float(own_runs.ACCEPTED_SD), NOBODY),
        ],
        axis=1,
    )
    seen = np.concatenate(
        [np.where(here, rows.miss[mine], 0.0), np.where(told, rows.accepted[mine], 0.0)], axis=1
    )
    at, others = rows.at.take(twice), rows.at.take(theirs)
    plain = np.sqrt(rows.miss[theirs] ** 2 + SMOOTH**2) * there
    weight = there / np.maximum(plain.sum(axis=1, keepdims=True), 1e-9) / len(own)
    return Problems(
        Observations(at, seen, noise, np.full_like(seen, np.nan)),
        others,
        own_runs.distances(at.where, at.where),
        own_runs.distances(others.where, at.where),
        np.repeat([0.0, 1.0], MOST_OWN),
        rows.miss[theirs],
        weight,
    )


def _pad(parts: list[Ints], width: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    out = np.zeros((len(parts), width), dtype=np.int64)
    there = np.zeros((len(parts), width), dtype=np.bool_)
    for row, part in enumerate(parts):
        out[row, : len(part)], there[row, : len(part)] = part, True
    return out, there


def loss(problems: Problems, made: Kernel) -> float:
    """Sum of absolute errors over those without own runs, on average over the problems."""
    own, other = problems.own, problems.other
    inside = own_runs.covariance(problems.inside, own.at, own.at, made)
    across = own_runs.covariance(problems.across, other, own.at, made)
    whole = 1 - problems.stated
    total = inside.accepted + inside.rest * np.outer(whole, whole)
    size = total.shape[-1]
    total[:, range(size), range(size)] += own.noise**2 + own_runs.JITTER
    weights = np.linalg.solve(total, own.total[..., None])[..., 0]
    shift = np.einsum("btm,bm->bt", across.accepted + across.rest * whole, weights)
    error = np.sqrt((problems.miss - shift) ** 2 + SMOOTH**2)
    return float((error * problems.weight).sum())


def fit(rows: Rows, seed: int = 0) -> Kernel:
    """The kernel with the smallest loss on random halves of these owners; `narrow` is left at 1."""
    problems, start = problems_of(rows, seed), _vector(START)

    def value(theta: Floats) -> float:
        held = HELD * float(((theta - start) ** 2).sum())
        return loss(problems, _kernel(theta)) + held

    def slope(theta: Floats) -> tuple[float, Floats]:
        here = value(theta)
        steps = np.eye(len(theta)) * STEP
        return here, np.array([(value(theta + step) - here) / STEP for step in steps])

    found = minimize(
        slope, start, jac=True, method="L-BFGS-B", bounds=[(LOW, HIGH)] * len(start),
        options={"maxiter": 40},
    )  # fmt: skip
    return _kernel(np.asarray(found.x, dtype=np.float64))


def _vector(made: Kernel) -> Floats:
    numbers = [*made[:4], *made.accepted_fade, *made.step_fade, *made.first_fade]
    return np.asarray(np.log(np.array(numbers)), dtype=np.float64)


def _kernel(theta: Floats) -> Kernel:
    numbers = np.exp(theta).tolist()
    sizes = [len(fade) for fade in (START.accepted_fade, START.step_fade, START.first_fade)]
    ends = np.cumsum([4, *sizes]).tolist()
    accepted, step, first = (tuple(numbers[a:b]) for a, b in pairwise(ends))
    return Kernel(
        numbers[0], numbers[1], numbers[2], numbers[3], 1.0, accepted, step, first
    )  # narrow follows
