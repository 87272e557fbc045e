"""What each class gains in a layout against one server without speculation, and whether that
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from advisor.advice import decide
from advisor.advice.explore.instances import ServerResult, memory_gib
from advisor.advice.explore.layouts import ClassResult, Instance, Kind, Layout
from advisor.advice.explore.mix import Mix
from advisor.advice.explore.mixing import (
    Times,
    average,
    chance,
    chance_of_all,
    stay_ms,
    times,
    widen,
)
from advisor.advice.explore.values import KRanges
from advisor.domain.normal import Z10
from advisor.domain.nouns import (
    Candidate,
    Decision,
    Estimate,
    Goal,
    Interval,
    MemoryBill,
    MetricEstimate,
    Plan,
)
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import device
from advisor.prediction.decision import GOAL_WEIGHTS
from advisor.prediction.predict import ERROR_CORRELATION

NO_GAIN = Interval(p10=1.0, p50=1.0, p90=1.0)
_ERRORS = {"shared": "layout_error", "gpus": "layout_error", "model": "other_model_error"}


class Measure(NamedTuple):
    """What layouts are measured against: the mix, and one server for all of it."""

    mix: Mix
    reference: ServerResult

    @property
    def weights(self) -> tuple[float, ...]:
        """Each class's part of the requests at once."""
        return self.reference.asked.weights

    def plain(self, which: int) -> Times:
        """What a class sees in one server without speculation."""
        found = self.reference.plain[self.reference.asked.classes.index(which)]
        return found._replace(output_tok_s=found.output_tok_s * self.reference.asked.scale)


def build_layout(
    measure: Measure,
    kind: Kind,
    title: str,
    model: str,
    several: Sequence[ServerResult],
    runs: Sequence[int],
    slow: Sequence[float],
    *,
    saturated: bool = False,
    k_ranges: KRanges | None = None,
    decision: Decision | None = None,
) -> Layout:
    """A layout of servers, each running its candidate `runs`, `slow` times slower than alone."""
    results: dict[int, ClassResult] = {}
    sd = knowledge.threshold(_ERRORS[kind]).value if kind in _ERRORS else 0.0
    for one, index, factor in zip(several, runs, slow, strict=True):
        for place, which in enumerate(one.asked.classes):
            results[which] = _result(measure, one, place, which, index, factor, sd)
    ordered = tuple(results[i] for i in sorted(results))
    gain = average([one.gain for one in ordered], measure.weights)
    objectives = [one.p_objective for one in ordered if one.p_objective is not None]
    p_gain = None if kind == "off" else _p_gain(several, runs, ordered, gain, kind == "model")
    made = tuple(
        _instance(measure.mix, one, index, factor, saturated, decision)
        for one, index, factor in zip(several, runs, slow, strict=True)
    )
    device, usable = _device(kind, made)
    return Layout(
        kind=kind,
        title=title,
        model=model,
        instances=made,
        results=ordered,
        gain=gain,
        p_gain=p_gain,
        objectives=len(objectives),
        objectives_met=0 if saturated else sum(p >= 0.5 for p in objectives),
        device_gib=device,
        usable_gib=usable,
        k_ranges=k_ranges,
    )


def _result(
    measure: Measure,
    one: ServerResult,
    place: int,
    which: int,
    index: int,
    factor: float,
    sd: float,
) -> ClassResult:
    work = measure.mix.classes[which]
    candidate = one.candidates[place][index]
    estimate = candidate.estimate
    seen = times(estimate, "value") if estimate is not None else one.plain[place]
    rate = seen.output_tok_s * one.asked.scale / factor
    seen = Times(rate, seen.tpot_ms * factor, seen.ttft_ms * factor)
    plain = measure.plain(which)
    if work.rate is not None:  # as many are served as arrive: what differs is how long they stay
        stays = [stay_ms(one.tpot_ms, one.ttft_ms, work.output_tokens) for one in (plain, seen)]
        arriving = work.rate * work.output_tokens
        plain = plain._replace(output_tok_s=arriving)
        seen = seen._replace(output_tok_s=arriving * stays[0] / stays[1])
    own = decide.goal_interval(estimate, work.goal)
    if sd > 0:
        middle = _ratio(work.goal, seen, plain)
        gain = widen(
            Interval(p10=middle * own.p10 / own.p50, p50=middle, p90=middle * own.p90 / own.p50),
            sd,
        )
    else:
        gain = own
    return ClassResult(
        name=work.name,
        concurrency=one.asked.loads[place],
        gain=gain,
        output_tok_s=min(seen.output_tok_s, plain.output_tok_s)
        if work.rate is not None
        else seen.output_tok_s,
        tpot_ms=seen.tpot_ms,
        ttft_ms=seen.ttft_ms,
        ttft_predictable=estimate is None or estimate.ttft_ms.predictable,
        p_objective=_p_objective(one, place, estimate, seen),
    )


def _ratio(goal: Goal, seen: Times, plain: Times) -> float:
    """The goal's speed against the plain one."""
    ratios = (
        seen.output_tok_s / plain.output_tok_s,
        plain.tpot_ms / seen.tpot_ms,
        plain.ttft_ms / seen.ttft_ms,
    )
    return exp(sum(w * log(r) for w, r in zip(GOAL_WEIGHTS[goal], ratios, strict=True) if w))


def _p_objective(
    one: ServerResult, place: int, estimate: Estimate | None, seen: Times
) -> float | None:
    """The chance of the class's objectives at what it sees here."""
    request = one.asked.each[place].request
    if estimate is None:
        first = MetricEstimate(speedup=NO_GAIN)
        estimate = Estimate(
            output_tok_s=first,
            tpot_ms=first.model_copy(update={"value": seen.tpot_ms}),
            ttft_ms=first.model_copy(update={"value": seen.ttft_ms}),
            accepted_length=NO_GAIN,
            p_gain=0.5,
        )
    else:
        estimate = estimate.model_copy(
            update={
                "tpot_ms": estimate.tpot_ms.model_copy(update={"value": seen.tpot_ms}),
                "ttft_ms": estimate.ttft_ms.model_copy(update={"value": seen.ttft_ms}),
            }
        )
    return decide.p_objective(request, estimate, "value")


def _p_gain(
    several: Sequence[ServerResult],
    runs: Sequence[int],
    results: Sequence[ClassResult],
    gain: Interval,
    other_model: bool,
) -> float:
    """P(gain) of the layout: in one server of the model in use, that of its estimates."""
    if len(several) == 1 and not other_model:
        made = [column[runs[0]].estimate for column in several[0].candidates]
        told = [one.p_gain for one in made if one is not None]
        if len(told) == len(results):
            return chance_of_all(told, several[0].asked.weights)
    return chance(gain) if gain != NO_GAIN else 0.5


def _instance(
    mix: Mix,
    one: ServerResult,
    index: int,
    factor: float,
    saturated: bool,
    decision: Decision | None,
) -> Instance:
    facts = one.asked.question.facts
    assert facts.request is not None  # made from one
    plan = one.candidates[0][index].plan
    names = tuple(mix.classes[i].name for i in one.asked.classes)
    best = one.candidates[0][one.best].plan if one.best is not None else None
    return Instance(
        name="-".join(names) if len(names) < len(mix.classes) or len(names) == 1 else "all",
        classes=names,
        gpus=facts.gpus,
        request=facts.request,
        facts=facts,
        plan=plan,
        decision=decision or one.decision,
        best=best,
        candidates=_of_frame(one),
        memory=_bill(one, plan),
        concurrency=sum(one.asked.loads),
        slowdown=factor,
        saturated=saturated,
    )


def _of_frame(one: ServerResult) -> tuple[Candidate, ...]:
    """The candidates with the estimates of the longest class, as the launch is made for it."""
    request = one.asked.question.facts.request
    places = [
        i
        for i, facts in enumerate(one.asked.each)
        if request is not None and facts.ctx_tokens == request.ctx_tokens
    ]
    return one.candidates[places[0] if places else 0]


def _bill(one: ServerResult, plan: Plan) -> MemoryBill:
    facts = one.asked.question.facts
    return memory.bill(memory.replica(facts, plan), plan)


def _device(kind: Kind, made: Sequence[Instance]) -> tuple[float | None, float | None]:
    """GiB taken of the GPU that is used most, and what it gives."""
    sizes = [memory_gib(one.facts, one.plan, one.memory) for one in made]
    if None in sizes:
        return None, device.usable_gib(made[0].facts)
    known = [size for size in sizes if size is not None]
    return (sum(known) if kind == "shared" else max(known)), device.usable_gib(made[0].facts)


def relative(one: Layout, other: Layout) -> Interval:
    """The gain of one layout against another; errors of speculation go together, those of layouts
    do not.
    """
    a, b = one.gain or NO_GAIN, other.gain or NO_GAIN
    left, right = (log(gain.p90 / gain.p10) / (2 * Z10) for gain in (a, b))
    sd = max(left**2 + right**2 - 2 * ERROR_CORRELATION * left * right, 0.0) ** 0.5
    middle = a.p50 / b.p50
    return Interval(p10=middle * exp(-Z10 * sd), p50=middle, p90=middle * exp(Z10 * sd))
