"""Bounds of a decision, chosen from left-out predictions."""

from __future__ import annotations

import numpy as np

from advisor.lab.training import bounds


def test_the_bound_leaves_at_most_the_target_of_the_losses_on() -> None:
    likely = np.linspace(0.2, 0.93, 2000)
    gained = np.random.default_rng(1).random(2000) < likely
    none = np.zeros(2000)
    made = bounds.choose(likely, none, none.astype(bool), gained, np.ones(2000))
    lost = likely[~gained]
    assert np.mean(lost >= made.on) <= bounds.MOST_LOSSES_ON
    assert np.mean(lost >= made.on - 0.01) > bounds.MOST_LOSSES_ON


def test_pairs_that_tell_nothing_weigh_nothing_and_sure_ones_most() -> None:
    rng = np.random.default_rng(2)
    gained = rng.random(1000) < 0.5
    likely, measured = np.full(1000, 0.5), np.ones(1000, dtype=bool)
    sure = np.where(gained, 1.0, -1.0)
    assert bounds.choose(likely, sure, measured, gained, np.ones(1000)).sign == max(bounds.SIGNS)
    blind = rng.choice([-1.0, 1.0], 1000)
    assert bounds.choose(likely, blind, measured, gained, np.ones(1000)).sign == 0.0


def test_a_shipped_threshold_that_is_not_the_chosen_one_is_named() -> None:
    assert bounds.differs(bounds.Bounds(0.5, 0.0))
