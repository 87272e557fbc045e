"""Why nothing can speculate here, and what is known of the published drafter where one does."""

from __future__ import annotations

from advisor.advice.plans import methods, propose
from advisor.advice.plans.memory_relief import shortfall
from advisor.advice.wording import name_of, reason
from advisor.domain.nouns import Facts, Plan, Reason
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters
from advisor.knowledge.drafters import asked_method
from advisor.perf import memory

SUFFIX = "Suffix decoding needs arctic-inference beside vLLM: pip install arctic-inference==0.1.1"


def no_method(facts: Facts, base: Plan) -> str:
    """Return why no method of speculation can run here."""
    for method in methods.methods(facts)[:1]:
        if refusal := propose.no_path(facts, base, method):
            return refusal
        plan = propose.with_method(facts, base, method, 1)  # not even one draft token fits
        return f"with {title(method)}, {shortfall(facts, plan, memory.bill(facts, plan))}"
    model, asked = facts.model, asked_method(facts)
    if model is None:
        return "the model is not known here, so nothing is known that could draft for it"
    apart = f"{name_of(model, '')} drafts with a separate assistant model"
    if asked in (None, "mtp"):
        if since := methods.assistant_since(model, facts.engine):
            return f"{apart}, which {facts.engine} takes from {since} on"
        if gguf_engine(facts.engine) and model.assistant:
            return (
                f"{apart}, and whether a GGUF of it lies "
                f"beside this model is not known: name one with --spec-draft-model and --spec-type "
                f"draft-mtp (llama.cpp#23398)"
            )
        if model.assistant_params_b and not (asked is None and drafters.refusal(facts)):
            return f"{apart}, for which no launch on {facts.engine} is known here"
    return methods.unlisted_words(facts, model)


def title(method: str) -> str:
    """Return the method's name for a text."""
    return drafters.TITLES.get(method, method.upper())


def from_drafter(facts: Facts, plan: Plan) -> list[Reason]:
    """Which published drafter the plan uses, and what is said of it elsewhere."""
    known, request = drafters.of_plan(facts, plan), facts.request
    if known is None:
        suffix = request is not None and request.method == "suffix"
        return [reason(SUFFIX, "vllm-0.33-source", weight=1.25)] if suffix else []
    how = f"{title(known.method)}'s in general, not its own"
    more = "; pass --acceptance or --acceptance-length to use your own"
    if request is not None and (request.acceptance or request.acceptance_length) is not None:
        how, more = "as you gave it", ""
    name = f"inside {known.repository}" if known.inside else known.repository
    publisher, _, _ = known.repository.partition("/")
    who = "" if known.target.startswith(f"{publisher}/") else f", published by {publisher}"
    terms = f"; licence: {known.licence}" if known.licence else ""
    text = f"Drafter {name}{who}; acceptance {how}; made for {known.target}{more}{terms}"
    reasons = [reason(text, *known.sources[:1], weight=1.15)]
    usable = (row for row in drafters.usable(facts) if row.target == known.target)
    others = ", ".join(row.repository for row in usable if row is not known)
    k = known.k if known.k != plan.k else None
    parts = (
        f"reported: {known.reported}" if known.reported else "",
        f"served with {k} draft token{'s' if k != 1 else ''}" if k else "",
        known.note,
        *(f"other evidence: {conflict}" for conflict in known.conflicts),
        f"also published: {others}" if others else "",
    )
    if note := "; ".join(part for part in parts if part):
        reasons.append(reason(f"Of this drafter: {note}", *known.sources, weight=0.45))
    return reasons
