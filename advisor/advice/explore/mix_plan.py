"""The story of a mix: layouts are made, estimated in one call, compared by the weighted gain over
the classes, and one is chosen. A split is chosen where it keeps objectives that one server does
not, or where its gain over one server lies outside the interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import exp, log
from typing import Literal

from advisor.advice import decide, objectives
from advisor.advice.decide import NO_GAIN
from advisor.advice.explore import servers
from advisor.advice.explore.mix import WorkClass, WorkMix, check_mix
from advisor.advice.explore.servers import ServerResult
from advisor.advice.wording import k_text, span, whole_percent
from advisor.domain.frozen import Frozen
from advisor.domain.normal import Z10
from advisor.domain.nouns import (
    AdvisorError,
    Candidate,
    Decision,
    Facts,
    Interval,
    MemoryBill,
    Plan,
    Request,
)
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.prediction.decision import GOAL_WEIGHTS
from advisor.prediction.predict import ERROR_CORRELATION

Servers = list[servers.ServerDraft] | str  # the servers, or why they cannot be
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


def plan_mix(mix: WorkMix) -> MixPlan:
    """The layouts of a mix and the one to run. Raises AdvisorError where none can run."""
    check_mix(mix)
    whole = servers.build_server(mix, range(len(mix.classes)))
    layouts = _build_layouts(mix, whole, dict(_splits(mix)))
    chosen, why = _choose(mix, layouts)
    return MixPlan(mix=mix, layouts=tuple(layouts), chosen=chosen, why=tuple(why))


def _splits(mix: WorkMix) -> Iterator[tuple[str, Servers]]:
    """Every way to part the classes in two servers, the first class in the first one, and to give
    each of them some of the GPUs: by its title.
    """
    rest = range(1, len(mix.classes))
    for more in (more for size in range(len(rest)) for more in combinations(rest, size)):
        parts = (0, *more), tuple(i for i in rest if i not in more)
        first, second = (" and ".join(mix.classes[i].name for i in part) for part in parts)
        for gpus in ((count, mix.gpus - count) for count in range(1, mix.gpus)):
            title = f"{first} on {gpus[0]} GPU{'s' * (gpus[0] > 1)} | {second} on {gpus[1]}"
            try:
                pairs = zip(parts, gpus, strict=True)
                yield title, [servers.build_server(mix, part, gpus=n) for part, n in pairs]
            except AdvisorError as error:
                yield title, str(error)


def _build_layouts(
    mix: WorkMix, whole: servers.ServerDraft, splits: Mapping[str, Servers]
) -> list[PlanLayout]:
    """The layouts as each class sees them, one plain server first, all estimated in one call."""
    drafts = [draft for split in splits.values() if not isinstance(split, str) for draft in split]
    reference, *others = servers.estimate_servers([whole, *drafts], mix)
    build, of_splits = partial(build_layout, mix, reference), iter(others)
    layouts = [build("off", "one server without speculation", [(reference, 0)])]
    on = "one server with speculation"
    if reference.best is None:
        why = "no speculative method is known to run in this layout: see `advisor recommend`"
        layouts.append(PlanLayout(kind="on", title=on, refusal=why))
    else:
        plan = reference.candidates[0][reference.best].plan
        on = f"one server with {plan.method}, {k_text(plan.k, verifies_adaptively(plan))}"
        layouts.append(build("on", on, [(reference, reference.best)]))
    for title, split in splits.items():
        if isinstance(split, str):
            layouts.append(PlanLayout(kind="gpus", title=title, refusal=split))
        else:
            several = [next(of_splits) for _ in split]
            layouts.append(build("gpus", title, [(server, server.runs) for server in several]))
    return layouts


def _choose(mix: WorkMix, layouts: Sequence[PlanLayout]) -> tuple[int, list[str]]:
    """The layout to run, and why; the first two are one server off and on."""
    chosen, single = 0, layouts[1]
    why = [f"No speculation: {single.refusal}"]
    if single.refusal is None and single.gain is not None:
        decision = single.instances[0].decision
        chosen = int(decision == "on")
        why = [f"{_WORDS[decision]} in one server: {_span(single.gain)}, "
               f"P(gain) {single.p_gain:.2f}"]  # fmt: skip
    if len(layouts) == 2 and len(mix.classes) > 1:
        return chosen, [*why, "No split: each server needs a GPU of its own, and there is one"]
    able = [i for i, layout in enumerate(layouts[2:], 2) if layout.refusal is None]
    if not able:
        return chosen, [*why, *(f"No split: {layout.refusal}" for layout in layouts[2:3])]
    best = max(able, key=lambda i: (layouts[i].objectives_met, (layouts[i].gain or NO_GAIN).p50))
    taken, sentence = _split(layouts[best], layouts[chosen], single)
    return best if taken else chosen, [*why, sentence]


def _split(split: PlanLayout, single: PlanLayout, drafting: PlanLayout) -> tuple[bool, str]:
    """Whether the best split is taken, and why; `drafting`: one server, perhaps measured first."""
    gain, title, met = relative(split, single), split.title, split.objectives_met
    if met > single.objectives_met:
        return True, (
            f"Split ({title}): {met} of {split.objectives} objectives are met, one server meets "
            f"{single.objectives_met}; {_span(gain)} overall"
        )
    if met < single.objectives_met:
        return False, f"No split: one server meets more objectives ({title}: {_span(gain)})"
    if drafting.gain is not None and relative(split, drafting).p50 <= 1.0:
        return (
            False,
            f"No split: one server with speculation reaches as much ({title}: {_span(gain)})",
        )
    if gain.p10 > 1.0:
        return True, f"Split ({title}): {_span(gain)} against one server"
    if gain.p50 <= 1.0:
        return False, f"No split: the best one ({title}) loses, {_span(gain)} against one server"
    return False, f"No split: {_span(gain)} lies within the interval ({title})"


_WORDS = {
    "on": "Speculation on", "off": "Speculation off", "measure": "Measure speculation first"
}  # fmt: skip


def _span(gain: Interval) -> str:
    return f"{whole_percent(gain.p50)} ({span(gain)})"


# ---------------------------------------------------------------- one layout


def build_layout(
    mix: WorkMix,
    reference: ServerResult,
    kind: Kind,
    title: str,
    rows: Sequence[tuple[ServerResult, int]],
) -> PlanLayout:
    """Servers with the candidates that they run; `reference`: one server for all, the baseline."""
    plain = dict(zip(reference.draft.classes, reference.plain, strict=True))
    results = {
        which: _class_result(mix.classes[which], plain[which], kind, server, place, index)
        for server, index in rows
        for place, which in enumerate(server.draft.classes)
    }
    ordered = tuple(results[i] for i in sorted(results))
    gain = decide.average([seen.gain for seen in ordered], reference.draft.weights)
    chances = [seen.p_objective for seen in ordered if seen.p_objective is not None]
    p_gain = servers.chance(gain) if gain != NO_GAIN else 0.5
    if len(rows) == 1:  # that of the estimates
        ((server, index),) = rows
        estimates = [column[index].estimate for column in server.candidates]
        each = [estimate.p_gain for estimate in estimates if estimate is not None]
        if len(each) == len(ordered):
            p_gain = servers.chance_of_all(each, server.draft.weights)
    return PlanLayout(
        kind=kind,
        title=title,
        instances=tuple(_instance(mix, *row) for row in rows),
        results=ordered,
        gain=gain,
        p_gain=None if kind == "off" else p_gain,
        objectives=len(chances),
        objectives_met=sum(p >= 0.5 for p in chances),
    )


def _class_result(
    work: WorkClass, plain: servers.Times, kind: Kind, server: ServerResult, place: int, index: int
) -> ClassResult:
    estimate = server.candidates[place][index].estimate
    seen = servers.times(estimate, "value") if estimate is not None else server.plain[place]
    gain = decide.goal_interval(estimate, work.goal)
    if kind == "gpus":
        weighted = zip(GOAL_WEIGHTS[work.goal], servers.ratios(plain, seen), strict=True)
        ratio = exp(sum(weight * log(ratio) for weight, ratio in weighted if weight))
        sd = knowledge.threshold("layout_error").value
        gain = servers.widen(servers.move_middle(gain, ratio), sd)
    request = server.draft.each[place].request
    levels = {"tpot": seen.tpot_ms, "ttft": seen.ttft_ms}
    return ClassResult(
        name=work.name,
        concurrency=server.draft.loads[place],
        gain=gain,
        **seen._asdict(),
        ttft_predictable=estimate is None or estimate.ttft_ms.predictable,
        p_objective=objectives.p_objective(request, estimate, "value", levels),
    )


def _instance(mix: WorkMix, server: ServerResult, index: int) -> Instance:
    facts = server.draft.question.facts
    plan = server.candidates[0][index].plan
    names = tuple(mix.classes[i].name for i in server.draft.classes)
    lengths = [own.ctx_tokens for own in server.draft.each]  # the launch is for the longest class
    longest = lengths.index(facts.ctx_tokens) if facts.ctx_tokens in lengths else 0
    return Instance(
        name="-".join(names) if len(names) < len(mix.classes) or len(names) == 1 else "all",
        classes=names,
        gpus=facts.gpus,
        request=facts.question,
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
