"""The story of a mix: layouts are made, estimated in one call, compared by the weighted gain over
the classes, and one is chosen. A split is chosen where it keeps objectives that one server does
not, or where its gain over one server lies outside the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log

from advisor.advice.explore import servers
from advisor.advice.explore.layouts import LayoutDraft, MixPlan, PlanLayout, build_layout, relative
from advisor.advice.explore.mix import WorkMix, check_mix
from advisor.advice.wording import span, whole_percent
from advisor.domain.nouns import AdvisorError, Interval

Part = tuple[int, ...]  # classes of one server, as indices into the mix


def plan_mix(mix: WorkMix) -> MixPlan:
    """The layouts of a mix and the one to run. Raises AdvisorError where none can run."""
    layouts = _build_layouts(mix, drafts(mix))
    chosen, why = _choose(mix, layouts)
    return MixPlan(mix=mix, layouts=tuple(layouts), chosen=chosen, why=tuple(why))


def drafts(mix: WorkMix) -> list[LayoutDraft]:
    """The layouts before they are estimated, one plain server first. Raises AdvisorError."""
    check_mix(mix)
    whole = servers.build_server(mix, range(len(mix.classes)))
    layouts = [LayoutDraft("off", "one server without speculation", (whole,))]
    for parts in _parts(len(mix.classes)):
        layouts += [_split_draft(mix, parts, count) for count in range(1, mix.gpus)]
    return layouts


# ---------------------------------------------------------------- layouts


def _parts(count: int) -> list[tuple[Part, Part]]:
    """Every way to part so many classes in two, the first class in the first part."""
    rest = range(1, count)
    return [
        ((0, *more), tuple(i for i in rest if i not in more))
        for size in range(count - 1)
        for more in combinations(rest, size)
    ]


def _split_draft(mix: WorkMix, parts: tuple[Part, Part], count: int) -> LayoutDraft:
    """Two servers, the first on so many GPUs and the second on the others."""
    names = [" and ".join(mix.classes[i].name for i in part) for part in parts]
    gpus = (count, mix.gpus - count)
    title = f"{names[0]} on {count} GPU{'s' * (count > 1)} | {names[1]} on {gpus[1]}"
    draft = LayoutDraft("gpus", title)
    try:
        pairs = zip(parts, gpus, strict=True)
        several = [servers.build_server(mix, part, gpus=number) for part, number in pairs]
        return draft._replace(servers=tuple(several))
    except AdvisorError as error:
        return draft._replace(refusal=str(error))


# ---------------------------------------------------------------- estimates and choice


def _build_layouts(mix: WorkMix, drafts: Sequence[LayoutDraft]) -> list[PlanLayout]:
    """The layouts with what each class sees; all servers are estimated in one call."""
    asked = [server for draft in drafts for server in draft.servers]
    results = iter(servers.estimate_servers(asked, mix))
    served = [tuple(next(results) for _ in draft.servers) for draft in drafts]
    reference = served[0][0]
    layouts = [build_layout(mix, reference, drafts[0], served[0], [0])]
    on = drafts[0]._replace(kind="on", title="one server with speculation")
    if reference.best is None:
        why = "no speculative method is known to run here: see `advisor recommend`"
        layouts.append(build_layout(mix, reference, on._replace(refusal=why), (), ()))
    else:
        plan = reference.candidates[0][reference.best].plan
        on = on._replace(title=f"one server with {plan.method}, k={plan.k}")
        layouts.append(build_layout(mix, reference, on, served[0], [reference.best]))
    for draft, several in zip(drafts[1:], served[1:], strict=True):
        runs = [server.runs for server in several]
        layouts.append(build_layout(mix, reference, draft, several, runs))
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
    best = max(able, key=lambda i: (layouts[i].objectives_met, _middle(layouts[i])))
    taken, sentence = _split(layouts[best], layouts[chosen])
    return best if taken else chosen, [*why, sentence]


def _split(split: PlanLayout, single: PlanLayout) -> tuple[bool, str]:
    """Whether the best split is taken instead of one server, and why."""
    gain, title, met = relative(split, single), split.title, split.objectives_met
    if met > single.objectives_met:
        return True, (
            f"Split ({title}): {met} of {split.objectives} objectives are met, one server meets "
            f"{single.objectives_met}; {_span(gain)} overall"
        )
    if met < single.objectives_met:
        return False, f"No split: one server meets more objectives ({title}: {_span(gain)})"
    if gain.p10 > 1.0:
        return True, f"Split ({title}): {_span(gain)} against one server"
    if gain.p50 <= 1.0:
        return False, f"No split: the best one ({title}) loses, {_span(gain)} against one server"
    return False, f"No split: {_span(gain)} lies within the interval ({title})"


def _middle(layout: PlanLayout) -> float:
    return log(layout.gain.p50) if layout.gain is not None else float("-inf")


_WORDS = {
    "on": "Speculation on", "off": "Speculation off", "measure": "Measure speculation first"
}  # fmt: skip


def _span(gain: Interval) -> str:
    return f"{whole_percent(gain.p50)} ({span(gain)})"
