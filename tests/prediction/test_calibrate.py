"""Fitting the constants: a rig that lies far off as a whole must not pull the others with it."""

import numpy as np
import pytest

from advisor.lab.training import calibrate


def test_trust_falls_with_the_miss_of_the_whole_rig() -> None:
    which = np.array([0, 0, 0, 1, 1, 1, 2])
    miss = np.array([0.05, -0.05, 0.0, 0.9, 0.8, 1.0, calibrate.RIG_SD])
    trust = calibrate.rig_trust(miss, which)
    assert trust[:3] == pytest.approx(1.0)
    assert (trust[3:6] == trust[3]).all() and trust[3] == pytest.approx(1 / (1 + (0.9 / 0.35) ** 2))
    assert trust[6] == pytest.approx(0.5)


def test_one_row_far_off_leaves_its_rig_trusted() -> None:
    miss = np.array([0.02, 0.0, -0.03, 1.5])
    assert calibrate.rig_trust(miss, np.zeros(4, dtype=np.int64)).min() > 0.99
