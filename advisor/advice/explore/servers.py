"""One server of a layout: its classes, plans, and what each class sees with each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.advice import decide, judge, objectives, resolve
from advisor.advice.explore.mix import WorkClass, WorkMix
from advisor.advice.explore.mixing import Times, chance_of_all, mix_estimates, times
from advisor.domain.nouns import (
    Candidate,
    Decision,
    Estimate,
    Facts,
    Plan,
)
from advisor.domain.records import NamedTuple
from advisor.prediction import utility
from advisor.prediction.decision import decide_one


class ServerDraft(NamedTuple):
    """A server before it is estimated. `loads`: the requests at once of each of its classes."""

    classes: tuple[int, ...]  # indices into the mix
    loads: tuple[int, ...]
    question: judge.PlanQuestion
    each: tuple[Facts, ...]  # of each class, at the load of all
    single: tuple[Facts, ...]  # of each class, one request at a time

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What is estimated: the speculative plans, or the plain one where there is none."""
        return self.question.plans or (self.question.base.plan,)

    @property
    def weights(self) -> tuple[float, ...]:
        """Each class's part of the requests at once."""
        return tuple(load / sum(self.loads) for load in self.loads)


class ServerResult(NamedTuple):
    """What a server gives: per plan and class, the judged candidate in the mix."""

    draft: ServerDraft
    candidates: tuple[tuple[Candidate, ...], ...]  # [class][plan], the plain one first
    plain: tuple[Times, ...]  # of each class without speculation
    decision: Decision
    best: int | None  # index into the candidates

    @property
    def runs(self) -> int:
        """The candidate that is run."""
        return self.best if self.best is not None and self.decision == "on" else 0


def build_server(mix: WorkMix, classes: Sequence[int], **more: Any) -> ServerDraft:
    """A server for some classes; `more` are other GPUs. Raises AdvisorError."""
    own = [mix.classes[i] for i in classes]
    loads = tuple(work.concurrency for work in own)
    at_once = sum(loads)
    longest = max(own, key=lambda work: work.ctx_tokens + work.output_tokens)
    frame = mix.request(longest, at_once, **more)
    if len(own) > 1:  # one cache for all: it pays where any class shares prompts
        shared = max(work.prefix_share for work in own)
        free = {"goal": "balanced", "max_tpot_ms": None, "max_ttft_ms": None}
        frame = frame.model_copy(update={"prefix_share": shared, **free})
    facts = resolve.bare_facts(frame)
    more |= {
        "engine": facts.engine,
        "engine_version": facts.engine_version,
        "quant": facts.quant.id if facts.quant is not None else None,
    }
    return ServerDraft(
        classes=tuple(classes),
        loads=loads,
        question=judge.candidate_plans(facts, judge.weigh),
        each=tuple(_class_facts(mix, work, at_once, facts, more) for work in own),
        single=tuple(_class_facts(mix, work, 1, facts, more) for work in own),
    )


def _class_facts(
    mix: WorkMix, work: WorkClass, concurrency: int, frame: Facts, more: dict[str, Any]
) -> Facts:
    """The facts of one class in the server whose facts are `frame`."""
    fields = ("ctx_tokens", "output_tokens", "workload", "prefix_share", "goal")
    changed: dict[str, Any] = {name: getattr(work, name) for name in fields}
    changed |= {"request": mix.request(work, concurrency, **more), "concurrency": concurrency}
    if frame.model is not None:
        changed["temperature"] = frame.model.temperature(work.workload, frame.thinking)
    return frame.model_copy(update=changed)


def estimate_servers(drafts: Sequence[ServerDraft], mix: WorkMix) -> list[ServerResult]:
    """What each server gives, all estimated in one call."""
    questions: list[judge.Planned] = []
    for draft in drafts:
        bills = draft.question.bills if draft.question.plans else ()
        questions += [(facts, draft.plans, bills) for facts in (*draft.each, *draft.single)]
    written = iter(judge.estimate_questions(questions))
    results = []
    for draft in drafts:
        each = [next(written)() for _ in draft.each]
        single = [next(written)() for _ in draft.single]
        results.append(_judge_server(draft, mix, each, single))
    return results


def _judge_server(
    draft: ServerDraft,
    mix: WorkMix,
    each: Sequence[Sequence[Estimate]],
    single: Sequence[Sequence[Estimate]],
) -> ServerResult:
    outputs = [mix.classes[i].output_tokens for i in draft.classes]
    columns: list[list[Candidate]] = [[draft.question.base] for _ in draft.classes]
    mixed: list[list[Estimate]] = []  # [plan][class]
    for number, plan in enumerate(draft.plans):
        alone, first = ([estimates[number] for estimates in rows] for rows in (each, single))
        mixed.append(mix_estimates(alone, first, draft.weights, outputs))
        if not draft.question.plans:
            break
        for column, facts, own, estimate in zip(columns, draft.each, alone, mixed[-1], strict=True):
            candidate = judge.weigh(facts, plan, own)
            column.append(candidate.model_copy(update={"estimate": estimate}))
    decision, best = _decide(draft, columns)
    return ServerResult(
        draft=draft,
        candidates=tuple(tuple(column) for column in columns),
        plain=tuple(times(estimate, "baseline") for estimate in mixed[best - 1 if best else 0]),
        decision=decision,
        best=best,
    )


def _decide(
    draft: ServerDraft, columns: Sequence[Sequence[Candidate]]
) -> tuple[Decision, int | None]:
    """On, off or measure for the server (several classes: by their mean), and its best plan."""
    pairs = list(zip(draft.each, columns, strict=True))
    verdicts = [decide.decide(facts, column) for facts, column in pairs]
    if len(verdicts) == 1:
        return verdicts[0].decision, verdicts[0].best
    able = (set(decide.allowed_candidates(verdict.candidates)) for verdict in verdicts)
    allowed = sorted(set(range(1, len(columns[0]))).intersection(*able))
    if not allowed:
        return "off", next((v.best for v in verdicts if v.best is not None), None)
    choices = [
        i
        for i in allowed
        if all(objectives.meets(f.request, column[i].estimate) for f, column in pairs)
    ] or allowed
    gains = {}
    for i in choices:
        each = [decide.goal_interval(c[i].estimate, f.goal or "balanced") for f, c in pairs]
        gains[i] = decide.average(each, draft.weights)
    worth = {i: utility.expected_utility(*decide.log_percentiles(gains[i]))[0] for i in choices}
    best = max(choices, key=worth.__getitem__)
    chances = [e.p_gain for column in columns if (e := column[best].estimate) is not None]
    decision = decide_one(gains[best].p50, chance_of_all(chances, draft.weights))
    return decide.after_a_look(draft.each[0], columns[0][best].plan, decision), best
