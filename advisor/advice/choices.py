"""What a question leaves open and the hardware decides: quantisation, engine and release.

The quantisation is the first preferred one that fits and that somebody publishes; the engine is
that of the hardware, unless it cannot run what is asked or what fits. The order of preference is
data (knowledge/defaults.yaml). What it does not know: what is installed on the machine, and how
good a quantisation's answers are.
"""

from __future__ import annotations

from typing import Any

from advisor import engines, rules
from advisor.advice.plans import checkpoints, limits, propose
from advisor.advice.plans.limits import FOUR_BITS, SLOTS
from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    Case,
    Facts,
    Hardware,
    Plan,
    Quant,
    Request,
    UnknownFact,
)
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import store as knowledge
from advisor.perf import memory

IK_LLAMA = (
    "no launches are written for ik_llama.cpp: this is for llama.cpp's own server, and the "
    "fork's options for drafts differ"
)
USUAL_LENGTH = sourced(
    4096, "tokens", "own choice: a request that a quantisation must leave room for", "assumed"
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


def fits(
    hw: Hardware,
    model: LLM,
    quant: Quant,
    engine: str,
    gpus: int,
    length: int = USUAL_LENGTH,
    slots: int = 1,
) -> bool | None:
    """Do `slots` requests of `length` tokens fit beside the weights? None where memory or sizes are
    not known.
    """
    facts = _facts(hw, model, quant, engine, gpus, length, slots)
    # the very plans that would be proposed: their limits decide, and not every number of
    # ranks divides the heads
    try:
        plans = [propose.base_plan(facts, split) for split in propose.splits(facts)]
    except AdvisorError:
        return None
    plans = [plan for plan in plans if plan.dp == 1 or engine in memory.SERVERS]
    found = [_holds(facts, plan, slots) and _loads(facts, plan) for plan in plans]
    return True if True in found else None if None in found else False


def _facts(
    hw: Hardware, model: LLM, quant: Quant, engine: str, gpus: int, length: int, slots: int
) -> Facts:
    """`slots` requests of `length` tokens on this machine, and nothing else said."""
    return Facts(
        hardware=hw,
        model=model,
        shape=knowledge.known_shape(model),
        quant=quant,
        engine=engine,
        gpus=gpus,
        concurrency=slots,
        ctx_tokens=max(length - 1, 1),
        output_tokens=1,
    )


def holds_slots(
    hw: Hardware, model: LLM, quant: Quant, engine: str, gpus: int, length: int, slots: int
) -> bool:
    """Whether one replica holds `slots` requests of `length` tokens, and beside the model's own
    head as well; True where memory or sizes are not known.
    """
    facts = _facts(hw, model, quant, engine, gpus, length, slots)
    try:
        plan = propose.base_plan(facts, propose.splits(facts)[0])
    except AdvisorError:
        return True
    arms = [plan]
    if model.mtp_layers and propose.no_path(facts, plan, "mtp") is None:
        middle = propose.middle_k(facts, "mtp")
        arms.append(propose.with_method(facts, plan, "mtp", middle))
    return all((arm.max_num_seqs or slots) >= slots for arm in arms)


def _holds(facts: Facts, plan: Plan, slots: int) -> bool | None:
    """Whether the plan fits with all slots where they are reserved, and the model's own head beside
    one request: the head is no reason to take a worse model for the rest of them.
    """
    plain = memory.bill(facts, plan).fits
    if plain and traits(plan.engine).pool == "slots" and (plan.max_num_seqs or slots) < slots:
        return False
    if not plain or not facts.model or not facts.model.mtp_layers:
        return plain
    head = plan.model_copy(update={"method": "mtp", "k": 1, "max_num_seqs": 1})
    needed = limits.context(facts)
    return memory.bill(facts, head.model_copy(update={"max_model_len": needed})).fits


def _loads(facts: Facts, plan: Plan) -> bool:
    """Whether the shards of the plan hold whole blocks of a block-FP8 checkpoint, which is not
    loaded otherwise (SD215).
    """
    if facts.quant is None or facts.quant.id != "fp8" or plan.tp == 1:
        return True
    return not any(
        f.severity == "error"
        for f in rules.check(
            Case(facts=facts, plan=plan, launch=engines.get(plan.engine).to_launch(plan)),
            select=("SD215",),
        )[0]
    )


def quant_default(
    hw: Hardware, model: LLM, engine: str, gpus: int, length: int = USUAL_LENGTH, slots: int = 1
) -> tuple[Quant, str]:
    """The first of the preferred quantisations that fits (else the smallest), and why. `length`:
    tokens per request.

    llama-server takes the context of all `slots` at the start: where those do not fit, the next one
    that still has four bits.
    """
    chosen, why = _first_fit(hw, model, engine, gpus, length, 1)
    if (
        traits(engine).pool != "slots"
        or slots == 1
        or not fits(hw, model, chosen, engine, gpus, length)
    ):
        return chosen, why
    roomy, told = _first_fit(hw, model, engine, gpus, length, slots)
    holds = (roomy.bits or 0.0) >= FOUR_BITS and fits(hw, model, roomy, engine, gpus, length, slots)
    return (roomy, told) if holds and roomy.id != chosen.id else (chosen, why)


def _first_fit(
    hw: Hardware, model: LLM, engine: str, gpus: int, length: int, slots: int
) -> tuple[Quant, str]:
    found = first_row("quant", {**hardware_words(hw), "engine": engine, "family": model.family})
    choices = [knowledge.quant(name) for name in found["quants"]]
    why = str(found["why"])
    all_slots = f" with all {slots} slots" if slots > 1 else ""
    large: list[str] = []
    unnamed: list[Quant] = []  # they fit, but nobody is known to publish them
    for choice in choices:
        fit = fits(hw, model, choice, engine, gpus, length, slots)
        if fit is False:
            large.append(choice.id)
        elif not checkpoints.available(model, choice, engine, hw, gpus):
            unnamed.append(choice)
        elif fit is None:
            return choice, f"{why}; not checked against the memory, because a size is not known"
        elif unnamed:
            return choice, f"no checkpoint in {' or '.join(c.id for c in unnamed)} is known"
        else:
            larger = " and ".join(large)
            told = f"best choice that fits{all_slots}; {larger} would not" if larger else why
            made = knowledge.checkpoint(model, choice, engine, "none") is None
            return choice, f"{told}; made of the 16 bit weights at load" if made else told
    if not unnamed:
        return choices[-1], f"the smallest of {', '.join(c.id for c in choices)}; none fits"
    nobody = f"no checkpoint in {' or '.join(c.id for c in unnamed)} is known"
    for other in checkpoints.others(model, engine, hw, tuple(c.id for c in choices)):
        if fits(hw, model, other, engine, gpus, length, slots) is not False:
            return other, f"{nobody}: the largest published one that fits{all_slots}"
    published = checkpoints.others(model, engine, hw, ())
    if published:  # too large: said, rather than a launch of what nobody publishes
        return published[-1], f"{nobody}, and the smallest published one does not fit"
    return unnamed[0], nobody


def quant_of_repository(request: Request) -> Quant | None:
    """The quantisation that the name of a model or repository tells; for one of GGUF files that
    names none, the usual step.
    """
    named = knowledge.quant_from_text(request.model)
    if named is None and "gguf" in request.model.lower():
        return knowledge.quant(str(first_row("quant", {"engine": "llama-server"})["quants"][0]))
    return named


Row = dict[str, Any]

Default = tuple[str, str, str]  # field, value chosen, why


def _matches(when: dict[str, list[str]], facts: dict[str, str]) -> bool:
    for name, allowed in when.items():
        value = facts.get(name, "")
        fits = any(value.startswith(a) for a in allowed) if name == "arch" else value in allowed
        if not fits:
            return False
    return True


def first_row(table: str, facts: dict[str, str]) -> Row:
    """The first row of a table that holds for these words."""
    rows: list[Row] = knowledge.index()["defaults"][table]
    return next(
        row for row in rows if _matches(row["when"], facts)
    )  # the last row has no condition


def hardware_words(hw: Hardware) -> dict[str, str]:
    """What the conditions ask of the hardware."""
    return {"vendor": hw.vendor, "arch": hw.arch, "hardware_class": hw.hardware_class}
