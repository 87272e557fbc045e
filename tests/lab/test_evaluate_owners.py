"""The spread between owners of one setting is recovered where it is known, and one owner's own rows
do not count as two.
"""

from __future__ import annotations

import numpy as np
import pytest

from advisor.lab.evaluation import owner_spread
from advisor.lab.evaluation.scores import scored_rows
from advisor.lab.training import dataset, left_out


def test_the_floor_recovers_the_spread_of_owners() -> None:
    rng = np.random.default_rng(3)
    settings, each = 4000, 3
    truth = rng.normal(0.3, 0.4, settings)
    values = (truth[:, None] + rng.normal(0, 0.2, (settings, each))).ravel()
    setting = [(i,) for i in range(settings) for _ in range(each)]
    names = np.array([f"owner{j}" for _ in range(settings) for j in range(each)])
    found = owner_spread.shared_settings(values, names, setting, np.ones(len(values), dtype=bool))
    assert found.settings == settings
    assert found.floor().std() == pytest.approx(0.2, rel=0.03)
    assert (found.others - found.value).std() == pytest.approx(0.2 * np.sqrt(1.5), rel=0.03)


def test_rows_of_one_owner_are_one_witness() -> None:
    values = np.array([0.1, 0.3, 0.4, 0.9, 0.5])
    names = np.array(["a", "a", "b", "c", "c"])
    setting = [("x",), ("x",), ("x",), ("y",), ("y",)]
    found = owner_spread.shared_settings(values, names, setting, np.ones(5, dtype=bool))
    assert (found.settings, found.owner.tolist()) == (1, ["a", "b"])
    assert found.value == pytest.approx([0.2, 0.4])
    assert found.others == pytest.approx([0.4, 0.2])
    assert found.rows[0] == [0, 1]


def test_other_owners_are_compared_with_a_prediction_of_the_same_pairs() -> None:
    """A prediction that is every measured value: no error, every loss called, no regret; the owners
    differ all the same.
    """
    examples = dataset.examples(uses=("train",))
    y = examples.log_speedup
    names = left_out.LeftOut.__dataclass_fields__
    out = left_out.LeftOut(
        **{name: y.copy() for name in names} | {"known": np.isfinite(y), "tau": np.ones(len(y))}
    )
    seen = owner_spread.compare(examples, out, scored_rows(examples))
    assert seen.owners > 20
    assert seen.lines["this model, acceptance unknown"][1:3] == pytest.approx((0, 0))
    assert seen.lines["mean of the other owners of the setting"][2] > 0.1
    assert seen.called["this model"] == (seen.losses, 0)
    assert seen.regret["this model"] == pytest.approx((0, 0))
    assert seen.sweeps >= 10
