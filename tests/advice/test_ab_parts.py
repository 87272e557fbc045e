"""Figures of an A/B that are taken over repeats."""

from __future__ import annotations

import pytest

from advisor.advice.own_runs.ab_test import tokens_per_step
from advisor.readers.results.run import Acceptance, BenchmarkRun


def test_the_tokens_of_a_step_are_the_mean_of_the_repeats_that_say_them() -> None:
    runs = [
        BenchmarkRun(file="f", format="test", k=2, acceptance=accepted)
        for accepted in (Acceptance(length=2.0), Acceptance(length=2.6), None)
    ]
    assert tokens_per_step(runs, 2) == pytest.approx(2.3)
    assert tokens_per_step(runs[2:], 2) is None
