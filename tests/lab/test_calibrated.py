"""The leave-half-out exam on rows whose misses are drawn from the kernel itself: then own runs
must help, and cover.
"""

from __future__ import annotations

import numpy as np

from advisor.lab.evaluation.calibrated import Rows, exam, summary
from advisor.prediction import own_runs


def draw(owners: int = 40, arms: int = 14) -> Rows:
    dice = np.random.default_rng(3)
    kernel = own_runs.kernel()
    where, log, owner, arm = [], [], [], []
    for number in range(owners):
        place = np.zeros((arms, 10))
        place[:, 0] = dice.integers(0, 7, arms)
        place[:, 1] = dice.integers(10, 13, arms)
        place[:, 2] = dice.integers(0, 3, arms)
        root = np.linalg.cholesky(own_runs.covariance(place, place, kernel) + 1e-6 * np.eye(arms))
        where.append(place)
        log.append(0.15 * kernel.spread * root @ dice.normal(size=arms))
        owner += [f"o{number}"] * arms
        arm += [f"o{number}-{i}" for i in range(arms)]
    n = owners * arms
    half = np.full(n, 0.15 * kernel.spread * 1.2816)
    names = np.array(["tpot"] * n)
    return Rows(
        np.vstack(where),
        np.concatenate(log),
        np.zeros(n),
        np.full(n, 0.15),
        -half,
        half,
        np.array(owner),
        np.array(arm),
        names,
    )


def test_own_runs_help_where_misses_go_together_and_the_interval_still_covers() -> None:
    rows = draw()
    one, three = exam(rows, 1, False), exam(rows, 3, False)
    assert one.owners == 40
    assert three.calibrated < one.calibrated < one.without == three.without
    assert three.calibrated < 0.75 * three.without
    assert 0.74 < one.coverage < 0.88 and 0.74 < three.coverage < 0.88
    assert three.wrong_calibrated < three.wrong_without
    chosen = exam(rows, 1, True)
    assert chosen.calibrated <= one.calibrated * 1.03
    assert "at random" in summary([one, chosen]) and "chosen" in summary([one, chosen])
