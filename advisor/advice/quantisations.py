"""The quantisation that a question leaves open: the first preferred one that fits and that somebody
publishes. The order of preference is data (knowledge/defaults.yaml).

What it does not know: how good a quantisation's answers are.
"""

from __future__ import annotations

from advisor import engines, rules
from advisor.advice.plans import checkpoints, limits, propose
from advisor.advice.plans.limits import FOUR_BITS
from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    Case,
    Facts,
    Finding,
    Hardware,
    Plan,
    Quant,
    Request,
)
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import first_row, hardware_words
from advisor.perf import memory

USUAL_LENGTH = sourced(
    4096, "tokens", "own choice: a request that a quantisation must leave room for", "assumed"
)


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
    found = [_holds(facts, plan, slots) and breaks_blocks(facts, plan) is None for plan in plans]
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
    """Whether the replicas of some layout hold `slots` requests of `length` tokens together, and
    beside the model's own head as well; True where memory or sizes are not known.
    """
    facts = _facts(hw, model, quant, engine, gpus, length, slots)
    try:
        plans = [propose.base_plan(facts, split) for split in propose.splits(facts)]
    except AdvisorError:
        return True
    return any(_room_for(facts, plan, slots) for plan in plans)


def _room_for(facts: Facts, plan: Plan, slots: int) -> bool:
    arms = [plan]
    if facts.model and facts.model.mtp_layers and propose.no_path(facts, plan, "mtp") is None:
        middle = propose.middle_k(facts, "mtp")
        arms.append(propose.with_method(facts, plan, "mtp", middle))
    return all((arm.max_num_seqs or slots) * arm.dp >= slots for arm in arms)


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


def breaks_blocks(facts: Facts, plan: Plan) -> Finding | None:
    """Why a block-FP8 checkpoint is not loaded: the shards of the plan do not hold whole blocks
    (SD215); None where they do.
    """
    if facts.quant is None or facts.quant.id != "fp8" or plan.tp == 1:
        return None
    launch = engines.get(plan.engine).to_launch(plan)
    found = rules.check(Case(facts=facts, plan=plan, launch=launch), select=("SD215",))[0]
    return next((one for one in found if one.severity == "error"), None)


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
