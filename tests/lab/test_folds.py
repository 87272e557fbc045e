"""Folds done by several processes give what folds done one by one give, in the same order."""

import os
import sys
from collections.abc import Iterable

import numpy as np
import pytest

from advisor.lab.training import folds

NAMES = [f"fold{i}" for i in range(20)]


def work(name: str) -> tuple[str, float]:
    return name, float(np.random.default_rng(len(name) + int(name[4:])).normal())


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watch(names: Iterable[str]) -> Iterable[str]:
        for name in names:
            seen.append(name)
            yield name

    several = list(folds.each(work, NAMES, watch))
    monkeypatch.setattr(folds, "LEAST", 100)
    assert list(folds.each(work, NAMES, iter)) == several
    assert seen == NAMES
    assert folds._work is None


def test_a_failure_in_a_fold_is_not_swallowed() -> None:
    def break_fold(name: str) -> str:
        if name == "fold7":
            raise ValueError(name)
        return name

    with pytest.raises(ValueError, match="fold7"):
        list(folds.each(break_fold, NAMES, iter))
    assert folds._work is None


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores on Linux, as in .ci/run",
)
def test_the_work_leaves_this_process() -> None:
    assert os.getpid() not in set(folds.each(lambda _: os.getpid(), NAMES, iter))
