"""Orders the ways to split a model over linked machines by the estimate."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.plans import propose, topology
from advisor.domain.nouns import Facts
from advisor.engines.traits import traits
from advisor.perf import memory
from advisor.prediction import estimates

Split = tuple[int, int]  # (tp, dp)


def order_splits(facts: Facts, splits: Sequence[Split]) -> tuple[Split, ...]:
    """The splits as they are, for linked machines the fastest first: a link costs every step more
    than a small model's part of the weights saves, while a large dense one gains.
    """
    if not topology.spans(facts) or not traits(facts.engine).replicas or len(splits) < 2:
        return tuple(splits)
    return tuple(
        split for split, _ in sorted(speeds(facts, splits).items(), key=lambda row: -row[1])
    )


def speeds(facts: Facts, splits: Sequence[Split]) -> dict[Split, float]:
    """The expected speed without speculation of each split, for the question's goal: larger is
    faster.
    """
    plans = [
        propose.with_method(facts, propose.base_plan(facts, split), "mtp", 1) for split in splits
    ]
    made = estimates.estimate_many([(memory.replica(facts, plan), plan) for plan in plans])
    found: dict[Split, float] = {}
    for split, plan, estimate in zip(splits, plans, made, strict=True):
        metric = {"tpot": estimate.tpot_ms, "ttft": estimate.ttft_ms}.get(
            facts.goal or "", estimate.output_tok_s
        )
        busy = min(plan.dp, facts.concurrency or 1)
        value = metric.baseline or 0.0
        found[split] = (
            value * busy if metric is estimate.output_tok_s else 1e3 / value if value else 0.0
        )
    return found
