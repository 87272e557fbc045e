"""The spread between owners of one setting is recovered where it is known, and one owner's own rows
do not count as two.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from advisor.lab.evaluation import owner_spread
from advisor.lab.evaluation.scores import scored_rows
from advisor.lab.training import dataset, left_out


def test_the_floor_recovers_the_spread_of_owners() -> None:
    rng = np.random.default_rng(3)
    settings, each = 4000, 3
    truth = rng.normal(0.3, 0.4, settings)
    values = (truth[:, None] + rng.normal(0, 0.2, (settings, each))).ravel()
    setting = np.repeat(np.arange(settings), each)
    names = np.array([f"owner{j}" for _ in range(settings) for j in range(each)])
    frame = pd.DataFrame({"owner": names, "setting": setting, "value": values})
    shared = owner_spread.shared_settings(frame, ["setting"])
    assert shared.setting.nunique() == settings
    assert owner_spread.floor(shared).std() == pytest.approx(0.2, rel=0.03)
    assert (shared.others - shared.value).std() == pytest.approx(0.2 * np.sqrt(1.5), rel=0.03)


def test_rows_of_one_owner_are_one_witness() -> None:
    columns = {"owner": list("aabcc"), "setting": list("xxxyy"), "value": [0.1, 0.3, 0.4, 0.9, 0.5]}
    shared = owner_spread.shared_settings(pd.DataFrame(columns), ["setting"])
    assert (shared.setting.tolist(), shared.who.tolist()) == (["x", "x"], ["a", "b"])
    assert shared.value.tolist() == pytest.approx([0.2, 0.4])
    assert shared.others.tolist() == pytest.approx([0.4, 0.2])


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
