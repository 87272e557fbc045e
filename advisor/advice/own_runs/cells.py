"""Which of the user's own runs are of the very cell that is asked for."""

import math
from collections.abc import Iterable, Sequence

from advisor.domain.normal import Z10
from advisor.domain.nouns import Facts, OwnRun, Plan
from advisor.domain.sourced import sourced
from advisor.prediction.decision import ESTIMATED

SAME_LOAD = sourced(0.1, "log ratio", "own choice: as of two repeats of a run", "chosen")


def same_load(loads: Iterable[tuple[float | None, float | None]]) -> bool:
    """Whether two loads differ by no more than repeats do; what is not stated is alike."""
    return all(not a or not b or abs(math.log(a / b)) <= SAME_LOAD for a, b in loads)


def measured_here(facts: Facts, metrics: Sequence[str] = ESTIMATED) -> dict[tuple[str, int], bool]:
    """Method and k of the own runs of this cell, and whether all gained beyond noise."""
    gained: dict[tuple[str, int], bool] = {}
    for run in facts.own_runs:
        gains = [(log, sd) for name, log, sd in run.gains if name in metrics]
        if gains and not run.derived and _is_here(facts, run):
            before = gained.get((run.method, run.k), True)
            gained[run.method, run.k] = before and all(log > Z10 * sd for log, sd in gains)
    return gained


def unlike(facts: Facts, plan: Plan) -> tuple[str, ...]:
    """What the own runs at this model, engine and load state otherwise than a plan, in words."""
    words: dict[str, None] = {}
    for name, value in (
        part for run in facts.own_runs if _is_here(facts, run) for part in run.plan
    ):
        if name == "extra":
            words |= {" ".join(filter(None, row)): None for row in value if row not in plan.extra}
        elif getattr(plan, name) not in (None, (), value):
            shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
            words[f"{name.replace('_', ' ')} {shown}"] = None
    return tuple(words)


def _is_here(facts: Facts, run: OwnRun) -> bool:
    loads = (
        (run.concurrency, facts.concurrency),
        (run.input_tokens, facts.ctx_tokens),
        (run.output_tokens, facts.output_tokens),
    )
    alike = (run.model, run.engine) == (facts.llm.id, facts.engine) and same_load(loads)
    return alike and run.workload in (None, facts.workload)
