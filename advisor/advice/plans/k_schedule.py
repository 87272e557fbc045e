"""A k per batch size, where the engine takes one and where it pays.

What it does: asks the predictor for the best k at every batch size up to the load, and joins equal
neighbours into ranges. What it does not know: what changing draft lengths costs in CUDA graphs; a
rule (SD415) says where they do, and then no schedule is offered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.domain.nouns import Facts, Goal, Plan
from advisor.domain.sourced import sourced
from advisor.domain.versions import before, release
from advisor.engines.traits import traits
from advisor.perf import encode_plans
from advisor.prediction import predict

LEAST_GAIN = sourced(
    0.05,
    "log gain",
    "a change of k must promise this much at its batch size; below it one k is simpler",
    "chosen",
)


def takes_one(plan: Plan) -> bool:
    """vLLM from 0.24 and SGLang from 0.5.14 on, one replica: with data parallelism vLLM switches
    the schedule off.
    """
    since = traits(plan.engine).schedules_k
    if since is None or plan.dp != 1 or plan.method != "mtp" or not plan.engine_version:
        return False
    return release(plan.engine_version) is not None and not before(plan.engine_version, since)


def schedule(facts: Facts, plans: Sequence[Plan], chosen: Plan) -> tuple[tuple[int, int, int], ...]:
    """Ranges (from, to, k) over batch sizes 1..max_num_seqs; empty where one k serves all of them
    as well, and where the k of the whole load was not chosen by the estimate but by what is
    documented or by risk, which no estimate at fewer requests knows.
    """
    top = chosen.max_num_seqs or facts.concurrency or 1
    sizes = [
        size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if size < (facts.concurrency or 1)
    ]
    rivals = [plan for plan in plans if plan.method == chosen.method]
    if not sizes or len(rivals) < 2:
        return ()
    goal: Goal = facts.goal or "balanced"
    batches = [*sizes, facts.concurrency or 1]
    rows = np.tile(np.arange(len(rivals)), len(batches))
    batch = np.repeat(np.array(batches, dtype=np.float64), len(rivals))
    table = encode_plans.from_plans(facts, rivals).take(rows).replace(concurrency=batch)
    medians = predict.goal_medians(table, goal)
    wanted = []
    for row, _ in enumerate(batches):
        here = dict(
            zip(
                (p.k for p in rivals),
                medians[row * len(rivals) : (row + 1) * len(rivals)],
                strict=True,
            )
        )
        best = max(here, key=lambda k: float(here[k]))
        wanted.append(
            best
            if here[best] >= here[chosen.k] * (1 + LEAST_GAIN) and best > chosen.k
            else chosen.k
        )
    if wanted[-1] != chosen.k:
        return ()
    return _ranges([*zip(batches, wanted, strict=True)], top)


def _ranges(wanted: Sequence[tuple[int, int]], top: int) -> tuple[tuple[int, int, int], ...]:
    """Join (batch size, k) into ranges; each size speaks up to the next one. k never rises with the
    batch size.
    """
    ceiling = wanted[0][1]
    out: list[tuple[int, int, int]] = []
    for index, (size, k) in enumerate(wanted):
        ceiling = min(ceiling, k)
        last = wanted[index + 1][0] - 1 if index + 1 < len(wanted) else max(top, size)
        if out and out[-1][2] == ceiling:
            out[-1] = (out[-1][0], last, ceiling)
        else:
            out.append((size, last, ceiling))
    return tuple(out) if len(out) > 1 else ()
