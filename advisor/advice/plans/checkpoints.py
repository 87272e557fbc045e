"""Which repository a launch names: a published quantisation, or the 16 bit weights quantised while
they are loaded.

What it does not know: repositories that no source of knowledge/llms lists, and what a private one
holds.
"""

from __future__ import annotations

from typing import NamedTuple

from advisor import engines
from advisor.domain.nouns import LLM, Checkpoint, Facts, Hardware, Quant, Request
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge

PLACEHOLDER_ORG = "YOUR-ORG/"  # before the name of a checkpoint that nobody is known to publish
FULL = "bf16"
KEPT = sourced(
    0.9,
    "share of the usable memory",
    "16 bit weights may take it while they are quantised on the card",
    "assumed",
)


class Reference(NamedTuple):
    """What a launch names: the model, and the value of --quantization where it is needed."""

    model: str
    quantization: str | None = None
    known: bool = True


def reference(facts: Facts, method: str) -> Reference:
    """The repository that holds the model at this quantisation; else the 16 bit one that the engine
    quantises at load; else a visible placeholder.
    """
    model, quant = facts.model, facts.quant
    own = own_name(facts.request)
    if own is not None and quant is not None and _loads_form(facts.engine, own):
        made = quant.id in traits(facts.engine).quantizes_at_load
        named = knowledge.quant_from_text(own)
        return Reference(own, quant.id if made and named is None else None)
    if model is not None and quant is not None:
        found = knowledge.checkpoint(model, quant, facts.engine, method)
        if found is not None:
            return Reference(address(found))
        full = at_load(model, quant, facts.engine or "", facts.hardware, facts.gpus, method)
        if full is not None:
            return Reference(address(full), quant.id)
    name = model.name or model.id if model is not None else "MODEL"
    word = (quant.id if quant is not None else "QUANT").upper()
    return Reference(f"{PLACEHOLDER_ORG}{name.replace(' ', '-')}-{word}", known=False)


def own_name(request: Request | None) -> str | None:
    """The repository or folder that was asked for by name where it is none of the published ones: a
    fine-tune or a copy, which is served by its own name.
    """
    name = request.model.strip() if request is not None else ""
    if "/" not in name or "://" in name or len(name) > 400:
        return None
    if name.endswith("/config.json"):
        return name.removesuffix("/config.json")  # the folder is what an engine takes
    published = knowledge.index()["repositories"]
    return None if name.partition(":")[0].lower() in published else name


def _loads_form(engine: str | None, name: str) -> bool:
    """Whether the engine loads what the name speaks of: GGUF files or a folder of tensors."""
    known = engines.canonical(engine or "")
    return known is not None and traits(known).gguf == ("gguf" in name.lower())


def address(found: Checkpoint) -> str:
    """A checkpoint as an engine takes it: the repository, with the file of a GGUF behind a
    colon.
    """
    return found.repository if found.file is None else f"{found.repository}:{found.file}"


def at_load(
    model: LLM, quant: Quant, engine: str, hw: Hardware | None, gpus: int, method: str
) -> Checkpoint | None:
    """The 16 bit checkpoint that the engine can turn into this quantisation while it loads; None
    where it cannot, or where the 16 bit weights alone would not fit the cards.
    """
    known = engines.canonical(engine)
    if known is None or quant.id not in traits(known).quantizes_at_load:
        return None
    found = knowledge.checkpoint(model, FULL, engine, method)
    memory = hw.memory_gb.value if hw is not None and hw.memory_gb is not None else None
    if found is None or memory is None or model.total_params_b is None:
        return None
    return found if 2 * model.total_params_b <= KEPT * memory * gpus else None


def available(
    model: LLM, quant: Quant, engine: str, hw: Hardware | None = None, gpus: int = 1
) -> bool:
    """Whether a launch of this quantisation can name a repository that exists."""
    return (
        knowledge.checkpoint(model, quant, engine, "none") is not None
        or at_load(model, quant, engine, hw, gpus, "none") is not None
    )


def others(model: LLM, engine: str, hw: Hardware, tried: tuple[str, ...]) -> tuple[Quant, ...]:
    """Published quantisations beyond those `tried` that the engine and the accelerator run, most
    bits first.
    """
    ids = dict.fromkeys(found.quant for found in knowledge.checkpoints(model))
    quants = [knowledge.quant(name) for name in ids if name not in tried]
    runs = [
        quant
        for quant in quants
        if (not quant.engines or engine in quant.engines)
        and (not quant.archs or hw.arch in quant.archs)
        and knowledge.checkpoint(model, quant, engine, "none") is not None
    ]
    return tuple(sorted(runs, key=lambda quant: -(quant.bits or 0.0)))
