"""Orders the ways to split a model over GPUs and machines by the estimate, and says what a step of
each sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.advice.plans import propose
from advisor.domain.nouns import Facts, Goal, Plan, Reason
from advisor.domain.sourced import sourced
from advisor.perf import memory
from advisor.prediction import estimates
from advisor.prediction.decision import (
    DECISIONS,
    ESTIMATED,
    decide,
    goal_weights,
    token_wait,
)

Split = tuple[int, int]  # (ranks of one server, servers)
ALIKE = sourced(
    0.01, "share", "layouts this near the fastest count alike: the fewest ranks a server", "chosen"
)
_ON = DECISIONS.index("on")


class Layout(NamedTuple):
    """One way to split the GPUs: its plan without speculation, how many of the asked latency
    objectives its expected run keeps, and that run's speed for the goal (larger is faster; 0 where
    there is nothing to compare it with).
    """

    plan: Plan
    met: int = 0
    speed: float = 0.0


def order_layouts(facts: Facts, bases: Sequence[Plan]) -> tuple[Layout, ...]:
    """The plans without speculation, one of each layout, the best one first: by the run that its
    answer would launch, with speculation where that is on. Objectives go before the goal's speed.
    As given where nothing is known to price a step with.
    """
    priced = facts.hardware is not None and facts.hardware.memory_bandwidth_gb_s is not None
    if len(bases) < 2 or not priced:
        return tuple(Layout(base) for base in bases)
    found = expected(facts, bases)
    met = max(one.met for one in found)
    top = max(one.speed for one in found if one.met == met) * (1 - ALIKE)

    def rank(one: Layout) -> tuple[float, ...]:
        idle = batches(one.plan) > (facts.concurrency or 1)
        return (-one.met, -min(one.speed, top), idle, one.plan.tp * one.plan.pp)

    return tuple(sorted(found, key=rank))


def choice(layouts: Sequence[Layout]) -> Reason | None:
    """Which layout is taken and which comes next, of those in their order; None of a single one."""
    if len(layouts) < 2 or not layouts[0].speed:
        return None
    (best, met, top), (other, kept, speed) = layouts[:2]
    less = f"{100 * (speed / top - 1):+.0f} %".replace("-0 %", "+0 %")
    beside = ", which keeps fewer of the objectives" if kept < met else ""
    text = f"Layout: {_words(best)} by the estimate; next {_words(other)}, {less}{beside}"
    return Reason(text=text, sources=("physics core",), weight=1.3)


def _words(plan: Plan) -> str:
    """A layout in the field's short names."""
    sizes = (("TP", plan.tp), ("PP", plan.pp), ("DP", plan.dp))
    return " x ".join(f"{name} {size}" for name, size in sizes if size > 1 or name == "TP")


def expected(facts: Facts, bases: Sequence[Plan]) -> list[Layout]:
    """What the run of each layout gives for the question's goal, in their order: all plans of all
    layouts in one batch.
    """
    plans, counts = [], []
    for base in bases:
        arms = [
            plan
            for plan in propose.speculative_plans(facts, base)
            if memory.bill(facts, plan).fits is not False
        ]
        plans += arms or [propose.with_method(facts, base, "mtp", 1)]  # its baseline alone is read
        counts.append((len(arms) or 1, bool(arms)))
    batch = estimates.predict_batch(in_steps(facts, plans))
    goal: Goal = facts.goal or "balanced"
    first = batch.found["ttft"]
    crowded = batch.terms["requests_verify"] < batch.terms["requests_base"]
    weights = goal_weights(goal, token_wait(crowded, first.p50))
    logs = np.stack([np.log(batch.found[name].p50) for name in ESTIMATED])
    gain = np.exp((weights * logs).sum(axis=0))
    unsure = (first.p10 <= 1.0) & (first.p90 >= 1.0) & (goal == "ttft")
    seen = batch.found["output_tok_s"].measured_gain
    on = decide(gain, batch.chances, unsure, seen, own=batch.told) == _ON
    layouts, start = [], 0
    for base, (count, drafts) in zip(bases, counts, strict=True):
        rows = np.arange(start, start + count)
        start += count
        able = rows[on[rows]] if drafts else rows[:0]
        best = able[np.argmax(gain[able])] if len(able) else None
        layouts.append(_layout(facts, base, batch, int(rows[0]), best))
    return layouts


def _layout(
    facts: Facts, base: Plan, batch: estimates.Batch, row: int, drafted: int | None
) -> Layout:
    """What one layout gives: without speculation, by any `row` of it, or with that of `drafted`."""

    def gain(name: str) -> float:
        return 1.0 if drafted is None else float(batch.found[name].p50[drafted])

    tokens = float(batch.baselines["output_tok_s"][row]) * gain("output_tok_s") * busy(facts, base)
    times = {name: float(batch.baselines[name][row]) / gain(name) for name in ("tpot", "ttft")}
    asked = facts.request
    limits = (asked.max_tpot_ms, asked.max_ttft_ms) if asked is not None else (None, None)
    met = sum(
        limit is not None and time <= limit
        for limit, time in zip(limits, times.values(), strict=True)
    )
    time = times.get(facts.goal or "")
    return Layout(base, met, tokens if time is None else 1e3 / time if time else 0.0)


def speeds(facts: Facts, splits: Sequence[Split]) -> dict[Split, float]:
    """The expected speed of the run of each split, for the question's goal: larger is faster."""
    found = expected(facts, [propose.base_plan(facts, split) for split in splits])
    return {split: one.speed for split, one in zip(splits, found, strict=True)}


def in_steps(facts: Facts, plans: Sequence[Plan]) -> list[tuple[Facts, Plan]]:
    """What each plan's steps see, with one object for all plans that are split alike: the
    predictor reads the facts once for each object.
    """
    views: dict[tuple[int, int, int], Facts] = {}
    found = []
    for plan in plans:
        share, step = in_step(facts, plan)
        found.append((views.setdefault((plan.tp, plan.pp, plan.dp), share), step))
    return found


def in_step(facts: Facts, plan: Plan) -> tuple[Facts, Plan]:
    """One replica as one of its steps sees it. The stages of a pipeline work on as many batches at
    once, each with its part of the requests, and a batch passes through all of them in turn: it
    takes the time of the whole model on one stage's ranks. What the activations need from stage
    to stage is not counted: once a step, where tensor parallelism waits twice in every layer.
    """
    share = memory.replica(facts, plan)
    if plan.pp == 1:
        return share, plan
    slots = -(-plan.max_num_seqs // plan.pp) if plan.max_num_seqs else None
    requests = -(-(share.concurrency or 1) // plan.pp)
    return (
        share.model_copy(update={"concurrency": requests}),
        plan.model_copy(update={"max_num_seqs": slots}),
    )


def batches(plan: Plan) -> int:
    """Batches that run at once, each in a step of its own: of all replicas and their stages."""
    return plan.dp * plan.pp


def busy(facts: Facts, plan: Plan) -> float:
    """Batches at once that have something to do."""
    requests = facts.concurrency or 1
    return requests / -(-requests // batches(plan))
