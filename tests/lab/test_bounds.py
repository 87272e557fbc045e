"""Bounds of a decision, chosen from left-out predictions."""

import numpy as np
import numpy.typing as npt
import pytest

from advisor.lab.evaluation.calibrated import Rows, exam, fit_kernel
from advisor.lab.training import bounds, own_runs_fit
from advisor.prediction import own_runs


def case(
    likely: npt.NDArray[np.float64],
    gained: npt.NDArray[np.bool_],
    evidence: npt.NDArray[np.float64] | None = None,
) -> bounds.BoundCase:
    told = np.zeros(len(likely)) if evidence is None else evidence
    seen = (told != 0).astype(float)
    return bounds.BoundCase(likely, told, seen, seen, gained, np.ones(len(likely)))


def test_the_bound_leaves_at_most_the_target_of_the_losses_on() -> None:
    likely = np.linspace(0.2, 0.93, 2000)
    gained = np.random.default_rng(1).random(2000) < likely
    made = bounds.choose([case(likely, gained)])
    lost = likely[~gained]
    assert np.mean(lost >= made.on) <= bounds.MOST_LOSSES_ON
    assert np.mean(lost >= made.on - 0.01) > bounds.MOST_LOSSES_ON


def test_the_bound_serves_the_case_that_asks_for_more() -> None:
    rng = np.random.default_rng(3)
    likely = np.linspace(0.2, 0.93, 2000)
    easy = case(likely, rng.random(2000) < likely)
    hard = case(likely, rng.random(2000) < likely - 0.05)  # too sure of itself
    assert bounds.choose([easy, hard]).on == bounds.choose([hard]).on > bounds.choose([easy]).on


def test_pairs_that_tell_nothing_weigh_nothing_and_sure_ones_most() -> None:
    rng = np.random.default_rng(2)
    gained = rng.random(1000) < 0.5
    likely = np.full(1000, 0.5)
    sure = np.where(gained, 1.0, -1.0)
    assert bounds.choose([case(likely, gained, sure)]).sign == max(bounds.SIGNS)
    assert bounds.choose([case(likely, gained, rng.choice([-1.0, 1.0], 1000))]).sign == 0.0


def test_a_shipped_threshold_that_is_not_the_chosen_one_is_named() -> None:
    assert len(bounds.differs(bounds.Bounds(0.5, 0.0, 0.5, 0.4))) == 4


def test_off_is_the_highest_bound_that_leaves_few_gains_off() -> None:
    # of 100 gains 7 lie up to 0.55 and 10 up to 0.6
    few = np.repeat([0.30, 0.52, 0.58, 0.70, 0.92], [5, 2, 3, 40, 50])
    gains = np.ones(100, dtype=bool)
    assert bounds.choose([case(few, gains)]).off == 0.57
    assert bounds.choose([case(np.full(100, 0.3), gains)]).off == min(bounds.OFF)


def test_a_measured_configuration_needs_no_more_than_what_keeps_its_losses_off() -> None:
    rng = np.random.default_rng(4)
    likely = np.linspace(0.2, 0.93, 2000)
    plain = case(likely, rng.random(2000) < likely - 0.1)
    sure = np.where(np.arange(400) < 300, 0.9, 0.3)
    told = case(sure, sure > 0.5, np.where(sure > 0.5, 1.0, -1.0))
    assert bounds.choose([plain, told]).measured == bounds.LEAST_MEASURED


SD = 0.15


def draw(owners: int = 40, arms: int = 14, left_open: float = 1e-3, stated: bool = False) -> Rows:
    dice = np.random.default_rng(3)
    kernel = own_runs.kernel()
    parts: list[own_runs.Places] = []
    log, accepted, owner, arm = [], [], [], []
    for number in range(owners):
        where = np.zeros((arms, 13))
        where[:, 0] = dice.integers(0, 7, arms)
        where[:, 1] = dice.integers(10, 13, arms)
        where[:, 2] = dice.integers(0, 3, arms)
        place = own_runs.Places(where, np.full(arms, left_open), np.full(arms, SD))
        made = own_runs.covariance(own_runs.distances(where, where), place, place, kernel)
        drawn = [np.linalg.cholesky(x + 1e-9 * np.eye(arms)) @ dice.normal(size=arms) for x in made]
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
    return Rows(
        own_runs.Places(*(np.concatenate(column) for column in columns)),
        np.concatenate(log),
        np.zeros(n),
        np.concatenate(accepted),
        -half,
        half,
        np.array(owner),
        np.array(arm),
    )


def test_own_runs_help_where_misses_go_together_and_the_interval_still_covers() -> None:
    rows = draw()
    one, three = exam(rows, 1, False), exam(rows, 3, False)
    assert one.owners == 40 and three.calibrated < one.calibrated < one.without == three.without
    assert three.calibrated < 0.8 * three.without  # what this kernel's fade over load leaves
    assert 0.74 < one.coverage < 0.88 and 0.74 < three.coverage < 0.88
    assert three.wrong_calibrated < three.wrong_without
    assert exam(rows, 1, True).calibrated <= one.calibrated * 1.03


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
