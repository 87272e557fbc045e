"""Why nothing can speculate here, and what is known of the published drafter where one does.

What it does not know: which drafter is best; `plans.methods` picks it.
"""

from __future__ import annotations

from advisor.advice.plans import methods, propose, unlisted
from advisor.advice.plans.memory_relief import shortfall
from advisor.domain.nouns import (
    Facts,
    Plan,
    Reason,
)
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters
from advisor.perf import memory


def no_method(facts: Facts, base: Plan) -> str:
    """Return why no method of speculation can run here."""
    for method in methods.methods(facts):
        refusal = propose.no_path(facts, base, method)
        return refusal or _no_room(facts, propose.with_method(facts, base, method, 1))
    model = facts.model
    asked = facts.request.method if facts.request is not None else None
    if model is None:
        return "the model is not known here, so nothing is known that could draft for it"
    name = model.name or model.id
    if asked in (None, "mtp"):
        if since := methods.assistant_since(model, facts.engine):
            return (
                f"{name} drafts with a separate assistant model, which {facts.engine} takes from "
                f"{since} on"
            )
        if gguf_engine(facts.engine) and model.assistant:
            return (
                f"{name} drafts with a separate assistant model, and whether a GGUF of it lies "
                f"beside this model is not known: name one with --spec-draft-model and --spec-type "
                f"draft-mtp (llama.cpp#23398)"
            )
        if model.assistant_params_b and not (asked is None and drafters.refusal(facts)):
            return (
                f"{name} drafts with a separate assistant model, for which no launch on "
                f"{facts.engine} is known here"
            )
    return unlisted.words(facts, model)


def _no_room(facts: Facts, plan: Plan) -> str:
    """By how much even one draft token does not fit."""
    return f"with {title(plan.method)}, {shortfall(facts, plan, memory.bill(facts, plan))}"


def title(method: str) -> str:
    """Return the method's name for a text."""
    return drafters.TITLES.get(method, method.upper())


def from_drafter(facts: Facts, plan: Plan) -> list[Reason]:
    """Which published drafter the plan uses, that its acceptance is not this drafter's own, and
    what is said of it elsewhere.
    """
    known = drafters.find_drafter(facts, plan.draft_model)
    if known is None:
        return []
    request = facts.request
    given = request is not None and (
        request.acceptance is not None or request.acceptance_length is not None
    )
    how = "as you gave it" if given else f"{title(known.method)}'s in general, not its own"
    more = "" if given else "; pass --acceptance or --acceptance-length to use your own"
    text = f"Drafter {known.repository}; acceptance {how}; made for {known.target}{more}"
    told = [Reason(text=text, sources=known.sources[:1], weight=1.15)]
    others = [
        d.repository for d in drafters.usable(facts) if d is not known and d.target == known.target
    ]
    k = (
        f"served with {known.k} draft token{'s' if known.k != 1 else ''}"
        if known.k and known.k != plan.k
        else ""
    )
    parts = [f"reported: {known.reported}" if known.reported else "", k, known.note]
    parts += [f"other evidence: {conflict}" for conflict in known.conflicts]
    parts += [f"also published: {', '.join(others)}"] if others else []
    if said := "; ".join(part for part in parts if part):
        told.append(Reason(text=f"Of this drafter: {said}", sources=known.sources, weight=0.45))
    return told
