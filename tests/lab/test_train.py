"""Training: repeatable, in step with data and code, and blind to what was left out."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from advisor.cli.lab import train as command
from advisor.lab.training import dataset as training_data
from advisor.lab.training import fitting, train
from advisor.lab.training.acceptance_fit import Observations
from advisor.lab.training.dataset import Examples
from advisor.prediction.model import Model
from advisor.prediction.residual import Group, Line, Residual, Surface, Table, fit


@pytest.fixture(scope="module")
def small() -> tuple[Examples, Observations]:
    e = training_data.examples(uses=("train",))
    keep = np.isin(
        e.source, ["seed000", "seed004", "m5pro", "kyuz53", "lc22673", "cmp170", "rapidmlx3115"]
    )
    return e.take(np.flatnonzero(keep)), training_data.observations()


def test_artefact_fits_data_and_code() -> None:
    assert train.stale() == []


def test_a_change_of_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "code_hash", lambda: "0")
    assert any("fitting code" in reason for reason in train.stale())
    result = CliRunner().invoke(command, ["--check", "--quick"])
    assert result.exit_code == 1


def test_same_input_same_bytes(small: tuple[Examples, Observations]) -> None:
    e, obs = small
    chords = fitting.slopes(e, obs)
    texts = {json.dumps(fitting.fit(e, obs, chords).to_dict()) for _ in range(2)}
    assert len(texts) == 1


def test_model_survives_json(small: tuple[Examples, Observations]) -> None:
    e, obs = small
    model = fitting.fit(e, obs, fitting.slopes(e, obs))
    again = Model.from_dict(json.loads(json.dumps(model.to_dict())))
    a, b = model.raw(e.points), again.raw(e.points)
    assert b.mean == pytest.approx(a.mean, abs=0.01)
    assert b.sd == pytest.approx(a.sd, rel=0.1)


def test_left_out_rows_do_not_leak(small: tuple[Examples, Observations]) -> None:
    """What a left-out source measured must not touch its own prediction; its interval only through
    how other folds were missed.
    """
    e, obs = small
    chords = fitting.slopes(e, obs)
    here = e.fold == "seed004"
    other = replace(e, log_speedup=np.where(here, -2.0, e.log_speedup))
    first, second = (fitting.cross_predict(x, obs, x.fold, chords) for x in (e, other))
    for name in ("mean", "sd", "mean_hidden", "sd_hidden", "tau_hidden"):
        assert getattr(second, name)[here] == pytest.approx(getattr(first, name)[here]), name
    for name in ("low", "high"):
        assert getattr(second, name)[here] == pytest.approx(getattr(first, name)[here], abs=0.08), (
            name
        )
    assert not np.allclose(second.mean[~here], first.mean[~here])


def test_acceptance_of_a_left_out_source_is_not_seen(small: tuple[Examples, Observations]) -> None:
    _, obs = small
    assert "seed004" not in obs.without({"seed004"}).source
    assert len(obs.without({"seed004"}).k) < len(obs.k)


def test_weights_count_rigs_not_rows() -> None:
    e = training_data.examples(uses=("train",))
    for rig in ("sudo38|rtx5090|1", "seed000|gb10|1"):
        assert e.weight[e.rig == rig].sum() == pytest.approx(1.0)
    assert len(set(e.fold[e.source == "sudo38"])) > 10
    assert not set(e.use) - {"train"}


def test_residual_shrinks_groups_and_grows_doubt_far_away() -> None:
    rng = np.random.default_rng(0)
    n = 120
    table = Table(
        {"x": rng.uniform(-1, 1, n), "y": rng.uniform(-1, 1, n)},
        {"g": np.arange(n) % 3, "h": np.zeros(n, dtype=np.int64)},
    )
    target = 0.3 * (table.codes["g"] == 1) + 0.2 * table.numbers["x"] + rng.normal(0, 0.02, n)
    terms = (Group(("g",), 0.3), Line("x", 0.3), Surface((("y", 1.0),), ("h",), 0.1, 20))
    made = fit(terms, table, target, np.full(n, 0.05), np.array([f"s{i % 10}" for i in range(n)]))
    ask = Table(
        {"x": np.array([0.0, 0.0, 0.0]), "y": np.array([0.0, 0.0, 9.0])},
        {"g": np.array([1, 7, 1]), "h": np.zeros(3, dtype=np.int64)},
    )
    mean, variance, novelty = made.predict(ask)
    assert 0.2 < mean[0] < 0.35
    assert abs(mean[1]) < 0.15  # an unseen group falls back towards the middle
    assert variance[1] > variance[0] and variance[2] > variance[0]
    assert novelty[2] > 0.9
    assert novelty[0] < 0.1
    again = Residual.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again.predict(ask)[0] == pytest.approx(mean, abs=0.01)


def test_quantile_and_slope() -> None:
    values = np.arange(101.0)
    assert fitting.quantile(values, np.ones(101), 0.5) == pytest.approx(50)
    heavy = np.where(values > 90, 100.0, 0.01)
    assert fitting.quantile(values, heavy, 0.1) > 88
    rng = np.random.default_rng(1)
    z = rng.normal(0, 1, 4000)
    hit = rng.uniform(size=4000) < 1 / (1 + np.exp(-2.5 * z))
    assert fitting.logistic_slope(z, hit, np.ones(4000)) == pytest.approx(2.5, abs=0.25)
