"""Orders the ways to split a model over several machines by the estimate, and says what a step of
each sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.plans import propose, topology
from advisor.domain.nouns import Facts, Plan
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.perf import memory
from advisor.prediction import estimates

Split = tuple[int, int]  # (ranks of one server, servers)
ALIKE = sourced(
    0.02, "share", "splits this near the fastest count alike: the fewest ranks a server", "chosen"
)


def order_splits(facts: Facts, splits: Sequence[Split]) -> tuple[Split, ...]:
    """The splits as they are, where there are several machines the fastest first: a link costs
    every step more than a small model's part of the weights saves, while a large dense one gains.
    """
    apart = topology.spans(facts) or topology.boards(facts) > 1
    if not apart or not traits(facts.engine).replicas or len(splits) < 2:
        return tuple(splits)
    found = speeds(facts, splits)
    top = max(found.values()) * (1 - ALIKE)
    return tuple(sorted(found, key=lambda split: (-min(found[split], top), split[0])))


def speeds(facts: Facts, splits: Sequence[Split]) -> dict[Split, float]:
    """The expected speed without speculation of each split, for the question's goal: larger is
    faster.
    """
    plans = [
        propose.with_method(facts, propose.base_plan(facts, split), "mtp", 1) for split in splits
    ]
    made = estimates.estimate_many([in_step(facts, plan) for plan in plans])
    found: dict[Split, float] = {}
    for split, plan, estimate in zip(splits, plans, made, strict=True):
        metric = {"tpot": estimate.tpot_ms, "ttft": estimate.ttft_ms}.get(
            facts.goal or "", estimate.output_tok_s
        )
        busy = min(batches(plan), facts.concurrency or 1)
        value = metric.baseline or 0.0
        found[split] = (
            value * busy if metric is estimate.output_tok_s else 1e3 / value if value else 0.0
        )
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
