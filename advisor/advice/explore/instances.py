"""One server of a layout: the classes it serves, its plans, and what each class sees with each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from advisor.advice import decide, judge, resolve
from advisor.advice.explore.mix import Mix, WorkClass
from advisor.advice.explore.mixing import Times, average, chance_of_all, mix_estimates, times
from advisor.domain.nouns import (
    Candidate,
    Decision,
    Estimate,
    Facts,
    Goal,
    Interval,
    MemoryBill,
    Plan,
    Request,
)
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.prediction import utility
from advisor.prediction.decision import decide_one


@dataclass(frozen=True)
class Server:
    """A server before it is estimated. `loads` are the requests at once of its classes."""

    classes: tuple[int, ...]  # indices into the mix
    loads: tuple[float, ...]
    question: judge.Question
    each: tuple[Facts, ...]  # of each class, at the load of all in whole requests
    single: tuple[Facts, ...]  # of each class, one request at a time

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What is estimated: the speculative plans, or the plain one where there is none."""
        return self.question.plans or (self.question.base.plan,)

    @property
    def requests(self) -> float:
        """Requests at once, at least one: what is estimated."""
        return max(sum(self.loads), 1.0)

    @property
    def scale(self) -> float:
        """Part of that throughput which is there: below one where less than one request is."""
        return sum(self.loads) / self.requests

    @property
    def exact(self) -> tuple[Facts, ...]:
        """The facts of each class at the load of all, which need not be whole."""
        return tuple(f.model_copy(update={"concurrency": self.requests}) for f in self.each)

    @property
    def weights(self) -> tuple[float, ...]:
        """Each class's part of the requests at once."""
        return tuple(load / sum(self.loads) for load in self.loads)


class ServerResult(NamedTuple):
    """What a server gives: per plan and class, the judged candidate in the mix."""

    asked: Server
    candidates: tuple[tuple[Candidate, ...], ...]  # [class][plan], the plain one first
    plain: tuple[Times, ...]  # of each class without speculation
    decision: Decision
    best: int | None  # index into the candidates

    @property
    def runs(self) -> int:
        """The candidate that is run."""
        return self.best if self.best is not None and self.decision == "on" else 0


def build_server(
    mix: Mix,
    classes: Sequence[int],
    loads: Sequence[float],
    *,
    gpus: int | None = None,
    model: str | None = None,
) -> Server:
    """A server for some classes. Raises AdvisorError where it cannot run."""
    own = [mix.classes[i] for i in classes]
    together = max(1, ceil(sum(loads) - 1e-9))
    more = {"gpus": gpus or mix.gpus, "model": model or mix.models[0]}
    if model is not None and model != mix.models[0]:
        more |= {"quant": None}
    longest = max(own, key=lambda work: work.ctx_tokens + work.output_tokens)
    frame = mix.request(longest, together, **more)
    if len(own) > 1:  # one cache for all: it pays where any class shares prompts
        frame = frame.model_copy(
            update={
                "prefix_share": max(work.prefix_share for work in own),
                "goal": "balanced",
                "max_tpot_ms": None,
                "max_ttft_ms": None,
            }
        )
    facts = resolve.bare_facts(frame)
    question = judge.candidate_plans(facts, judge.weigh)
    return Server(
        classes=tuple(classes),
        loads=tuple(loads),
        question=question,
        each=tuple(_of(mix, work, together, facts, more) for work in own),
        single=tuple(_of(mix, work, 1, facts, more) for work in own),
    )


def _of(
    mix: Mix, work: WorkClass, concurrency: int, frame: Facts, more: dict[str, object]
) -> Facts:
    """The facts of one class in the server whose facts are `frame`."""
    chosen = {
        "engine": frame.engine,
        "engine_version": frame.engine_version,
        "quant": frame.quant.id if frame.quant is not None else None,
    }
    request: Request = mix.request(work, concurrency, **(more | chosen))
    made = frame.model_copy(
        update={
            "request": request,
            "concurrency": concurrency,
            "ctx_tokens": work.ctx_tokens,
            "output_tokens": work.output_tokens,
            "workload": work.workload,
            "prefix_share": work.prefix_share,
            "goal": work.goal,
        }
    )
    if frame.model is not None:
        warm = frame.model.temperature(work.workload, frame.thinking)
        made = made.model_copy(update={"temperature": warm})
    return made


def with_fraction(one: Server, fraction: float) -> Server | None:
    """The same server with another share of the device's memory; None where it does not start."""
    base = one.question.base.plan.model_copy(update={"memory_fraction": fraction})
    facts = one.question.facts
    if memory.bill(facts, base).fits is False:
        return None
    changed = [plan.model_copy(update={"memory_fraction": fraction}) for plan in one.question.plans]
    fit = [(plan, made) for plan in changed if (made := memory.bill(facts, plan)).fits is not False]
    return Server(
        classes=one.classes,
        loads=one.loads,
        question=one.question._replace(
            base=one.question.base.model_copy(update={"plan": base}),
            plans=tuple(plan for plan, _ in fit),
            bills=tuple(
                made if plan.dp == 1 else memory.bill(memory.replica(facts, plan), plan)
                for plan, made in fit
            ),
        ),
        each=one.each,
        single=one.single,
    )


def estimate_servers(several: Sequence[Server], mix: Mix) -> list[ServerResult]:
    """What each server gives, all estimated in one call."""
    questions: list[judge.Planned] = []
    for one in several:
        bills: Sequence[MemoryBill] = one.question.bills if one.question.plans else ()
        for facts in (*one.exact, *one.single):
            questions.append((facts, one.plans, bills))
    made = iter(judge.estimate_questions(questions))
    out = []
    for one in several:
        each = [next(made)() for _ in one.each]
        single = [next(made)() for _ in one.single]
        out.append(_estimate_server(one, mix, each, single))
    return out


def _estimate_server(
    one: Server, mix: Mix, each: Sequence[Sequence[Estimate]], single: Sequence[Sequence[Estimate]]
) -> ServerResult:
    outputs = [mix.classes[i].output_tokens for i in one.classes]
    base = one.question.base
    columns: list[list[Candidate]] = [[base] for _ in one.classes]
    for number, plan in enumerate(one.question.plans):
        judged = [
            judge.weigh(facts, plan, found[number])
            for facts, found in zip(one.each, each, strict=True)
        ]
        alone = [c.estimate for c in judged if c.estimate is not None]
        first = [found[number] for found in single]
        for column, candidate, estimate in zip(
            columns, judged, mix_estimates(alone, first, one.weights, outputs), strict=True
        ):
            column.append(candidate.model_copy(update={"estimate": estimate}))
    decision, best = _decide(one, columns)
    told = best if best is not None else 1
    plain = (
        [_estimate(column[told]) for column in columns]
        if one.question.plans
        else mix_estimates(
            [found[0] for found in each], [found[0] for found in single], one.weights, outputs
        )
    )
    return ServerResult(
        asked=one,
        candidates=tuple(tuple(column) for column in columns),
        plain=tuple(times(estimate, "baseline") for estimate in plain),
        decision=decision,
        best=best,
    )


def _estimate(candidate: Candidate) -> Estimate:
    assert candidate.estimate is not None  # of a speculative plan
    return candidate.estimate


def _decide(one: Server, columns: Sequence[Sequence[Candidate]]) -> tuple[Decision, int | None]:
    """On, off or measure for the server, and its best speculative candidate: for one class as
    `recommend` decides, for several by the weighted mean of their gains.
    """
    verdicts = [
        decide.decide(facts, column) for facts, column in zip(one.each, columns, strict=True)
    ]
    if len(verdicts) == 1:
        return verdicts[0].decision, verdicts[0].best
    allowed = set(range(1, len(columns[0])))
    for verdict in verdicts:
        allowed &= set(decide.allowed_candidates(verdict.candidates))
    if not allowed:
        return "off", next((v.best for v in verdicts if v.best is not None), None)
    kept = [
        i
        for i in sorted(allowed)
        if all(
            decide.meets(f.request, c[i].estimate) for f, c in zip(one.each, columns, strict=True)
        )
    ]
    choices = kept or sorted(allowed)
    gains = {i: _gain(one, columns, i) for i in choices}
    samples = [np.zeros(utility.SAMPLES)]
    for i, gain in gains.items():
        low, middle, high = np.log(np.array([[gain.p10], [gain.p50], [gain.p90]]))
        samples.append(utility.utilities(low, middle, high, utility.deviates(i))[0])
    best = choices[int(utility.regrets(np.stack(samples))[1:].argmin())]
    chances = [_estimate(column[best]).p_gain for column in columns]
    decision = _objective(one, columns, best) or decide_one(
        gains[best].p50, chance_of_all(chances, one.weights)
    )
    return decide.after_a_look(one.each[0], columns[0][best].plan, decision), best


def _gain(one: Server, columns: Sequence[Sequence[Candidate]], index: int) -> Interval:
    """The gain of one plan over the server's classes."""
    goals: list[Goal] = [facts.goal or "balanced" for facts in one.each]
    return average(
        [
            decide.goal_interval(column[index].estimate, goal)
            for column, goal in zip(columns, goals, strict=True)
        ],
        one.weights,
    )


def _objective(one: Server, columns: Sequence[Sequence[Candidate]], index: int) -> Decision | None:
    """On or off where one run is clearly likelier to keep to the objectives of all classes."""
    chances = []
    for run in ("value", "baseline"):
        found = [
            decide.p_objective(facts.request, column[index].estimate, run)
            for facts, column in zip(one.each, columns, strict=True)
        ]
        told = [p for p in found if p is not None]
        if not told:
            return None
        chances.append(min(told))
    if abs(chances[0] - chances[1]) < knowledge.threshold("objective_difference").value:
        return None
    return "on" if chances[0] > chances[1] else "off"


def memory_gib(facts: Facts, plan: Plan, bill: MemoryBill) -> float | None:
    """GiB of one GPU that the server takes in all: what it reserves, or what it allocates where it
    takes no share. None where that is not known.
    """
    if bill.available_gib is None:
        return None
    if plan.memory_fraction is not None:
        return bill.available_gib
    parts = (bill.weights_gib, bill.spec_gib, bill.state_gib, bill.overhead_gib, bill.kv_gib or 0.0)
    return sum(parts)
