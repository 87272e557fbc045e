"""What a question leaves open: the engine and its release, by knowledge/defaults.yaml."""

from __future__ import annotations

from advisor import engines
from advisor.advice.plans import checkpoints
from advisor.advice.plans.limits import FEW, FOUR_BITS, SLOTS
from advisor.advice.quantisations import (
    fits,
    holds_slots,
    quant_default,
    quant_of_repository,
    with_fields,
)
from advisor.domain.nouns import AdvisorError, Facts, Hardware, Quant, Request, UnknownFact
from advisor.engines.traits import gguf_engine
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import first_row, hardware_words

Default = tuple[str, str, str]  # field, value chosen, why
IK_LLAMA = (
    "no launches are written for ik_llama.cpp: this is for llama.cpp's own server, and the "
    "fork's options for drafts differ"
)


def engine_default(hw: Hardware) -> tuple[str, str]:
    """The engine for this hardware and why."""
    row = first_row("engine", hardware_words(hw))
    return str(row["engine"]), str(row["why"])


def version_for(request: Request, engine: str, hw: Hardware) -> tuple[str | None, list[Default]]:
    """The engine version to write for: the one asked for, else the newest that has an image."""
    adapter, asked = engines.get(engine), request.engine_version
    if not asked:
        version, has_image = adapter.usual(hw)
        why = "newest catalogued version with an image; none is known for this hardware"
        if has_image:
            why = "newest catalogued version that has an image for this hardware"
        return version, [("engine_version", adapter.label(version), why)]
    match = adapter.resolve_version(asked)
    if match.version is None:
        if match.too_old or not gguf_engine(engine):
            known = (adapter.versions[-1], adapter.versions[0])
            raise UnknownFact("engine version", f"{engine} {asked}", known, match.note)
        return None, [("engine_version", "unknown", match.note or f"{asked} is not catalogued")]
    if match.version == asked.lstrip("v"):
        return match.version, []
    return match.version, [("engine_version", match.version, match.note or f"read from '{asked}'")]


def engine_for(
    facts: Facts, request: Request
) -> tuple[str, list[Default], tuple[Quant, str] | None]:
    """The engine asked for, else the hardware's unless it cannot run what is asked or fits; and its
    usual quantisation, where that was weighed.
    """
    assert facts.hardware is not None  # of a question
    quant = (
        quant_of_repository(request) if request.quant is None else knowledge.quant(request.quant)
    )
    needs = quant.engines if quant is not None else ()
    if request.engine is not None:
        engine = engines.get(request.engine).name
        if quant is not None and needs and engine not in needs:
            raise AdvisorError(
                f"{quant.id} does not run on {engine}: it needs {' or '.join(needs)}"
            )
        fork = gguf_engine(engine) and request.engine.lower().startswith("ik")
        return engine, [("engine", engine, IK_LLAMA)] if fork else [], None
    engine, why = engine_default(facts.hardware)
    if quant is not None and needs and engine not in needs:
        known = [name for name in needs if engines.canonical(name)]
        if not known:
            raise AdvisorError(
                f"{quant.id} needs {' or '.join(needs)}, for which no launches are "
                f"written: choose another --quant"
            )
        engine, why = known[0], f"{quant.id} runs on {' and '.join(known)} only"
    elif not gguf_engine(engine) and quant is None:
        one = with_fields(facts, engine=engine, concurrency=1)
        usual = quant_default(one)
        instead = _gguf_instead(facts, with_fields(one, quant=usual[0]), SLOTS)
        if instead is None:
            return engine, [("engine", engine, why)], usual
        engine, why = "llama-server", instead
    return engine, [("engine", engine, why)], None


def _gguf_instead(facts: Facts, here: Facts, slots: int) -> str | None:
    """Why a GGUF in llama-server is the answer: nothing that this engine runs well here fits or is
    published, or it holds fewer requests than a server needs. None: the engine stays. `here`: with
    the engine and its usual quantisation, for one request.
    """
    hardware, engine = facts.hardware, here.engine
    assert hardware is not None and facts.model is not None  # of a question
    named, small = checkpoints.available(here), fits(here) is not False
    if named and small and holds_slots(with_fields(here, concurrency=slots)):
        return None
    gguf = with_fields(facts, engine="llama-server")
    other = with_fields(gguf, quant=quant_default(gguf)[0], concurrency=1)
    below = other.quant is not None and (other.quant.bits or 0.0) < FOUR_BITS
    if fits(other) is not True or (below and (facts.concurrency or 1) > FEW):
        return None  # many are served worse so than told how many GPUs they need
    published = checkpoints.available(other)
    if named and small:
        wide = other.quant is not None and (other.quant.bits or 0.0) >= FOUR_BITS
        if not (wide and published and holds_slots(with_fields(other, concurrency=slots))):
            return None
        length = (facts.ctx_tokens or 0) + (facts.output_tokens or 0)
        words = hardware_words(hardware) | {"family": facts.model.family or ""}
        return (  # with what is published of the speed of both engines on such hardware
            f"{engine} holds fewer than {slots} requests of {length} tokens here; with a GGUF "
            f"they run at once ({first_row('beside', words)['why']}); --engine {engine} keeps "
            f"{engine}"
        )
    if not small:
        machine = f"{facts.gpus} x {hardware.name or hardware.id}"
        return f"no quantisation that {engine} runs well here fits into {machine}; a GGUF does"
    return f"no checkpoint that {engine} runs here is known; a GGUF is" if published else None
