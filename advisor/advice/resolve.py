"""From a question, or from a launch that was read, to Facts: every default is filled in here and
recorded with its reason.

What it does not know: whether the machine is free, and what the checkpoint really holds.
"""

from __future__ import annotations

from typing import Any, cast

from advisor import engines, rules
from advisor.advice.plans import checkpoints, limits, propose
from advisor.advice.plans import topology as linked
from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    Case,
    Checkpoint,
    Facts,
    Hardware,
    Launch,
    Plan,
    Quant,
    Request,
    UnknownFact,
    Workload,
)
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import drafters as knowledge_drafters
from advisor.knowledge import store as knowledge
from advisor.knowledge.evidence import nearest_pairs
from advisor.perf import memory

Row = dict[str, Any]
Default = tuple[str, str, str]  # field, value chosen, why
IK_LLAMA = (
    "no launches are written for ik_llama.cpp: this is for llama.cpp's own server, and the "
    "fork's options for drafts differ"
)
# below, quality falls faster than memory is won: nothing that is chosen for the sake of more
# slots
FOUR_BITS = 4.0


def _matches(when: dict[str, list[str]], facts: dict[str, str]) -> bool:
    for name, allowed in when.items():
        value = facts.get(name, "")
        fits = any(value.startswith(a) for a in allowed) if name == "arch" else value in allowed
        if not fits:
            return False
    return True


def _row(table: str, facts: dict[str, str]) -> Row:
    rows: list[Row] = knowledge.index()["defaults"][table]
    return next(
        row for row in rows if _matches(row["when"], facts)
    )  # the last row has no condition


def _hardware_words(hw: Hardware) -> dict[str, str]:
    return {"vendor": hw.vendor, "arch": hw.arch, "hardware_class": hw.hardware_class}


def engine_default(hw: Hardware) -> tuple[str, str]:
    """The engine for this hardware and why."""
    row = _row("engine", _hardware_words(hw))
    return str(row["engine"]), str(row["why"])


# ---------------------------------------------------------------- quantisation


def fits(
    hw: Hardware,
    model: LLM,
    quant: Quant,
    engine: str,
    gpus: int,
    length: int = 4096,
    slots: int = 1,
) -> bool | None:
    """Do `slots` requests of `length` tokens fit beside the weights? None where memory or sizes are
    not known.
    """
    facts = Facts(
        hardware=hw,
        model=model,
        shape=_shape(model),
        quant=quant,
        engine=engine,
        gpus=gpus,
        concurrency=slots,
        ctx_tokens=max(length - 1, 1),
        output_tokens=1,
    )
    # the very plans that would be proposed: their limits decide, and not every number of
    # ranks divides the heads
    try:
        plans = [propose.base_plan(facts, split) for split in propose.splits(facts)]
    except AdvisorError:
        return None
    plans = [plan for plan in plans if plan.dp == 1 or engine in memory.SERVERS]
    found = [_holds(facts, plan, slots) and _loads(facts, plan) for plan in plans]
    return True if True in found else None if None in found else False


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
    hw: Hardware, model: LLM, engine: str, gpus: int, length: int = 4096, slots: int = 1
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
    row = _row("quant", {**_hardware_words(hw), "engine": engine, "family": model.family})
    choices = [knowledge.quant(name) for name in row["quants"]]
    why = str(row["why"])
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
    return unnamed[0], nobody


# ---------------------------------------------------------------- requests


def _version(request: Request, engine: str, hw: Hardware) -> tuple[str | None, list[Default]]:
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
    for version in reversed(adapter.versions):
        if adapter.image(version, hw) is not None:
            return version, [
                (
                    "engine_version",
                    version,
                    "newest catalogued version that has an image for this hardware",
                )
            ]
    return adapter.newest, [
        (
            "engine_version",
            adapter.newest,
            "newest catalogued version; no image is known for this hardware",
        )
    ]


def _engine(request: Request, hw: Hardware, model: LLM) -> tuple[str, list[Default]]:
    """The engine asked for, else the default of the hardware unless it cannot run what is asked or
    what fits.
    """
    asked = (
        knowledge.quant(request.quant)
        if request.quant is not None
        else _quant_of_repository(request)
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


def _quant_of_repository(request: Request) -> Quant | None:
    """The quantisation that the name of a repository tells; for one of GGUF files that names none,
    the usual step.
    """
    if "/" not in request.model:
        return None
    named = knowledge.quant_from_text(request.model)
    if named is None and "gguf" in request.model.lower():
        return knowledge.quant(str(_row("quant", {"engine": "llama-server"})["quants"][0]))
    return named


def _gguf_instead(request: Request, hw: Hardware, model: LLM, engine: str) -> str | None:
    """Why a GGUF in llama-server is the answer: nothing that this engine runs well here fits, or
    nobody is known to publish what would. None where the engine can stay.
    """
    length = request.ctx_tokens + request.output_tokens
    here = quant_default(hw, model, engine, request.gpus, length)[0]
    named = checkpoints.available(model, here, engine, hw, request.gpus)
    small = fits(hw, model, here, engine, request.gpus, length) is not False
    if named and small:
        return None
    other = quant_default(hw, model, "llama-server", request.gpus, length, request.concurrency)[0]
    if fits(hw, model, other, "llama-server", request.gpus, length) is not True:
        return None
    if not small:
        machine = f"{request.gpus} x {hw.name or hw.id}"
        return f"no quantisation that {engine} runs well here fits into {machine}; a GGUF does"
    if not checkpoints.available(model, other, "llama-server"):
        return None
    return f"no checkpoint that {engine} runs here is known; a GGUF is"


def _quant(request: Request, hw: Hardware, model: LLM, engine: str) -> tuple[Quant, list[Default]]:
    if request.quant is not None:
        return knowledge.quant(request.quant), []
    named = _quant_of_repository(request)
    if named is not None:
        return named, [("quant", named.id, "read from the repository name")]
    length = request.ctx_tokens + request.output_tokens
    chosen, why = quant_default(hw, model, engine, request.gpus, length, request.concurrency)
    return chosen, [("quant", chosen.id, why)]


def _checkpoint(request: Request, model: LLM, quant: Quant, engine: str) -> Checkpoint | None:
    found = knowledge.checkpoint(model, quant, engine, "mtp")
    if found is None and "/" in request.model and "://" not in request.model:
        note = "As asked; what it holds was not read."
        return Checkpoint(
            quant=quant.id, repository=request.model, engines=(engine,), source="request", note=note
        )
    return found


def _temperature(
    request: Request, model: LLM, thinking: bool | None
) -> tuple[float | None, list[Default]]:
    if request.temperature is not None:
        return request.temperature, []
    value = knowledge.default_temperature(model, request.workload, thinking)
    if value is None:
        return None, []
    source = model.default_temperature.source if model.default_temperature else model.source
    return value, [
        ("temperature", f"{value:g}", f"recommended for this model and workload ({source})")
    ]


def _thinking(request: Request, model: LLM) -> tuple[bool | None, list[Default]]:
    if request.thinking is not None or model.thinking_default is None:
        return request.thinking, []
    return model.thinking_default, [
        ("thinking", "on" if model.thinking_default else "off", "the model's own default")
    ]


def _machine(request: Request) -> tuple[Hardware, list[Default]]:
    if request.hardware.strip().lower() != "auto":
        return knowledge.hardware(request.hardware), []
    from advisor.knowledge.detect import (
        detect,  # start-up: only where the hardware is asked of the machine
    )

    hw, count = detect()
    found: list[Default] = [
        ("hardware", hw.id, f"found on this machine: {count} x {hw.name or hw.id}")
    ]
    if count > request.gpus:
        found.append(
            (
                "gpus",
                str(request.gpus),
                f"this machine has {count}: give --gpus {count} to use them all",
            )
        )
    return hw, found


def _link(request: Request, hw: Hardware) -> tuple[str | None, list[Default]]:
    """The link between the accelerators, where it is asked for or where there is only one way to
    join them.
    """
    found = linked.link_default(hw, request.gpus) if request.interconnect is None else None
    return (request.interconnect, []) if found is None else (found[0], [("interconnect", *found)])


def facts_for_request(request: Request) -> Facts:
    """Everything known for a request. Raises UnknownFact (with the nearest names) or
    AdvisorError.
    """
    return with_evidence(bare_facts(request))


def bare_facts(request: Request) -> Facts:
    """The same without the measured pairs, which cost most of the time. Raises UnknownFact or
    AdvisorError.
    """
    hw, defaults = _machine(request)
    model = knowledge.llm(request.model)
    if model.is_class:
        raise AdvisorError(
            f"'{model.id}' stands for measured models whose names are not known, so no launch can "
            f"be written for it: name a model (advisor models list)"
        )
    own = checkpoints.own_name(request)
    if own is not None:
        what = (
            f"taken as {model.name or model.id}: shape, head and acceptance are assumed to be its"
        )
        defaults.append(("model", own, what))
    engine, more = _engine(request, hw, model)
    defaults += more
    version, more = _version(request, engine, hw)
    defaults += more
    quant, more = _quant(request, hw, model, engine)
    defaults += more
    thinking, more = _thinking(request, model)
    defaults += more
    temperature, more = _temperature(request, model, thinking)
    defaults += more
    link, more = _link(request, hw)
    defaults += more
    facts = Facts(
        request=request,
        hardware=hw,
        model=model,
        shape=_shape(model),
        quant=quant,
        checkpoint=_checkpoint(request, model, quant, engine),
        engine=engine,
        engine_version=version,
        gpus=request.gpus,
        tp=request.tp,
        concurrency=request.concurrency,
        ctx_tokens=request.ctx_tokens,
        output_tokens=request.output_tokens,
        workload=request.workload,
        temperature=temperature,
        thinking=thinking,
        prefix_share=request.prefix_share,
        goal=request.goal,
        interconnect=link,
        defaults=tuple(defaults),
    )
    return facts.model_copy(update={"drafters": knowledge.drafters(model)})


def with_evidence(facts: Facts) -> Facts:
    """The facts with the measured pairs nearest to them."""
    methods = _measured_methods(facts)
    each = 6 if len(methods) == 1 else 4
    found = (row for method in methods for row in nearest_pairs(facts, method, each))
    return facts.model_copy(update={"evidence": tuple(found)})


def _measured_methods(facts: Facts) -> tuple[str, ...]:
    """The methods that can be proposed here, whose measured pairs count; MTP where there are
    none.
    """
    asked = facts.request.method if facts.request is not None else None
    own = any(known is not None and known.mtp_layers for known in (facts.model, facts.shape))
    found = () if own or asked else knowledge_drafters.methods(facts)
    return found or (asked or "mtp",)


def _shape(model: LLM) -> LLM | None:
    try:
        return knowledge.shape_of(model)
    except AdvisorError:
        return None


# ---------------------------------------------------------------- launches


def launch_facts(
    launch: Launch,
    plan: Plan,
    *,
    hw: str | None = None,
    gpus: int | None = None,
    concurrency: int | None = None,
    ctx_tokens: int | None = None,
    output_tokens: int | None = None,
    workload: str | None = None,
) -> Facts:
    """What a launch tells, and what the caller adds. A part that neither tells is None: its rules
    are then skipped.
    """
    named = plan.model or launch.model or ""
    model = knowledge.llm_from_text(named) or knowledge.llm_from_text(plan.served_model_name or "")
    quant = _launch_quant(named, plan)
    hardware = knowledge.hardware(hw) if hw else None
    parallel = max(plan.tp, 1) * max(plan.pp, 1) * max(plan.dp, 1)
    facts = Facts(
        hardware=hardware,
        model=model,
        shape=_shape(model) if model else None,
        quant=quant,
        checkpoint=_known_checkpoint(model, named, quant),
        engine=launch.engine,
        engine_version=launch.engine_version,
        gpus=gpus or parallel,
        tp=plan.tp,
        concurrency=concurrency,
        ctx_tokens=ctx_tokens,
        output_tokens=output_tokens,
        workload=cast("Workload | None", workload),
        temperature=knowledge.default_temperature(model, workload) if model else None,
        thinking=model.thinking_default if model else None,
        drafters=knowledge.drafters(model) if model else (),
    )
    if hardware is None or model is None or plan.method == "none":
        return facts  # only what is said of speculation rests on measured pairs
    return facts.model_copy(update={"evidence": nearest_pairs(facts)})


def _launch_quant(named: str, plan: Plan) -> Quant | None:
    found = knowledge.quant_from_text(named)
    if plan.quantization and (found is None or found.id == checkpoints.FULL):  # made at load
        found = knowledge.quant_from_text(plan.quantization) or found
    return found


def _known_checkpoint(model: LLM | None, named: str, quant: Quant | None) -> Checkpoint | None:
    if model is None or not named:
        return None
    low = named.lower()
    same = [
        c
        for c in model.checkpoints
        if c.repository.lower() == low or low.startswith(c.repository.lower() + ":")
    ]
    return next(
        (c for c in same if quant is not None and c.quant == quant.id), same[0] if same else None
    )
