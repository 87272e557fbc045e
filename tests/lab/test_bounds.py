"""Bounds of a decision, chosen from left-out predictions."""

import numpy as np
import numpy.typing as npt

from advisor.lab.training import bounds


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
    alone = bounds.choose([hard])
    assert bounds.choose([easy, hard]).on == alone.on > bounds.choose([easy]).on


def test_pairs_that_tell_nothing_weigh_nothing_and_sure_ones_most() -> None:
    rng = np.random.default_rng(2)
    gained = rng.random(1000) < 0.5
    likely = np.full(1000, 0.5)
    sure = np.where(gained, 1.0, -1.0)
    assert bounds.choose([case(likely, gained, sure)]).sign == max(bounds.SIGNS)
    blind = rng.choice([-1.0, 1.0], 1000)
    assert bounds.choose([case(likely, gained, blind)]).sign == 0.0


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
