"""How many requests of each class are in a server at once.

Classes that give a share or a concurrency keep it: closed loops. Classes that give a rate arrive on
their own, and by Little's law as many are there as arrive while one stays; the fixed point is found
on curves of the plain run. Not known: bursts, and that a faster run holds fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.advice import judge, resolve
from advisor.advice.explore.mix import Mix
from advisor.advice.explore.mixing import Times, times, together
from advisor.domain.nouns import Facts, Plan

GRID = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STEPS = 96  # of the search between one request and the most
Floats = npt.NDArray[np.float64]
Curve = npt.NDArray[np.float64]  # (len(GRID), 3): the Times at each load


class Loads(NamedTuple):
    """Requests at once of each class of a group, and whether more arrive than are served."""

    each: tuple[float, ...]
    saturated: bool = False


def curves(mix: Mix) -> dict[int, Curve]:
    """The plain run of each class that gives a rate, alone on the machine, over GRID; in one call.
    Raises AdvisorError where such a class cannot run.
    """
    wanted = [i for i, work in enumerate(mix.classes) if work.rate is not None]
    if not wanted:
        return {}
    questions: list[tuple[Facts, tuple[Plan, ...], tuple[()]]] = []
    for i in wanted:
        facts = resolve.bare_facts(mix.request(mix.classes[i], 1))
        base = judge.candidate_plans(facts, judge.weigh).base.plan
        for load in GRID:
            plan = base.model_copy(update={"max_num_seqs": max(load, base.max_num_seqs or 1)})
            questions.append((facts.model_copy(update={"concurrency": load}), (plan,), ()))
    made = [written()[0] for written in judge.estimate_questions(questions)]
    return {
        i: np.array([times(e, "baseline") for e in made[n * len(GRID) : (n + 1) * len(GRID)]])
        for n, i in enumerate(wanted)
    }


def loads(mix: Mix, group: Sequence[int], known: dict[int, Curve], slowdown: float = 1.0) -> Loads:
    """The requests at once of the classes of one server."""
    fixed = {i: told for i in group if (told := closed_concurrency(mix, i)) is not None}
    open_ = [i for i in group if i not in fixed]
    if not open_:
        return Loads(tuple(fixed[i] for i in group))
    outputs = [mix.classes[i].output_tokens for i in open_]
    tried = np.geomspace(1.0, GRID[-1], STEPS)
    tables = [_over(known[i], tried) for i in open_]
    first = [table[0] for table in tables]
    for step, at in enumerate(tried):
        here = [table[step] for table in tables]
        shares = _shares(mix, open_, here, outputs)
        seen = together(here, first, shares, outputs)
        there = {
            i: _rate(mix, i) * slowdown * (one.ttft_ms + max(output - 1, 0) * one.tpot_ms) / 1e3
            for i, one, output in zip(open_, seen, outputs, strict=True)
        }
        if sum(there.values()) + sum(fixed.values()) <= at * 1.0001:
            return Loads(tuple({**fixed, **there}[i] for i in group))
    total = sum(there.values())
    room = max(GRID[-1] - sum(fixed.values()), 1.0)
    cut = {i: load * room / total for i, load in there.items()}
    return Loads(tuple({**fixed, **cut}[i] for i in group), saturated=True)


def closed_concurrency(mix: Mix, index: int) -> float | None:
    """Requests at once of a class that gives a share or a concurrency; None for a rate."""
    work = mix.classes[index]
    if work.concurrency is not None:
        return float(work.concurrency)
    return work.share * (mix.concurrency or 1) if work.share is not None else None


def _rate(mix: Mix, index: int) -> float:
    return mix.classes[index].rate or 0.0


def _over(curve: Curve, loads: Floats) -> list[Times]:
    """The Times at each load, interpolated in the logarithm of the load."""
    where, wanted = np.log(np.array(GRID)), np.log(loads)
    columns = [np.interp(wanted, where, column) for column in curve.T]
    return [Times(*map(float, row)) for row in zip(*columns, strict=True)]


def _shares(
    mix: Mix, group: Sequence[int], here: Sequence[Times], outputs: Sequence[int]
) -> list[float]:
    """Parts of the requests at once, by what each class would need alone."""
    need = [
        _rate(mix, i) * (one.ttft_ms + max(output - 1, 0) * one.tpot_ms)
        for i, one, output in zip(group, here, outputs, strict=True)
    ]
    return [one / sum(need) for one in need]
