"""What a step of one replica and one stage sees of a plan's load."""

from collections.abc import Sequence

from advisor.domain.nouns import Facts, Plan
from advisor.perf import memory
from advisor.perf.sizes.pools import attention_groups


def in_steps(
    facts: Facts, plans: Sequence[Plan], board: int | None = None
) -> list[tuple[Facts, Plan]]:
    """What each plan's steps see, with one object for all plans that are split alike: the
    predictor reads the facts once for each object. `board`: GPUs of one machine, if there are more.
    """
    views: dict[tuple[int, int, int], Facts] = {}
    cases = []
    for plan in plans:
        share, step = in_step(facts, plan, board)
        cases.append((views.setdefault((plan.tp, plan.pp, batches(plan)), share), step))
    return cases


def in_step(facts: Facts, plan: Plan, board: int | None = None) -> tuple[Facts, Plan]:
    """One replica as one of its steps sees it. The stages of a pipeline work on as many batches at
    once, each with its part of the requests, and a batch passes through all of them in turn: it
    takes the time of the whole model on one stage's ranks. What the activations need from stage
    to stage is not counted: once a step, where tensor parallelism waits twice in every layer. Ranks
    of one board wait over its own link.
    """
    share = memory.replica(facts, plan)
    if board is not None and plan.tp <= board > 1 and facts.interconnect in ("roce", "ethernet"):
        share = share.replace(interconnect=None)
    if batches(plan) == 1:
        return share, plan
    slots = -(-plan.max_num_seqs // plan.pp) if plan.max_num_seqs else None
    share = share.replace(concurrency=-(-share.load // plan.pp), mean_batch=_each(facts, plan))
    return share, plan.replace(max_num_seqs=slots)


def batches(plan: Plan) -> int:
    """Batches that run at once, each in a step of its own: of all replicas and their stages."""
    return (plan.dp if attention_groups(plan) == 1 else 1) * plan.pp


def busy(facts: Facts, plan: Plan) -> float:
    """Batches at once that have something to do."""
    return facts.load / _each(facts, plan)


def _each(facts: Facts, plan: Plan) -> float:
    """Requests of each of them: their mean, where one has a request more than another."""
    return max(facts.load / batches(plan), 1.0)
