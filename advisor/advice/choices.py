"""What a question leaves open and the hardware decides: the engine and its release.

The engine is that of the hardware, unless it cannot run what is asked or what fits. The order of
preference is data (knowledge/defaults.yaml). What it does not know: what is installed on the
machine.
"""

from __future__ import annotations

from advisor import engines
from advisor.advice.plans import checkpoints
from advisor.advice.plans.limits import FOUR_BITS, SLOTS
from advisor.advice.quantisations import fits, holds_slots, quant_default, quant_of_repository
from advisor.domain.nouns import LLM, AdvisorError, Hardware, Request, UnknownFact
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
    adapter = engines.get(engine)
    if request.engine_version:
        match = adapter.resolve_version(request.engine_version)
        if match.version is None:
            known = adapter.versions
            if match.too_old or not gguf_engine(engine):
                raise UnknownFact(
                    "engine version",
                    f"{engine} {request.engine_version}",
                    (known[-1], known[0]),
                    match.note,
                )
            return None, [
                (
                    "engine_version",
                    "unknown",
                    match.note or f"{request.engine_version} is not catalogued",
                )
            ]
        if match.version != request.engine_version.lstrip("v"):
            return match.version, [
                (
                    "engine_version",
                    match.version,
                    match.note or f"read from '{request.engine_version}'",
                )
            ]
        return match.version, []
    version, has_image = adapter.usual(hw)
    why = (
        "newest catalogued version that has an image for this hardware"
        if has_image
        else "newest catalogued version with an image; none is known for this hardware"
    )
    return version, [("engine_version", adapter.label(version), why)]


def engine_for(request: Request, hw: Hardware, model: LLM) -> tuple[str, list[Default]]:
    """The engine asked for, else the default of the hardware unless it cannot run what is asked or
    what fits.
    """
    asked = (
        knowledge.quant(request.quant)
        if request.quant is not None
        else quant_of_repository(request)
    )
    if request.engine is not None:
        engine = engines.get(request.engine).name
        if asked is not None and asked.engines and engine not in asked.engines:
            raise AdvisorError(
                f"{asked.id} does not run on {engine}: it needs {' or '.join(asked.engines)}"
            )
        fork = gguf_engine(engine) and request.engine.lower().startswith("ik")
        return engine, [("engine", engine, IK_LLAMA)] if fork else []
    engine, why = engine_default(hw)
    if asked is not None and asked.engines and engine not in asked.engines:
        known = [name for name in asked.engines if engines.canonical(name)]
        if not known:
            raise AdvisorError(
                f"{asked.id} needs {' or '.join(asked.engines)}, for which no launches are "
                f"written: choose another --quant"
            )
        engine, why = known[0], f"{asked.id} runs on {' and '.join(known)} only"
    elif not gguf_engine(engine) and asked is None:
        instead = _gguf_instead(request, hw, model, engine)
        engine, why = ("llama-server", instead) if instead is not None else (engine, why)
    return engine, [("engine", engine, why)]


def _gguf_instead(request: Request, hw: Hardware, model: LLM, engine: str) -> str | None:
    """Why a GGUF in llama-server is the answer: nothing that this engine runs well here fits, or
    nobody is known to publish what would, or it holds fewer requests than a server needs. None
    where the engine can stay.
    """
    length, gpus = request.ctx_tokens + request.output_tokens, request.gpus
    slots = min(request.max_num_seqs or SLOTS, SLOTS)
    here = quant_default(hw, model, engine, gpus, length)[0]
    named = checkpoints.available(model, here, engine, hw, gpus)
    small = fits(hw, model, here, engine, gpus, length) is not False
    if named and small and holds_slots(hw, model, here, engine, gpus, length, slots):
        return None
    other = quant_default(hw, model, "llama-server", gpus, length, request.concurrency)[0]
    if fits(hw, model, other, "llama-server", gpus, length) is not True:
        return None
    if named and small:
        better = (
            (other.bits or 0.0) >= FOUR_BITS
            and checkpoints.available(model, other, "llama-server")
            and holds_slots(hw, model, other, "llama-server", gpus, length, slots)
        )
        return (
            f"{engine} holds fewer than {slots} requests of {length} tokens here; with a GGUF "
            f"they run at once ({_beside(hw, model)}); --engine {engine} keeps {engine}"
            if better
            else None
        )
    if not small:
        machine = f"{request.gpus} x {hw.name or hw.id}"
        return f"no quantisation that {engine} runs well here fits into {machine}; a GGUF does"
    if not checkpoints.available(model, other, "llama-server"):
        return None
    return f"no checkpoint that {engine} runs here is known; a GGUF is"


def _beside(hw: Hardware, model: LLM) -> str:
    """What is published of the speed of both engines on such hardware."""
    words = hardware_words(hw) | {"family": model.family or ""}
    return str(first_row("beside", words)["why"])
