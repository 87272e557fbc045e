"""The kernel with which a user's own runs move predictions, fitted to published owners: one to
three arms are taken as own runs, absolute errors on the other half are summed.

Likelihood is not used: misses have heavy tails.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from advisor.lab.arrays import Flags, Floats, Index, Words
from advisor.prediction import own_runs
from advisor.prediction.own_runs import Kernel, Observations, Places

FEWEST_ARMS = 4
SPLITS = 2  # of each owner in the objective
MOST_OWN = 10  # rows of the own arms
MOST_OTHER = 14  # rows of the other half
SMOOTH = 0.03  # log ratio below which an error hardly counts less
HELD = 0.002  # weight of the distance from the start, so that what no row tells does not wander
NOBODY = 1e3  # noise of an observation that is not there
LOW, HIGH = -7.0, 1.0  # of the logarithms of the parameters
STEP = 1e-3  # of the numerical gradient
_FADES = (0.3, 0.1, 1.5, 0.25, 0.2, 0.1), (0.2, 0.3, 0.3, 0.3, 0.4, 0.6, 0.6, 0.6, 0.05)
START = Kernel(0.8, 0.5, 0.2, 0.05, 1.0, *_FADES, (0.3, 0.5, 0.1, 0.1))


class OwnRunRows(NamedTuple):
    """Owners' rows: places, misses, the part that acceptance explains, owner, arm. (M,) each."""

    at: Places
    miss: Floats
    accepted: Floats
    owner: Words
    arm: Words


class Problems(NamedTuple):
    """B halves to be predicted from one to three arms, padded; distances are kept."""

    own: Observations
    other: Places
    inside: Floats  # (B, 2M, 2M, 10)
    across: Floats  # (B, T, 2M, 10)
    stated: Floats  # (2M,): 1 where an entry is the acceptance alone
    miss: Floats  # (B, T)
    weight: Floats  # (B, T)


def problems_of(rows: OwnRunRows, seed: int = 0) -> Problems:
    """Random halves of every owner with enough arms."""
    dice = np.random.default_rng(seed)
    own: list[Index] = []
    other: list[Index] = []
    for owner in np.unique(rows.owner):
        index = np.flatnonzero(rows.owner == owner)
        arms = np.unique(rows.arm[index]).tolist()
        for _ in range(SPLITS if len(arms) >= FEWEST_ARMS else 0):
            order = dice.permutation(arms).tolist()
            taken = order[: int(dice.integers(1, 4))]
            rest = order[max(len(order) // 2, len(taken)) :]
            mine, others = (index[np.isin(rows.arm[index], part)] for part in (taken, rest))
            if len(mine) and len(others):
                own.append(dice.permutation(mine)[:MOST_OWN])
                other.append(dice.permutation(others)[:MOST_OTHER])
    (mine, here), (theirs, there) = _pad(own, MOST_OWN), _pad(other, MOST_OTHER)
    # each row as a whole, then its acceptance alone
    present = np.hstack([here, here & np.isfinite(rows.accepted[mine])])
    sd = np.repeat([float(own_runs.LEAST_SD), float(own_runs.ACCEPTED_SD)], MOST_OWN)
    total = np.where(present, np.hstack([rows.miss[mine], rows.accepted[mine]]), 0.0)
    at, other_at = rows.at.take(np.tile(mine, (1, 2))), rows.at.take(theirs)
    plain = np.sqrt(rows.miss[theirs] ** 2 + SMOOTH**2) * there
    return Problems(
        Observations(at, total, np.where(present, sd, NOBODY), np.full_like(total, np.nan)),
        other_at,
        own_runs.distances(at.where, at.where),
        own_runs.distances(other_at.where, at.where),
        np.repeat([0.0, 1.0], MOST_OWN),
        rows.miss[theirs],
        there / np.maximum(plain.sum(axis=1, keepdims=True), 1e-9) / len(own),
    )


def _pad(parts: list[Index], width: int) -> tuple[Index, Flags]:
    """The parts as rows of one table, filled up with zeros, and where it is not filled up."""
    there = np.arange(width) < np.array([len(part) for part in parts])[:, None]
    out = np.zeros(there.shape, dtype=np.intp)
    out[there] = np.concatenate(parts)
    return out, there


def loss(problems: Problems, kernel: Kernel) -> float:
    """Sum of absolute errors over those without own runs, on average over the problems."""
    own, other = problems.own, problems.other
    inside = own_runs.covariance(problems.inside, own.at, own.at, kernel)
    across = own_runs.covariance(problems.across, other, own.at, kernel)
    whole = 1 - problems.stated
    total = inside.accepted + inside.rest * np.outer(whole, whole)
    size = total.shape[-1]
    total[:, range(size), range(size)] += own.noise**2 + own_runs.JITTER
    weights = np.linalg.solve(total, own.total[..., None])[..., 0]
    shift = np.einsum("btm,bm->bt", across.accepted + across.rest * whole, weights)
    return float((np.sqrt((problems.miss - shift) ** 2 + SMOOTH**2) * problems.weight).sum())


def fit(rows: OwnRunRows, seed: int = 0) -> Kernel:
    """The kernel with the smallest loss on random halves of these owners; `narrow` is left at 1."""
    problems, start = problems_of(rows, seed), _vector(START)

    def value(theta: Floats) -> float:
        return loss(problems, _kernel(theta)) + HELD * float(((theta - start) ** 2).sum())

    result = minimize(
        value,
        start,
        method="L-BFGS-B",
        bounds=[(LOW, HIGH)] * len(start),
        options={"maxiter": 40, "maxfun": 10_000, "eps": STEP},
    )
    return _kernel(np.asarray(result.x, dtype=np.float64))


def _vector(kernel: Kernel) -> Floats:
    numbers = [*kernel[:4], *kernel.accepted_fade, *kernel.step_fade, *kernel.first_fade]
    return np.asarray(np.log(np.array(numbers)), dtype=np.float64)


def _kernel(theta: Floats) -> Kernel:
    """The reverse of `_vector`, with `narrow` at 1."""
    ends = np.cumsum([4, *map(len, START[5:7])])
    sizes, *fades = (tuple(part.tolist()) for part in np.split(np.exp(theta), ends))
    return Kernel._make([*sizes, 1.0, *fades, 0.0])
