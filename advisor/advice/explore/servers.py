"""One server of a layout: its classes, plans, and what each class sees with each, from what it
would see alone at the same number of requests: TPOT and the wait behind prompts are the mean over
the requests at once, throughput follows by Little's law. A simulation event by event holds it in a
test; bursts are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log
from typing import Any

import numpy as np

from advisor.advice import adaptive, decide, judge, objectives, resolve
from advisor.advice.decide import METRICS, average
from advisor.advice.explore.mix import WorkClass, WorkMix
from advisor.advice.plans.propose import CHAT_WORKLOADS, TOOL_WORKLOADS
from advisor.domain import normal
from advisor.domain.normal import Z10
from advisor.domain.nouns import (
    Basis,
    Candidate,
    Decision,
    Estimate,
    Facts,
    Interval,
    MetricEstimate,
    Plan,
)
from advisor.domain.records import NamedTuple
from advisor.engines.traits import traits
from advisor.prediction import intervals, utility
from advisor.prediction.decision import decide_one
from advisor.prediction.predict import BASES

PARSED = [*CHAT_WORKLOADS, *TOOL_WORKLOADS]  # once for each parser that a workload takes


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
        return self.question.all_plans or (self.question.base.plan,)

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
        shared, words = max(work.prefix_share for work in own), [work.workload for work in own]
        free = {"goal": "balanced", "max_tpot_ms": None, "max_ttft_ms": None}
        # the parsers that any class needs
        frame = frame.replace(prefix_share=shared, workload=max(words, key=PARSED.count), **free)
    facts = resolve.bare_facts(frame)
    if len(own) > 1 and traits(facts.engine).pool != "slots":  # no request has memory of its own
        each = sum(work.concurrency * (work.ctx_tokens + work.output_tokens) for work in own)
        facts = facts.replace(pool_tokens=ceil(each / at_once))
    more |= resolve.engine_choice(facts)
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
    return frame.replace(
        **{name: getattr(work, name) for name in fields},
        request=mix.request(work, concurrency, **more),
        concurrency=concurrency,
        temperature=frame.temperature
        if mix.temperature is not None
        else frame.llm.temperature(work.workload, frame.thinking),
    )


def estimate_servers(drafts: Sequence[ServerDraft], mix: WorkMix) -> list[ServerResult]:
    """What each server gives, all estimated in one call."""
    questions: list[judge.Planned] = []
    for draft in drafts:
        bills = draft.question.bills if draft.question.plans else ()
        questions += [(facts, draft.plans, bills) for facts in (*draft.each, *draft.single)]
    written = iter(judge.estimate_questions(questions)[0])
    results = []
    for draft in drafts:
        each = [next(written)() for _ in draft.each]
        results.append(_judge_server(draft, mix, each, [next(written)() for _ in draft.single]))
    return results


def _judge_server(
    draft: ServerDraft,
    mix: WorkMix,
    each: Sequence[Sequence[Estimate]],
    single: Sequence[Sequence[Estimate]],
) -> ServerResult:
    outputs = [mix.classes[i].output_tokens for i in draft.classes]
    pairs = zip(zip(*each, strict=True), zip(*single, strict=True), strict=True)
    mixed = [mix_estimates(alone, first, draft.weights, outputs) for alone, first in pairs]
    in_mix, count = [*zip(*mixed, strict=True)], len(draft.question.plans)
    views = []
    for facts, alone, all_, weight in zip(draft.each, each, in_mix, draft.weights, strict=True):
        fixed = [draft.question.base]
        for plan, own, estimate in zip(draft.question.plans, alone, all_, strict=False):
            fixed.append(judge.weigh(facts, plan, own).replace(estimate=estimate))
        priced = [*zip(draft.plans[count:], all_[count:], strict=True)]
        views.append(adaptive.View(facts, fixed, priced, weight))
    third = adaptive.trial(views, judge.weigh)
    columns = [tuple(view.fixed) for view in views]
    if third.pays:
        columns = [(*column, one) for column, one in zip(columns, third.candidates, strict=True)]
    decision, best = _decide(draft, columns)
    shown = [
        column[best or 0].estimate or all_[0] for column, all_ in zip(columns, in_mix, strict=True)
    ]
    return ServerResult(
        draft=draft,
        candidates=tuple(columns),
        plain=tuple(times(estimate, "baseline") for estimate in shown),
        decision=decision,
        best=best,
    )


def _decide(
    draft: ServerDraft, columns: Sequence[Sequence[Candidate]]
) -> tuple[Decision, int | None]:
    """On, off or measure for the server, and its best plan: what each class would be answered, or
    by their mean where that differs.
    """
    pairs = list(zip(draft.each, columns, strict=True))
    verdicts = [decide.decide(facts, column) for facts, column in pairs]
    if len({(verdict.decision, verdict.best) for verdict in verdicts}) == 1:
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
    each = {i: [decide.goal_interval(c[i].estimate, f.aim) for f, c in pairs] for i in choices}
    gains = {i: decide.average(own, draft.weights) for i, own in each.items()}
    worth = {i: utility.expected_utility(*decide.log_percentiles(gains[i]))[0] for i in choices}
    best = max(choices, key=worth.__getitem__)
    chances = [e.p_gain for column in columns if (e := column[best].estimate) is not None]
    decision = decide_one(gains[best].p50, chance_of_all(chances, draft.weights))
    return decide.after_a_look(draft.each[0], columns[0][best].plan, decision), best


# ---------------------------------------------------------------- several classes in one server


class Times(NamedTuple):
    """What one class sees in one arm: output tok/s of the class, TPOT and TTFT in ms."""

    output_tok_s: float
    tpot_ms: float
    ttft_ms: float

    def stay_ms(self, output_tokens: int) -> float:
        """Milliseconds that a request stays: its first token and half a TPOT or more."""
        return self.ttft_ms + max(output_tokens - 1, 0.5) * self.tpot_ms


def times(estimate: Estimate, run: str) -> Times:
    """The absolute speeds of a run: "baseline" or "value"."""
    speeds = [getattr(getattr(estimate, name), run) for name in METRICS]
    return Times(*(float("nan") if speed is None else float(speed) for speed in speeds))


def ratios(plain: Times, other: Times) -> tuple[float, float, float]:
    """How much faster the other one is, of each time or rate."""
    rate = other.output_tok_s / plain.output_tok_s
    return rate, plain.tpot_ms / other.tpot_ms, plain.ttft_ms / other.ttft_ms


def together(
    alone: Sequence[Times], single: Sequence[Times], shares: Sequence[float], outputs: Sequence[int]
) -> list[Times]:
    """What each class sees in the mix. `alone`: each with as many requests at once as the whole
    mix; `single`: one at a time; `shares` add up to 1; `outputs`: answer tokens per request.
    """
    if len(alone) == 1:
        return list(alone)
    tpot = sum(share * own.tpot_ms for share, own in zip(shares, alone, strict=True))
    waits = (
        max(own.ttft_ms - first.ttft_ms, 0.0) for own, first in zip(alone, single, strict=True)
    )
    wait = sum(share * ms for share, ms in zip(shares, waits, strict=True))
    mixed = []
    for own, first, share, output in zip(alone, single, shares, outputs, strict=True):
        seen = Times(0.0, tpot, min(first.ttft_ms, own.ttft_ms) + wait)
        ratio = own.stay_ms(output) / seen.stay_ms(output)
        mixed.append(seen._replace(output_tok_s=share * own.output_tok_s * ratio))
    return mixed


def mix_estimates(
    alone: Sequence[Estimate],
    single: Sequence[Estimate],
    shares: Sequence[float],
    outputs: Sequence[int],
) -> list[Estimate]:
    """The estimate of each class in the mix, of one plan, as `together`; the widths of the
    intervals are averaged, as errors are those of one model on one machine.
    """
    if len(alone) == 1:
        return list(alone)
    plain, spec = (
        together([times(e, run) for e in alone], [times(e, run) for e in single], shares, outputs)
        for run in ("baseline", "value")
    )
    basis: Basis = BASES[max(BASES.index(estimate.basis) for estimate in alone)]
    mixed = []
    for own, before, after in zip(alone, plain, spec, strict=True):
        changed: dict[str, object] = {"basis": basis}
        each = zip(METRICS, before, after, ratios(before, after), strict=True)
        for name, base, value, ratio in each:
            metrics: list[MetricEstimate] = [getattr(estimate, name) for estimate in alone]
            changed[name] = MetricEstimate(
                speedup=move_middle(average([metric.speedup for metric in metrics], shares), ratio),
                predictable=all(metric.predictable for metric in metrics),
                baseline=base,
                value=value,
            )
        mixed.append(own.replace(**changed))
    return mixed


def move_middle(gain: Interval, middle: float) -> Interval:
    """An interval around another middle, as wide in the logarithm."""
    ratio = middle / gain.p50
    return Interval(p10=gain.p10 * ratio, p50=middle, p90=gain.p90 * ratio)


def chance(gain: Interval) -> float:
    """P(gain) as the 80 % interval tells it."""
    plain = normal.cdf(log(gain.p50) / max(log(gain.p90 / gain.p10) / (2 * Z10), 1e-6))
    return float(intervals.chance(np.array([plain]), np.zeros(1), np.zeros(1, dtype=bool))[0])


def chance_of_all(chances: Sequence[float], weights: Sequence[float]) -> float:
    """P(gain) of a mix from those of its classes: the mean of the normal quantiles."""
    inner = [min(max(p, 1e-6), 1 - 1e-6) for p in chances]
    return normal.cdf(sum(w * normal.quantile(p) for w, p in zip(weights, inner, strict=True)))


def widen(gain: Interval, sd: float) -> Interval:
    """The interval with another independent error of the log gain."""
    if sd <= 0:
        return gain
    low, high = (
        (log(side / gain.p50) ** 2 + (Z10 * sd) ** 2) ** 0.5 for side in (gain.p10, gain.p90)
    )
    return Interval(p10=gain.p50 * exp(-low), p50=gain.p50, p90=gain.p50 * exp(high))
