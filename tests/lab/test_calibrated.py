"""The leave-half-out exam on rows whose misses are drawn from the kernel itself: then own runs
must help, and cover.
"""

import numpy as np
import pytest

from advisor.lab.evaluation.calibrated import Rows, exam, fit_kernel
from advisor.lab.training import own_runs_fit
from advisor.prediction import own_runs

SD = 0.15


def draw(owners: int = 40, arms: int = 14, left_open: float = 1e-3, stated: bool = False) -> Rows:
    dice = np.random.default_rng(3)
    kernel = own_runs.kernel()
    parts: list[own_runs.Places] = []
    log, accepted, owner, arm = [], [], [], []
    for number in range(owners):
        where = np.zeros((arms, 10))
        where[:, 0] = dice.integers(0, 7, arms)
        where[:, 1] = dice.integers(10, 13, arms)
        where[:, 2] = dice.integers(0, 3, arms)
        place = own_runs.Places(where, np.full(arms, left_open), np.full(arms, SD))
        made = own_runs.covariance(own_runs.distances(where, where), place, place, kernel)
        drawn = [
            np.linalg.cholesky(part + 1e-9 * np.eye(arms)) @ dice.normal(size=arms) for part in made
        ]
        parts.append(place)
        log.append(sum(drawn))
        accepted.append(drawn[0] if stated else np.full(arms, np.nan))
        owner += [f"o{number}"] * arms
        arm += [f"o{number}-{i}" for i in range(arms)]
    n = owners * arms
    prior = own_runs.covariance(
        np.zeros((1, 1, 10)), parts[0].take([0]), parts[0].take([0]), kernel
    )
    half = np.full(n, 1.2816 * float(np.sqrt(prior.accepted + prior.rest)[0, 0]))
    columns = zip(*parts, strict=True)
    return Rows(own_runs.Places(*(np.concatenate(column) for column in columns)),
                np.concatenate(log), np.zeros(n), np.concatenate(accepted), -half, half,
                np.array(owner), np.array(arm))  # fmt: skip


def test_own_runs_help_where_misses_go_together_and_the_interval_still_covers() -> None:
    rows = draw()
    one, three = exam(rows, 1, False), exam(rows, 3, False)
    assert one.owners == 40
    assert three.calibrated < one.calibrated < one.without == three.without
    assert three.calibrated < 0.8 * three.without  # what this kernel's fade over load leaves
    assert 0.74 < one.coverage < 0.88 and 0.74 < three.coverage < 0.88
    assert three.wrong_calibrated < three.wrong_without
    chosen = exam(rows, 1, True)
    assert chosen.calibrated <= one.calibrated * 1.03


def test_a_stated_acceptance_is_an_observation_of_its_own() -> None:
    """It tells the parts of a miss apart, which fade at different rates."""
    without, with_it = (exam(draw(left_open=0.1, stated=told), 3, False) for told in (False, True))
    assert with_it.calibrated < without.calibrated


def test_the_fit_finds_a_kernel_that_helps_where_misses_go_together() -> None:
    rows = draw(owners=24)
    kernel = fit_kernel(rows)
    one = exam(rows, 1, False, dict.fromkeys(rows.owner.tolist(), kernel))
    assert one.calibrated < 0.95 * one.without
    alone = own_runs_fit.START._replace(step=1e-3, accepted=1e-3)
    problems = own_runs_fit.problems_of(
        own_runs_fit.OwnRunRows(rows.at, rows.log, rows.accepted, rows.owner, rows.arm)
    )
    assert own_runs_fit.loss(problems, kernel) < own_runs_fit.loss(problems, alone)
    assert own_runs_fit.loss(problems, alone) == pytest.approx(1.0, abs=0.05)
