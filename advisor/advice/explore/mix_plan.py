"""The story of a mix: layouts are made, estimated in one call, compared and one is chosen.

Layouts: one server without, with and with scheduled speculation; two servers on the same GPUs or on
their own, for every way to part the classes; one server with another model. The measure is the
weighted gain over the classes against one server without speculation. A split is chosen where it
keeps objectives that one server does not, or where its gain over one server lies outside the
interval. What it does not know: the quality of other models, and costs of running two servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log
from typing import NamedTuple

from advisor.advice.explore import instances, mixing, sharing
from advisor.advice.explore.axes import series
from advisor.advice.explore.instances import Server, ServerResult
from advisor.advice.explore.layout_gains import Measure, build_layout, relative
from advisor.advice.explore.layouts import Kind, Layout, MixPlan
from advisor.advice.explore.mix import Mix, check_mix
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import KRanges
from advisor.domain.nouns import AdvisorError
from advisor.perf import memory


class Draft(NamedTuple):
    """A layout before it is estimated; `slow` is what its servers cost each other."""

    kind: Kind
    title: str
    model: str
    asked: tuple[Server, ...] = ()
    slow: tuple[float, ...] = ()
    saturated: bool = False
    refusal: str | None = None
    k_ranges: KRanges | None = None


def plan_mix(mix: Mix) -> MixPlan:
    """The layouts of a mix and the one to run.

    Raises AdvisorError (UnknownFact for names) where not even one server can run it.
    """
    layouts = _build_layouts(mix, drafts(mix))
    chosen, why = _choose(layouts)
    return MixPlan(mix=mix, layouts=tuple(layouts), chosen=chosen, why=tuple(why))


def drafts(mix: Mix) -> list[Draft]:
    """The layouts of a mix before they are estimated, one server without speculation first.

    Raises AdvisorError where not even that one can run.
    """
    check_mix(mix)
    known = mixing.curves(mix)
    everyone = tuple(range(len(mix.classes)))
    loads = mixing.loads(mix, everyone, known)
    whole = instances.build_server(mix, everyone, loads.each)
    made = [Draft("off", "one server without speculation", mix.models[0], (whole,), (1.0,))]
    made.append(_schedule_draft(mix, whole))
    made += _splits(mix, whole, known)
    made += _models(mix, loads.each)
    return [
        one._replace(saturated=one.saturated or (loads.saturated and one.kind != "gpus"))
        for one in made
    ]


# ---------------------------------------------------------------- layouts


def _schedule_draft(mix: Mix, whole: Server) -> Draft:
    """One server with a k per batch size, where the engine takes one and it pays."""
    draft = Draft("scheduled", "one server, k by batch size", mix.models[0])
    most_at_once = max(range(len(whole.loads)), key=lambda i: whole.loads[i])
    request, together = whole.each[most_at_once].request, whole.question.facts.concurrency or 1
    if request is None or together < 2 or not whole.question.plans:
        why = (
            "one request at a time"
            if together < 2
            else "no speculative method is known to run here"
        )
        return draft._replace(refusal=f"there is nothing to schedule: {why}")
    found = sweep(request, {"concurrency": series(1, together, 12)}).k_ranges
    if not found:
        return draft._replace(refusal="there is nothing to schedule")
    ranges = found[0]
    if not ranges.pays:
        return draft._replace(refusal=f"one fixed k is better: {ranges.why}", k_ranges=ranges)
    most = max(k for _, _, k in ranges.rows)
    plan = next(
        (p for p in whole.question.plans if p.k == most and p.method == ranges.method), None
    )
    if plan is None:
        return draft._replace(refusal=f"k={most} does not fit beside the longest class")
    plan = plan.model_copy(update={"k": most, "k_schedule": ranges.rows})
    bill = memory.bill(memory.replica(whole.question.facts, plan), plan)
    own = Server(
        classes=whole.classes,
        loads=whole.loads,
        question=whole.question._replace(plans=(plan,), bills=(bill,)),
        each=whole.each,
        single=whole.single,
    )
    return draft._replace(asked=(own,), slow=(1.0,), k_ranges=ranges)


def _splits(mix: Mix, whole: Server, known: dict[int, mixing.Curve]) -> list[Draft]:
    """Two servers, for every way to part the classes: on the same GPUs, and on their own."""
    out = []
    for first, second in _parts(len(mix.classes)):
        names = [" and ".join(mix.classes[i].name for i in part) for part in (first, second)]
        out.append(_split_draft(mix, whole, (first, second), names, known))
        for gpus in range(1, mix.gpus):
            out.append(_apart(mix, (first, second), (gpus, mix.gpus - gpus), names, known))
    return out


def _parts(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to part so many classes in two, the first class in the first part."""
    rest = range(1, count)
    return [
        ((0, *more), tuple(i for i in rest if i not in more))
        for size in range(count - 1)
        for more in combinations(rest, size)
    ]


def _split_draft(
    mix: Mix,
    whole: Server,
    parts: tuple[tuple[int, ...], ...],
    names: Sequence[str],
    known: dict[int, mixing.Curve],
) -> Draft:
    gpus = "the same GPU" if mix.gpus == 1 else f"the same {mix.gpus} GPUs"
    draft = Draft("shared", f"{names[0]} | {names[1]}, two servers on {gpus}", mix.models[0])
    slow = [1.0 for _ in parts]
    loads = [mixing.loads(mix, part, known) for part in parts]
    for _ in range(8):  # a slower server holds more requests, and so is busier
        busies = [
            sharing.busy(
                sum(one.each), all(mixing.closed_concurrency(mix, i) is None for i in part)
            )
            for one, part in zip(loads, parts, strict=True)
        ]
        slow = sharing.slowdowns(busies)
        loads = [
            mixing.loads(mix, part, known, factor) for part, factor in zip(parts, slow, strict=True)
        ]
    try:
        asked = [
            instances.build_server(mix, part, one.each)
            for part, one in zip(parts, loads, strict=True)
        ]
        placed = sharing.share_memory(asked, whole)
    except AdvisorError as error:
        return draft._replace(refusal=str(error))
    saturated = any(one.saturated for one in loads)
    return draft._replace(asked=tuple(placed), slow=tuple(slow), saturated=saturated)


def _apart(
    mix: Mix,
    parts: tuple[tuple[int, ...], ...],
    gpus: tuple[int, ...],
    names: Sequence[str],
    known: dict[int, mixing.Curve],
) -> Draft:
    title = f"{names[0]} on {gpus[0]} GPU{'s' * (gpus[0] > 1)} | {names[1]} on {gpus[1]}"
    draft = Draft("gpus", title, mix.models[0], slow=(1.0,) * len(parts))
    loads = [mixing.loads(mix, part, known) for part in parts]
    try:
        asked = [
            instances.build_server(mix, part, one.each, gpus=count)
            for part, one, count in zip(parts, loads, gpus, strict=True)
        ]
    except AdvisorError as error:
        return draft._replace(refusal=str(error))
    return draft._replace(asked=tuple(asked), saturated=any(one.saturated for one in loads))


def _models(mix: Mix, loads: Sequence[float]) -> list[Draft]:
    out = []
    everyone = tuple(range(len(mix.classes)))
    for name in mix.models[1:]:
        draft = Draft("model", f"one server with {name}", name, slow=(1.0,))
        try:
            out.append(
                draft._replace(asked=(instances.build_server(mix, everyone, loads, model=name),))
            )
        except AdvisorError as error:
            out.append(draft._replace(refusal=str(error)))
    return out


# ---------------------------------------------------------------- estimates and choice


def _build_layouts(mix: Mix, drafts: Sequence[Draft]) -> list[Layout]:
    """The layouts with what each class sees; all servers are estimated in one call."""
    made = iter(instances.estimate_servers([one for draft in drafts for one in draft.asked], mix))
    served = [tuple(next(made) for _ in draft.asked) for draft in drafts]
    reference = served[0][0]
    measure = Measure(mix, reference)
    layouts = []
    for draft, several in zip(drafts, served, strict=True):
        if draft.refusal is not None:
            layouts.append(
                Layout(
                    kind=draft.kind,
                    title=draft.title,
                    model=draft.model,
                    refusal=draft.refusal,
                    k_ranges=draft.k_ranges,
                )
            )
            continue
        layouts.append(_one(measure, draft, several))
        if draft.kind == "off":
            layouts.append(_on(measure, draft, reference))
    return layouts


def _one(measure: Measure, draft: Draft, several: tuple[ServerResult, ...]) -> Layout:
    runs = [0 if draft.kind == "off" else one.runs for one in several]
    if draft.kind == "scheduled":
        runs = [1]
    return build_layout(
        measure,
        draft.kind,
        draft.title,
        draft.model,
        several,
        runs,
        draft.slow,
        saturated=draft.saturated,
        k_ranges=draft.k_ranges,
    )


def _on(measure: Measure, draft: Draft, reference: ServerResult) -> Layout:
    if reference.best is None:
        return Layout(
            kind="on",
            title="one server with speculation",
            model=draft.model,
            refusal="no speculative method is known to run here: see `advisor recommend`",
        )
    plan = reference.candidates[0][reference.best].plan
    return build_layout(
        measure,
        "on",
        f"one server with {plan.method}, k={plan.k}",
        draft.model,
        (reference,),
        [reference.best],
        (1.0,),
        saturated=draft.saturated,
        decision=reference.decision,
    )


def _choose(layouts: Sequence[Layout]) -> tuple[int, list[str]]:
    """The layout to run, and why."""
    off = next(i for i, one in enumerate(layouts) if one.kind == "off")
    on = next(i for i, one in enumerate(layouts) if one.kind == "on")
    one = on if layouts[on].refusal is None and layouts[on].instances[0].decision == "on" else off
    why = [_one_server(layouts[on])]
    ranges = next((i for i, x in enumerate(layouts) if x.kind == "scheduled"), None)
    if ranges is not None and layouts[ranges].refusal is None:
        more = _percent(relative(layouts[ranges], layouts[one]).p50)
        scheduled = layouts[ranges].instances[0].plan.k_schedule
        if scheduled and one == on and _middle(layouts[ranges]) >= _middle(layouts[one]):
            one = ranges
        why.append(f"k by batch size against one k: {more} at this load")
    elif ranges is not None:
        why.append(f"No k by batch size: {layouts[ranges].refusal}")
    splits = [i for i, x in enumerate(layouts) if x.kind in ("shared", "gpus")]
    able = [i for i in splits if layouts[i].refusal is None]
    if not splits:
        return one, why
    if not able:
        why.append(f"No split: {layouts[splits[0]].refusal}")
        return one, why
    best = max(able, key=lambda i: (layouts[i].objectives_met, _middle(layouts[i])))
    gain, sentence = relative(layouts[best], layouts[one]), layouts[best].title
    told = f"{_percent(gain.p50)} ({_percent(gain.p10)} to {_percent(gain.p90)})"
    if layouts[best].objectives_met > layouts[one].objectives_met:
        why.append(
            f"Split ({sentence}): {layouts[best].objectives_met} of {layouts[best].objectives} "
            f"objectives are met, one server meets {layouts[one].objectives_met}; {told} overall"
        )
        return best, why
    fewer = layouts[best].objectives_met < layouts[one].objectives_met
    if gain.p10 > 1.0 and not fewer:
        why.append(f"Split ({sentence}): {told} against one server")
        return best, why
    if fewer:
        why.append(f"No split: one server meets more objectives ({sentence}: {told})")
    elif gain.p50 <= 1.0:
        why.append(f"No split: the best one ({sentence}) loses, {told} against one server")
    else:
        why.append(f"No split: {told} lies within the interval ({sentence})")
    return one, why


def _middle(layout: Layout) -> float:
    return log(layout.gain.p50) if layout.gain is not None else float("-inf")


def _one_server(on: Layout) -> str:
    if on.refusal is not None or on.gain is None:
        return f"No speculation: {on.refusal}"
    told = f"{_percent(on.gain.p50)} ({_percent(on.gain.p10)} to {_percent(on.gain.p90)})"
    word = {
        "on": "Speculation on",
        "off": "Speculation off",
        "measure": "Measure speculation first",
    }[on.instances[0].decision]
    return f"{word} in one server: {told}, P(gain) {on.p_gain:.2f}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"
