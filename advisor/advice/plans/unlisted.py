"""Speculation that this catalogue has no launch for, but that nobody has said to be impossible:
such an answer is to measure, not off.
"""

from __future__ import annotations

from advisor.advice.plans import methods
from advisor.domain.nouns import LLM, Facts
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters, heads
from advisor.knowledge.drafters import asked_method


def is_open(facts: Facts) -> bool:
    """Whether the model may speculate here in a way that no launch is known for."""
    model, asked = facts.model, asked_method(facts)
    if model is None or methods.methods(facts):
        return False
    if asked in (None, "mtp"):
        if model.assistant or model.assistant_params_b:
            return False  # what it drafts with is known, and why not here
        if heads.head(model).has is not False:
            return True
    if any(asked in (None, d.method) and facts.engine in d.engines for d in facts.drafters):
        return False  # the same
    return bool(measurements(facts))


def words(facts: Facts, model: LLM) -> str:
    """What is known of the head and of drafters of a model that no method is listed for."""
    asked = asked_method(facts)
    title = drafters.TITLES.get(asked or "", (asked or "").upper())
    name, known_head = model.name or model.id, heads.head(model)
    head = f"{name} has no MTP head"
    if asked not in (None, "mtp"):
        head = ""
    elif known_head.has:
        head = (
            f"{name} has an MTP head ({known_head.source}) whose layers were not read here, so "
            "that no gain is estimated: give --model ./config.json of the checkpoint"
        )
    elif known_head.has is None:
        head = (
            f"whether {name} has an MTP head is not known here (look for mtp.* tensors in the "
            "checkpoint, or give --model ./config.json)"
        )
    listed = drafters.refusal(facts, asked) or "no drafter of it is listed here"
    parts = [f"{title} was requested: {head or listed}" if asked else f"{head}, and {listed}"]
    known = measurements(facts)
    if known:
        parts.append("others measured " + ", ".join(row.words for row in known))
    if known and asked != "mtp":
        sglang = facts.engine == "sglang"
        option = "--speculative-draft-model-path" if sglang else "--speculative-config"
        option = "--spec-draft-model" if gguf_engine(facts.engine) else option
        parts.append(f"a launch names a drafter with {option}")
    return "; ".join(parts)


def measurements(facts: Facts) -> tuple[heads.Measured, ...]:
    """What others measured with the model, on this engine or anywhere."""
    assert facts.model is not None
    asked = asked_method(facts)
    engine = facts.engine if drafters.refusal(facts, asked) else None
    rows = heads.measurements(facts.model.id, engine)
    return tuple(row for row in rows if asked in (None, row.method))
