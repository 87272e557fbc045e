"""What each class gains in a layout against one server without speculation."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from advisor.advice import decide, objectives
from advisor.advice.explore import mixing
from advisor.advice.explore.layouts import ClassResult, Instance, Kind, PlanLayout, memory_gib
from advisor.advice.explore.mix import WorkMix
from advisor.advice.explore.servers import ServerDraft, ServerResult
from advisor.domain.normal import Z10
from advisor.domain.nouns import Interval
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import device
from advisor.prediction.decision import GOAL_WEIGHTS
from advisor.prediction.predict import ERROR_CORRELATION

NO_GAIN = Interval(p10=1.0, p50=1.0, p90=1.0)


class LayoutDraft(NamedTuple):
    """A layout before it is estimated."""

    kind: Kind
    title: str
    servers: tuple[ServerDraft, ...] = ()
    refusal: str | None = None

    @property
    def slowdown(self) -> float:
        """What its servers cost each other: on the same GPUs they take turns."""
        return 2.0 if self.kind == "shared" else 1.0


class Measure(NamedTuple):
    """What layouts are measured against: the mix, and one server for all of it."""

    mix: WorkMix
    reference: ServerResult


def build_layout(
    measure: Measure, draft: LayoutDraft, several: Sequence[ServerResult], runs: Sequence[int]
) -> PlanLayout:
    """A layout of servers, each running its candidate `runs`; bare where it has a refusal."""
    same = ("kind", "title", "refusal")
    bare = PlanLayout(**{name: getattr(draft, name) for name in same})
    if draft.refusal is not None:
        return bare
    rows = list(zip(several, runs, strict=True))
    split = draft.kind in ("shared", "gpus")
    sd = knowledge.threshold("layout_error").value if split else 0.0
    results = {
        which: _class_result(measure, server, place, index, draft.slowdown, sd)
        for server, index in rows
        for place, which in enumerate(server.draft.classes)
    }
    ordered = tuple(results[i] for i in sorted(results))
    gain = mixing.average([seen.gain for seen in ordered], measure.reference.draft.weights)
    objectives = [seen.p_objective for seen in ordered if seen.p_objective is not None]
    instances = tuple(_instance(measure.mix, draft, *row) for row in rows)
    sizes = [memory_gib(one.facts, one.plan, one.memory) for one in instances]
    known = [size for size in sizes if size is not None]
    most = sum(known) if draft.kind == "shared" else max(known, default=None)
    p_gain = mixing.chance(gain) if gain != NO_GAIN else 0.5
    if len(several) == 1:  # that of the estimates
        estimates = [column[runs[0]].estimate for column in several[0].candidates]
        chances = [estimate.p_gain for estimate in estimates if estimate is not None]
        if len(chances) == len(ordered):
            p_gain = mixing.chance_of_all(chances, several[0].draft.weights)
    return bare.model_copy(
        update={
            "instances": instances,
            "results": ordered,
            "gain": gain,
            "p_gain": None if draft.kind == "off" else p_gain,
            "objectives": len(objectives),
            "objectives_met": sum(p >= 0.5 for p in objectives),
            "device_gib": most if len(known) == len(sizes) else None,
            "usable_gib": device.usable_gib(instances[0].facts),
        }
    )


def _class_result(
    measure: Measure, server: ServerResult, place: int, index: int, factor: float, sd: float
) -> ClassResult:
    which = server.draft.classes[place]
    work, estimate = measure.mix.classes[which], server.candidates[place][index].estimate
    seen = mixing.times(estimate, "value") if estimate is not None else server.plain[place]
    rate = seen.output_tok_s / factor
    seen = mixing.Times(rate, seen.tpot_ms * factor, seen.ttft_ms * factor)
    reference = measure.reference
    plain = reference.plain[reference.draft.classes.index(which)]  # in one server
    gain = decide.goal_interval(estimate, work.goal)
    if sd > 0:
        ratios = (
            rate / plain.output_tok_s,
            plain.tpot_ms / seen.tpot_ms,
            plain.ttft_ms / seen.ttft_ms,
        )
        weighted = zip(GOAL_WEIGHTS[work.goal], ratios, strict=True)
        ratio = exp(sum(weight * log(ratio) for weight, ratio in weighted if weight))
        gain = mixing.widen(mixing.move_middle(gain, ratio), sd)
    return ClassResult(
        name=work.name,
        concurrency=server.draft.loads[place],
        gain=gain,
        output_tok_s=rate,
        tpot_ms=seen.tpot_ms,
        ttft_ms=seen.ttft_ms,
        ttft_predictable=estimate is None or estimate.ttft_ms.predictable,
        p_objective=objectives.p_objective(
            server.draft.each[place].request,
            estimate,
            "value",
            {"tpot": seen.tpot_ms, "ttft": seen.ttft_ms},
        ),
    )


def _instance(mix: WorkMix, draft: LayoutDraft, server: ServerResult, index: int) -> Instance:
    facts = server.draft.question.facts
    assert facts.request is not None  # made from one
    plan = server.candidates[0][index].plan
    names = tuple(mix.classes[i].name for i in server.draft.classes)
    lengths = [own.ctx_tokens for own in server.draft.each]  # the launch is for the longest class
    longest = lengths.index(facts.ctx_tokens) if facts.ctx_tokens in lengths else 0
    return Instance(
        name="-".join(names) if len(names) < len(mix.classes) or len(names) == 1 else "all",
        classes=names,
        gpus=facts.gpus,
        request=facts.request,
        facts=facts,
        plan=plan,
        decision=server.decision,
        best=server.candidates[0][server.best].plan if server.best is not None else None,
        candidates=server.candidates[longest],
        memory=memory.bill(memory.replica(facts, plan), plan),
        concurrency=sum(server.draft.loads),
        slowdown=draft.slowdown,
    )


def relative(layout: PlanLayout, other: PlanLayout) -> Interval:
    """The gain of one layout against another; only errors of speculation go together."""
    a, b = layout.gain or NO_GAIN, other.gain or NO_GAIN
    left, right = (log(gain.p90 / gain.p10) / (2 * Z10) for gain in (a, b))
    sd = max(left**2 + right**2 - 2 * ERROR_CORRELATION * left * right, 0.0) ** 0.5
    middle = a.p50 / b.p50
    return Interval(p10=middle * exp(-Z10 * sd), p50=middle, p90=middle * exp(Z10 * sd))
