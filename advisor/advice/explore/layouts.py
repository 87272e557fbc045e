"""The ways to serve several workloads: instances, layouts, and what each class gains in them."""

from collections.abc import Sequence
from math import exp, log
from typing import Literal

from advisor.advice import decide, objectives
from advisor.advice.decide import NO_GAIN
from advisor.advice.explore import mixing
from advisor.advice.explore.mix import WorkClass, WorkMix
from advisor.advice.explore.servers import ServerDraft, ServerResult
from advisor.domain.frozen import Frozen
from advisor.domain.normal import Z10
from advisor.domain.nouns import Candidate, Decision, Facts, Interval, MemoryBill, Plan, Request
from advisor.domain.records import NamedTuple
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.prediction.decision import GOAL_WEIGHTS
from advisor.prediction.predict import ERROR_CORRELATION

Kind = Literal["off", "on", "gpus"]


class ClassResult(Frozen):
    """What one class sees in a layout: `gain` by its goal against one instance without speculation,
    output tok/s of all its requests together, TPOT and TTFT of one.
    """

    name: str
    concurrency: int  # requests at once
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
    concurrency: int


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


class LayoutDraft(NamedTuple):
    """A layout before it is estimated."""

    kind: Kind
    title: str
    servers: tuple[ServerDraft, ...] = ()
    refusal: str | None = None


def build_layout(
    mix: WorkMix,
    reference: ServerResult,
    draft: LayoutDraft,
    several: Sequence[ServerResult],
    runs: Sequence[int],
) -> PlanLayout:
    """A layout of servers, each running its candidate `runs`; bare where it has a refusal.
    `reference`: one server for all, against which it gains.
    """
    bare = PlanLayout(kind=draft.kind, title=draft.title, refusal=draft.refusal)
    if draft.refusal is not None:
        return bare
    rows = list(zip(several, runs, strict=True))
    plain = dict(zip(reference.draft.classes, reference.plain, strict=True))
    results = {
        which: _class_result(mix.classes[which], plain[which], draft, server, place, index)
        for server, index in rows
        for place, which in enumerate(server.draft.classes)
    }
    ordered = tuple(results[i] for i in sorted(results))
    gain = decide.average([seen.gain for seen in ordered], reference.draft.weights)
    chances = [seen.p_objective for seen in ordered if seen.p_objective is not None]
    instances = tuple(_instance(mix, *row) for row in rows)
    p_gain = mixing.chance(gain) if gain != NO_GAIN else 0.5
    if len(several) == 1:  # that of the estimates
        estimates = [column[runs[0]].estimate for column in several[0].candidates]
        each = [estimate.p_gain for estimate in estimates if estimate is not None]
        if len(each) == len(ordered):
            p_gain = mixing.chance_of_all(each, several[0].draft.weights)
    return bare.model_copy(
        update={
            "instances": instances,
            "results": ordered,
            "gain": gain,
            "p_gain": None if draft.kind == "off" else p_gain,
            "objectives": len(chances),
            "objectives_met": sum(p >= 0.5 for p in chances),
        }
    )


def _class_result(
    work: WorkClass,
    plain: mixing.Times,
    draft: LayoutDraft,
    server: ServerResult,
    place: int,
    index: int,
) -> ClassResult:
    estimate = server.candidates[place][index].estimate
    seen = mixing.times(estimate, "value") if estimate is not None else server.plain[place]
    gain = decide.goal_interval(estimate, work.goal)
    if draft.kind == "gpus":
        ratios = (
            seen.output_tok_s / plain.output_tok_s,
            plain.tpot_ms / seen.tpot_ms,
            plain.ttft_ms / seen.ttft_ms,
        )
        weighted = zip(GOAL_WEIGHTS[work.goal], ratios, strict=True)
        ratio = exp(sum(weight * log(ratio) for weight, ratio in weighted if weight))
        sd = knowledge.threshold("layout_error").value
        gain = mixing.widen(mixing.move_middle(gain, ratio), sd)
    request = server.draft.each[place].request
    levels = {"tpot": seen.tpot_ms, "ttft": seen.ttft_ms}
    return ClassResult(
        name=work.name,
        concurrency=server.draft.loads[place],
        gain=gain,
        output_tok_s=seen.output_tok_s,
        tpot_ms=seen.tpot_ms,
        ttft_ms=seen.ttft_ms,
        ttft_predictable=estimate is None or estimate.ttft_ms.predictable,
        p_objective=objectives.p_objective(request, estimate, "value", levels),
    )


def _instance(mix: WorkMix, server: ServerResult, index: int) -> Instance:
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
    )


def relative(layout: PlanLayout, other: PlanLayout) -> Interval:
    """The gain of one layout against another; only errors of speculation go together."""
    a, b = layout.gain or NO_GAIN, other.gain or NO_GAIN
    left, right = (log(gain.p90 / gain.p10) / (2 * Z10) for gain in (a, b))
    sd = max(left**2 + right**2 - 2 * ERROR_CORRELATION * left * right, 0.0) ** 0.5
    middle = a.p50 / b.p50
    return Interval(p10=middle * exp(-Z10 * sd), p50=middle, p90=middle * exp(Z10 * sd))
