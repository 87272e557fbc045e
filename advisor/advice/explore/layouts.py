"""The nouns of a plan for several workloads: instances, layouts, what each class sees in them."""

from __future__ import annotations

from typing import Literal

from advisor.advice.explore.mix import WorkMix
from advisor.domain.frozen import Frozen
from advisor.domain.nouns import Candidate, Decision, Facts, Interval, MemoryBill, Plan, Request

Kind = Literal["off", "on", "shared", "gpus"]


class ClassResult(Frozen):
    """What one class sees in a layout: `gain` by its goal against one instance without speculation,
    output tok/s of all its requests together, TPOT and TTFT of one.
    """

    name: str
    concurrency: float  # requests at once
    gain: Interval
    output_tok_s: float
    tpot_ms: float
    ttft_ms: float
    ttft_predictable: bool = True
    p_objective: float | None = None  # of keeping to the objective; None where there is none


class Instance(Frozen):
    """One server that runs `plan`, chosen from `candidates`, the plain plan first."""

    name: str
    classes: tuple[str, ...]
    gpus: int
    request: Request  # of the longest class at the load of all of them
    facts: Facts
    plan: Plan
    decision: Decision
    best: Plan | None  # the best speculative plan, run where the decision is on
    candidates: tuple[Candidate, ...]
    memory: MemoryBill  # GiB per GPU
    concurrency: float
    slowdown: float = 1.0  # what other instances on the same GPU cost, 1 is nothing


class PlanLayout(Frozen):
    """One way to serve the mix. A layout that cannot be has a `refusal` and no instances."""

    kind: Kind
    title: str
    instances: tuple[Instance, ...] = ()
    results: tuple[ClassResult, ...] = ()  # in the order of the mix's classes
    gain: Interval | None = None  # weighted mean over the classes
    p_gain: float | None = None
    objectives: int = 0  # how many classes have one
    objectives_met: int = 0  # more likely than not
    device_gib: float | None = None  # of one GPU that is used most
    usable_gib: float | None = None
    refusal: str | None = None


class MixPlan(Frozen):
    """Layouts of a mix, `chosen` first among equals; `why` are sentences."""

    mix: WorkMix
    layouts: tuple[PlanLayout, ...]
    chosen: int
    why: tuple[str, ...]

    @property
    def best(self) -> PlanLayout:
        """The layout to run."""
        return self.layouts[self.chosen]


def memory_gib(facts: Facts, plan: Plan, bill: MemoryBill) -> float | None:
    """GiB of one GPU that the server reserves or else allocates; None where not known."""
    if bill.available_gib is None or plan.memory_fraction is not None:
        return bill.available_gib
    parts = (bill.weights_gib, bill.spec_gib, bill.state_gib, bill.overhead_gib, bill.kv_gib or 0.0)
    return sum(parts)
