"""What a question leaves open: the engine and its release, by knowledge/defaults.yaml, and the
quantisation: the first preferred one that fits and that somebody publishes.
"""

from functools import lru_cache

from advisor import engines, rules
from advisor.advice.plans import checkpoints, limits, methods, propose
from advisor.advice.plans.limits import FEW, FOUR_BITS, SLOTS
from advisor.domain.nouns import (
    AS_ASKED,
    AdvisorError,
    Case,
    Facts,
    Hardware,
    Plan,
    Quant,
    Request,
    UnknownFact,
)
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import first_row, hardware_words
from advisor.perf import memory

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
        image = "that has an image" if has_image else "with an image; none is known"
        why = f"newest catalogued version {image} for this hardware"
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
        quant_of_repository(facts, request)
        if request.quant is None
        else knowledge.quant(request.quant)
    )
    what, needs = (quant.id, quant.engines) if quant is not None else ("", ())
    if "gguf" in request.model.lower():  # whose steps may have names that other engines know, too
        loads = tuple(name for name in needs or engines.ENGINES if gguf_engine(name))
        if not loads:
            raise AdvisorError(f"no GGUF holds {what}: give the type of its tensors with --quant")
        what, needs = what if loads == needs else f"a GGUF of {what}", loads
    if request.engine is not None:
        engine = engines.get(request.engine).name
        if needs and engine not in needs:
            raise AdvisorError(f"{what} does not run on {engine}: it needs {' or '.join(needs)}")
        fork = gguf_engine(engine) and request.engine.lower().startswith("ik")
        return engine, [("engine", engine, IK_LLAMA)] if fork else [], None
    engine, why = engine_default(facts.hardware)
    if needs and engine not in needs:
        known = [name for name in needs if engines.canonical(name)]
        if not known:
            raise AdvisorError(
                f"{what} needs {' or '.join(needs)}, for which no launches are written: choose "
                f"another --quant"
            )
        engine, why = known[0], f"{what} runs on {' and '.join(known)} only"
    elif not gguf_engine(engine) and quant is None:
        one = facts.replace(engine=engine, concurrency=1)
        usual = quant_default(one)
        if (instead := _gguf_instead(facts, one.replace(quant=usual[0]))) is None:
            return engine, [("engine", engine, why)], usual
        engine, why = "llama-server", instead
    return engine, [("engine", engine, why)], None


def _gguf_instead(facts: Facts, here: Facts) -> str | None:
    """Why a GGUF in llama-server is the answer: nothing that this engine runs well here fits or is
    published, or it holds fewer requests than a server needs. None: the engine stays. `here`: with
    the engine and its usual quantisation, for one request.
    """
    hardware, engine = facts.device, here.engine
    named, small = checkpoints.available(here), fits(here) is not False
    if named and small and holds_slots(here.replace(concurrency=SLOTS)):
        return None
    gguf = facts.replace(engine="llama-server", concurrency=1)
    quant = quant_default(gguf.replace(concurrency=facts.concurrency))[0]
    other, wide = gguf.replace(quant=quant), (quant.bits or 0.0) >= FOUR_BITS
    if fits(other) is not True or not (wide or facts.load <= FEW):
        return None  # many are served worse so than told how many GPUs they need
    if not small:
        return (
            f"no quantisation that {engine} runs well here fits into {facts.gpus} x "
            f"{hardware.name or hardware.id}; a GGUF does"
        )
    if not checkpoints.available(other):
        return None
    if not named:
        return f"no checkpoint that {engine} runs here is known; a GGUF is"
    if not (wide and holds_slots(other.replace(concurrency=SLOTS))):
        return None
    length = (facts.ctx_tokens or 0) + (facts.output_tokens or 0)
    # what is published of the speed of both engines on such hardware
    beside = first_row("beside", hardware_words(hardware) | {"family": facts.llm.family})["why"]
    return (
        f"{engine} holds fewer than {SLOTS} requests of {length} tokens here; with a GGUF they run "
        f"at once ({beside}); --engine {engine} keeps {engine}"
    )


# ---------------------------------------------------------------- the quantisation


@lru_cache(maxsize=64)  # asked of one quantisation up to five times
def fits(facts: Facts) -> bool | None:
    """Do the requests fit beside the weights? None where memory or sizes are not known."""
    # the very plans that would be proposed: their limits decide, and not every number of
    # ranks divides the heads
    if (plans := _plans(facts)) is None:
        return None
    alone = (plan for plan in plans if plan.dp == 1 or plan.engine in memory.SERVERS)
    fit = [_holds(facts, plan) for plan in alone]
    return True if True in fit else None if None in fit else False


def holds_slots(facts: Facts) -> bool:
    """Whether some layout holds the requests, and beside the head too; True where unknown."""
    plans, slots = _plans(facts), facts.load
    for plan in plans or ():
        arms = [plan]
        if facts.llm.mtp_layers and propose.no_path(facts, plan, "mtp") is None:
            middle = propose.middle_of(methods.k_values(facts, "mtp"))
            arms.append(propose.with_method(facts, plan, "mtp", middle))
        if all((arm.max_num_seqs or slots) * arm.dp >= slots for arm in arms):
            return True
    return plans is None


def _plans(facts: Facts) -> list[Plan] | None:
    """The plan without speculation of each layout; None where nothing can be planned."""
    try:
        return [propose.base_plan(facts, split) for split in propose.splits(facts)]
    except AdvisorError:
        return None


def _holds(facts: Facts, plan: Plan) -> bool | None:
    """Whether it fits with all slots and the head, in a format with kernels (SD215, SD272)."""
    plain, slots = memory.bill(facts, plan).fits, facts.load
    if plain and traits(plan.engine).pool == "slots" and (plan.max_num_seqs or slots) < slots:
        return False
    if plain and facts.llm.mtp_layers:
        head = {"method": "mtp", "k": 1, "max_num_seqs": 1, "max_model_len": limits.context(facts)}
        plain = memory.bill(facts, plan.replace(**head)).fits
    if not plain or facts.quant is None or gguf_engine(plan.engine):
        return plain
    case = Case(facts=facts, plan=plan, launch=engines.get(plan.engine).to_launch(plan))
    findings = rules.check(case, select=("SD215", "SD272"))[0]
    return all(finding.severity != "error" and finding.code != "SD272" for finding in findings)


def quant_default(facts: Facts) -> tuple[Quant, str]:
    """The first preferred quantisation that fits (all requests in llama-server), and why."""
    chosen, why = _first_fit(facts.replace(concurrency=1))
    reserved, slots = traits(facts.engine).pool == "slots", facts.load
    if not reserved or slots == 1 or not fits(facts.replace(quant=chosen, concurrency=1)):
        return chosen, why
    roomy, roomy_why = _first_fit(facts)
    if roomy.id == chosen.id or (roomy.bits or 0.0) < FOUR_BITS:
        return chosen, why
    return (roomy, roomy_why) if fits(facts.replace(quant=roomy)) else (chosen, why)


def _first_fit(facts: Facts) -> tuple[Quant, str]:
    model, hardware, slots = facts.model, facts.hardware, facts.load
    assert model is not None and hardware is not None and facts.engine is not None  # weighed
    words = {**hardware_words(hardware), "engine": facts.engine, "family": model.family}
    row = first_row("quant", words)
    choices, why = [knowledge.quant(name) for name in row["quants"]], str(row["why"])
    all_slots = f" with all {slots} slots" if slots > 1 else ""
    # what is quantised at every start comes last where that is much
    choices.sort(key=lambda choice: checkpoints.made_late(facts.replace(quant=choice)))
    large: list[str] = []
    unnamed: list[str] = []  # they fit, but nobody is known to publish them
    for choice in choices:
        asked = facts.replace(quant=choice)
        fit = fits(asked)
        if fit is False:
            large.append(choice.id)
        elif not checkpoints.available(asked):
            unnamed.append(choice.id)
        elif fit is None:
            return choice, f"{why}; not checked against the memory, because a size is not known"
        elif unnamed:
            return choice, f"no checkpoint in {' or '.join(unnamed)} is known"
        else:
            if large:
                why = f"best choice that fits{all_slots}; {' and '.join(large)} would not"
            plain = knowledge.checkpoint(model, choice, facts.engine, "none") is None
            return choice, f"{why}; made of the 16 bit weights at load" if plain else why
    names = tuple(choice.id for choice in choices)
    if not unnamed:
        return choices[-1], f"the smallest of {', '.join(names)}; none fits"
    nobody = f"no checkpoint in {' or '.join(unnamed)} is known"
    for other in checkpoints.others(model, facts.engine, hardware, names):
        if fits(facts.replace(quant=other)) is not False:
            return other, f"{nobody}: the largest published one that fits{all_slots}"
    published = checkpoints.others(model, facts.engine, hardware, ())
    if published:  # too large: said, rather than a launch of what nobody publishes
        return published[-1], f"{nobody}, and the smallest published one does not fit"
    return knowledge.quant(unnamed[0]), nobody


def quant_of_repository(facts: Facts, request: Request) -> Quant | None:
    """The quantisation that a model's own file tells, else its name; the usual step for a plain
    name of GGUF.
    """
    own = [row.quant for row in facts.llm.checkpoints if row.source == AS_ASKED]
    if len(own) == 1:  # 16 bits are what it has, not what it is served with
        return None if own[0] == checkpoints.FULL else knowledge.quant(own[0])
    named = knowledge.quant_from_text(request.model)
    if named is None and "gguf" in request.model.lower():
        return knowledge.quant(str(first_row("quant", {"engine": "llama-server"})["quants"][0]))
    return named
