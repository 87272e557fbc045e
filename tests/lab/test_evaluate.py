"""Scores on arrays whose answer is known, baselines that do not peek, and a card that is in step
with the artefact.
"""

from __future__ import annotations

import numpy as np
import pytest

from advisor.domain.paths import models_dir
from advisor.lab.evaluation import baselines, metrics, scores
from advisor.lab.evaluation import card as model_card
from advisor.lab.training import dataset, spread_fit
from advisor.prediction import utility


def test_ape_and_averages_are_over_groups() -> None:
    measured, predicted = np.log([1.0, 2.0, 2.0, 2.0]), np.log([1.1, 2.0, 2.0, 2.0])
    groups = np.array(["a", "b", "b", "b"])
    error = metrics.ape(measured, predicted)
    assert error == pytest.approx([0.1, 0, 0, 0])
    assert metrics.group_average(error, groups).value == pytest.approx(0.05)


def test_a_weighted_median_counts_groups() -> None:
    values, groups = np.array([0.1, 0.1, 0.1, 0.5, 0.9]), np.array(["a", "a", "a", "b", "c"])
    assert spread_fit.quantile(values, metrics.group_weight(groups), 0.5) == pytest.approx(0.5)


def test_confusion() -> None:
    y = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, -0.1, -0.2])
    p = np.array([0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.65])
    w = np.ones(12)
    found = metrics.confusion(y, p > 0.5, w)
    assert (found["loss_recall"], found["false_off"]) == (0.5, 0.0)
    assert found["balanced"] == 0.75


def test_a_rule_for_k_may_look_at_more_than_the_median() -> None:
    y = np.log([1.2, 1.5, 1.1])
    predicted = np.log(
        [[1.1, 1.2, 1.3], [0.5, 1.21, 3.0], [0.9, 1.0, 1.1]]
    )  # a wide interval at k = 2
    k, sweep = np.array([1.0, 2, 3]), np.array(["a"] * 3)
    found = metrics.regrets(y, predicted, k, sweep, lambda each, _: utility.least_regret(*each.T))
    assert found == pytest.approx(
        [1 - 1.2 / 1.5]
    )  # k = 1: the highest median is not worth its risk


def test_regret_counts_off_and_needs_three_k() -> None:
    y = np.log([1.2, 1.5, 1.1, 0.9, 0.8, 0.7, 2.0, 1.0])
    k = np.array([1.0, 2, 3, 1, 2, 3, 1, 2])
    sweep = np.array(["a"] * 3 + ["b"] * 3 + ["c"] * 2)
    good = metrics.sweep_regret(y, y, k, sweep)
    assert (good.sweeps, good.mean) == (2, 0.0)
    bad = metrics.regrets(y, np.log([1.5, 1.2, 1.1, 1.3, 0.9, 0.9, 1, 1]), k, sweep)
    assert bad == pytest.approx([1 - 1.2 / 1.5, 1 - 0.9])
    assert metrics.regrets(y, y, k, sweep, baselines.fixed_k(2)) == pytest.approx([0, 0.2])


def test_interval_score_prefers_narrow_and_true() -> None:
    y = np.zeros(1)
    narrow, wide, wrong = (
        metrics.interval_score(y, np.array([a]), np.array([b]))[0]
        for a, b in ((-0.1, 0.1), (-0.5, 0.5), (0.2, 0.4))
    )
    assert narrow < wide < wrong


def test_calibration_of_a_perfect_judge() -> None:
    y = np.array([1.0, -1.0])
    assert metrics.calibration(y, np.array([1.0, 0.0]), np.ones(2)) == [
        (0.0, 0.0, 1),
        (1.0, 1.0, 1),
    ]


def test_the_worst_gap_of_a_chance_that_is_too_sure() -> None:
    y = np.where(np.arange(100) % 10 < 7, 1.0, -1.0)
    assert metrics.worst_gap(y, np.full(100, 0.95), np.ones(100)) == pytest.approx(0.25)
    assert metrics.worst_gap(y, np.full(100, 0.7), np.ones(100)) == pytest.approx(0.0)
    assert metrics.worst_gap(y[:10], np.full(10, 0.95), np.ones(10)) == 0.0  # too few to say


def test_shares_of_decisions() -> None:
    y = np.array([-0.1, -0.2, -0.3, -0.4, 0.1, 0.2])
    made = scores.decision_shares(y, np.array([0, 0, 1, 2, 2, 1], dtype=np.int8), np.ones(6))
    assert (made.losses, made.gains) == (4, 2)
    assert (made.loss_off, made.loss_on, made.gain_on, made.gain_off) == (0.5, 0.25, 0.5, 0.0)
    assert made.measure == pytest.approx(2 / 6)


def test_the_least_share_to_measure_of_a_ranking() -> None:
    y = np.concatenate([np.full(100, -0.1), np.full(100, 0.1)])
    good = np.concatenate([np.linspace(-2, -1, 100), np.linspace(1, 2, 100)])
    blind = np.tile(np.linspace(-1, 1, 100), 2)
    assert scores.least_measure_share(y, good) == pytest.approx(
        0.21, abs=0.01
    )  # of the losses alone
    assert scores.least_measure_share(y, blind) == pytest.approx(0.42, abs=0.01)


@pytest.mark.parametrize("name", list(baselines.LEARNED))
def test_baselines_do_not_peek(name: str) -> None:
    e = dataset.examples(uses=("train",))
    here = e.fold == "seed000"
    before = baselines.LEARNED[name](e, e.fold)[here]
    e.log_speedup[here] += 1.0
    assert baselines.LEARNED[name](e, e.fold)[here] == pytest.approx(before)


def test_leviathan_charges_for_drafts() -> None:
    everything = dataset.examples(uses=("train",))
    e = everything.take(
        np.flatnonzero(everything.method == "mtp")[:5]
    )  # a look-up in the prompt would draft for nothing
    tau = np.full(5, 2.5)
    assert (baselines.leviathan(e.points, tau) < baselines.tokens_only(e.points, tau)).all()


def test_card_is_in_step_with_the_artefact() -> None:
    card = (models_dir() / "speedup.md").read_text(encoding="utf-8")
    assert card.startswith("<!-- Generated by `advisor evaluate`")
    scores = model_card.training_scores()
    words = model_card.training_words(scores)
    assert words in card
    assert f"MAPE {100 * scores['known']['mape']:.1f} and " in words
    assert ".svg" not in card, "figures are drawn on demand"
