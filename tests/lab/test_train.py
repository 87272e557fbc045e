"""Training: repeatable, in step with data and code, and blind to what was left out."""

import csv
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from advisor.cli.lab import train as command
from advisor.domain.paths import models_dir
from advisor.lab.arrays import Floats
from advisor.lab.measurements.schema import measurements_dir
from advisor.lab.training import acceptance_fit, dataset, fitting, left_out, spread_fit, train
from advisor.lab.training.acceptance_fit import AcceptanceObservations
from advisor.lab.training.dataset import Examples
from advisor.perf import imputation
from advisor.perf.constants import Constants
from advisor.prediction import acceptance as acc
from advisor.prediction import artefact
from tests.tables import words

FEW = words("seed000 seed004 m5pro kyuz53 lc22673 cmp170 rapidmlx3115")


@pytest.fixture(scope="module")
def rows() -> Examples:
    return dataset.examples(uses=("train",))


@pytest.fixture(scope="module")
def small(rows: Examples) -> tuple[Examples, AcceptanceObservations]:
    """A few sources alone; acceptances of every sixth."""
    few, observations = np.isin(rows.source, FEW), dataset.observations()
    known = np.unique(observations.source)
    return rows.take(np.flatnonzero(few)), observations.without({*known} - {*known[::6]})


def test_artefact_fits_data_facts_and_code() -> None:
    assert train.stale() == []


def test_a_change_of_a_fact_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the bandwidth of every card: other predictions, so the probe differs."""
    impute = imputation.impute
    monkeypatch.setattr(
        imputation, "impute", lambda p: impute(p.replace(bw=2 * p.bw) if not p.filled else p)
    )
    result = CliRunner().invoke(command, ["--check", "--quick"])
    assert result.exit_code == 1 and "facts or code" in result.output


def test_values_count_not_bytes(tmp_path: Path) -> None:
    """Columns in another order, another spelling of a number, a reason for use change nothing."""
    for part in ("runs", "acceptance"):
        (tmp_path / part).mkdir()
    source = measurements_dir() / "runs" / "seed000.csv"
    with source.open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))

    def write(rows: list[dict[str, str]], columns: list[str]) -> str:
        with (tmp_path / "runs" / source.name).open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, columns)
            writer.writeheader()
            writer.writerows(rows)
        return train.data_hash(tmp_path)

    columns = list(rows[0])
    first = write(rows, columns)
    same = [row | {"concurrency": f"{float(row['concurrency'])}", "use_why": "x"} for row in rows]
    assert write(same, columns[::-1]) == first
    assert write([row | {"concurrency": "3"} for row in rows], columns) != first


@pytest.mark.parametrize(("times", "said"), [(1.0, []), (1.01, ["another probe"])])
def test_training_again_must_predict_the_same(
    times: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = json.loads((models_dir() / "speedup.json").read_text(encoding="utf-8"))
    probe = (np.array(shipped["probe"]) * times).tolist()
    monkeypatch.setattr(train, "train", lambda: shipped | {"probe": probe})
    reasons = train.check()
    assert [part in one for part, one in zip(said, reasons, strict=True)] == [True] * len(said)


def test_a_worse_model_is_refused() -> None:
    scores = json.loads((models_dir() / "speedup.json").read_text(encoding="utf-8"))["scores"]
    assert train.below_floor(scores) == []
    worse = scores | {"hidden": scores["hidden"] | {"median_ape": 0.3}}
    assert any("hidden.median_ape" in reason for reason in train.below_floor(worse))


def test_left_out_rows_do_not_leak(small: tuple[Examples, AcceptanceObservations]) -> None:
    """Not its own prediction; its interval only through how other folds were missed."""
    e, obs = small
    chords = fitting.slopes(e, obs)
    here = e.fold == "seed004"
    other = replace(e, log_speedup=np.where(here, -2.0, e.log_speedup))
    first, second = (left_out.cross_predict(x, obs, x.fold, chords) for x in (e, other))
    for name in ("mean", "mean_hidden", "reasons", "reasons_hidden", "tau_hidden"):
        assert getattr(second, name)[here] == pytest.approx(getattr(first, name)[here]), name
    for name in ("low", "high"):
        assert getattr(second, name)[here] == pytest.approx(getattr(first, name)[here], abs=0.08), (
            name
        )
    assert not np.allclose(second.mean[~here], first.mean[~here])


def test_weights_count_rigs_not_rows(rows: Examples) -> None:
    e = rows
    for rig in ("sudo38|rtx5090|1", "seed000|gb10|1"):
        assert e.weight[e.rig == rig].sum() == pytest.approx(1.0)
    assert len(set(e.fold[e.source == "sudo38"])) > 10 and not set(e.use) - {"train"}


def test_acceptances_of_a_model_give_that_model_back() -> None:
    """At every published load, though the fit starts from what heads publish on average."""
    observations, shipped = dataset.observations(), artefact.load().acceptance
    at = observations.points.replace(k=observations.k)
    told = acc.believe(shipped, at, hide=True).tau
    again = acceptance_fit.fit(observations._replace(log_tau=np.log(told)))
    miss = np.abs(np.log(acc.believe(again, at, hide=True).tau / told))
    assert np.median(miss) < 0.003 and miss.max() < 0.02
    assert again.source_sd < 0.1 < acceptance_fit.fit(observations).source_sd


def test_constants_that_made_the_speeds_are_met() -> None:
    """One that moved by less than a hundredth stays; a rig that is off by 3 in log moves none."""
    draw, base = np.random.default_rng(0), Constants()
    names = ("mfu_gemm", "mfu_attention_wgmma", "rho")
    slopes, rigs = draw.normal(0, 1, (60, 3)), np.repeat([f"rig{i}" for i in range(6)], 10)
    true = slopes @ np.array([0.15, -0.1, 0.002])

    def predict(moved: Constants) -> Floats:
        return slopes @ np.log([getattr(moved, name) / getattr(base, name) for name in names])

    for target in (true, true + 3 * (rigs == "rig5")):
        made = fitting.move_constants(predict, names, slopes, target, np.full(60, 0.02), rigs)
        assert made == pytest.approx({"mfu_gemm": 0.15, "mfu_attention_wgmma": -0.1}, abs=0.002)


def test_spread_recovers_the_reasons_for_doubt() -> None:
    """Errors made of two variances: their weights come back, and a reason that never acts is 0."""
    rng = np.random.default_rng(0)
    size = rng.uniform(0, 1, 20_000)
    reasons = np.column_stack([np.ones_like(size), size, 0.2 * size * 0, size * 0, size * 0])
    errors = rng.normal(0, np.sqrt(0.02 + 0.09 * size))
    made = spread_fit.fit_spread(reasons, errors, np.ones_like(size))
    assert made.weights[:2] == pytest.approx((0.02, 0.09), abs=0.005)
    assert made.weights[2:] == (0.0, 0.0, 0.0)
    assert made.sd(reasons[:3]) == pytest.approx(np.sqrt(0.02 + 0.09 * size[:3]), rel=0.1)


def test_the_chance_of_a_gain_is_what_happened() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(0.5, 1.2, 20_000)
    true = 1 / (1 + np.exp(-1.5 * z - 0.4))
    curve = np.array(spread_fit.gain_curve(z, rng.uniform(size=len(z)) < true, np.ones(len(z))))
    assert (np.diff(curve[:, 0]) > 0).all() and (np.diff(curve[:, 1]) >= 0).all()
    middle = np.linspace(-1.5, 2.5, 41)
    assert np.abs(np.interp(middle, *curve.T) - 1 / (1 + np.exp(-1.5 * middle - 0.4))).max() < 0.06


def test_half_widths_hold_four_fifths() -> None:
    errors = np.random.default_rng(2).standard_normal(20_000)
    low, high = spread_fit.half_widths(errors, np.ones(len(errors)))
    assert low == pytest.approx(1.2816 * spread_fit.FROM_OUTSIDE, rel=0.03)
    assert high == pytest.approx(1.2816 * spread_fit.FROM_OUTSIDE, rel=0.03)


def test_a_source_lies_in_one_group(rows: Examples) -> None:
    e = rows
    groups = left_out.group_labels(e.fold)
    assert len(set(groups.tolist())) == left_out.GROUPS
    for source in set(e.fold.tolist()):
        assert len(set(groups[e.fold == source].tolist())) == 1


def test_weighted_quantile() -> None:
    values = np.arange(101.0)
    assert spread_fit.quantile(values, np.ones(101), 0.5) == pytest.approx(50)
    assert spread_fit.quantile(values, np.where(values > 90, 100.0, 0.01), 0.1) > 88


NAMES = [f"fold{i}" for i in range(20)]


def work(name: str) -> tuple[str, float]:
    return name, float(np.random.default_rng(len(name) + int(name[4:])).normal())


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    several = list(left_out.each_fold(work, NAMES))
    monkeypatch.setattr(left_out, "LEAST_FOLDS", 100)
    assert list(left_out.each_fold(work, NAMES)) == several and left_out._work is None


def test_a_failure_in_a_fold_is_not_swallowed() -> None:
    def break_fold(name: str) -> str:
        if name == "fold7":
            raise ValueError(name)
        return name

    with pytest.raises(ValueError, match="fold7"):
        list(left_out.each_fold(break_fold, NAMES))
    assert left_out._work is None


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores on Linux, as in .ci/run",
)
def test_the_work_leaves_this_process() -> None:
    assert os.getpid() not in set(left_out.each_fold(lambda _: os.getpid(), NAMES))
