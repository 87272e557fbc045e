"""The quantisation that a question leaves open: the first preferred one (knowledge/defaults.yaml)
that fits and that somebody publishes.
"""

from __future__ import annotations

from advisor import engines, rules
from advisor.advice.plans import checkpoints, limits, methods, propose
from advisor.advice.plans.limits import FOUR_BITS
from advisor.domain.nouns import AdvisorError, Case, Facts, Finding, Plan, Quant, Request
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import first_row, hardware_words
from advisor.perf import memory


def with_fields(facts: Facts, **changes: object) -> Facts:
    """Facts of another engine, quantisation or number of requests."""
    return facts.model_copy(update=changes)


def fits(facts: Facts) -> bool | None:
    """Do the requests fit beside the weights? None where memory or sizes are not known."""
    # the very plans that would be proposed: their limits decide, and not every number of
    # ranks divides the heads
    plans = _plans(facts)
    if plans is None:
        return None
    plans = [plan for plan in plans if plan.dp == 1 or plan.engine in memory.SERVERS]
    fit = [_holds(facts, plan) and breaks_blocks(facts, plan) is None for plan in plans]
    return True if True in fit else None if None in fit else False


def holds_slots(facts: Facts) -> bool:
    """Whether some layout holds the requests, and beside the head too; True where unknown."""
    plans, slots = _plans(facts), facts.concurrency or 1
    for plan in plans or ():
        arms = [plan]
        if facts.model and facts.model.mtp_layers and propose.no_path(facts, plan, "mtp") is None:
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
    """Whether the plan fits, with all slots where they are reserved, and the head with one."""
    plain, slots = memory.bill(facts, plan).fits, facts.concurrency or 1
    if plain and traits(plan.engine).pool == "slots" and (plan.max_num_seqs or slots) < slots:
        return False
    if not plain or not facts.model or not facts.model.mtp_layers:
        return plain
    needed = limits.context(facts)
    head = {"method": "mtp", "k": 1, "max_num_seqs": 1, "max_model_len": needed}
    return memory.bill(facts, plan.model_copy(update=head)).fits


def breaks_blocks(facts: Facts, plan: Plan) -> Finding | None:
    """Why the plan's shards do not hold whole FP8 blocks (SD215); None where they do."""
    if facts.quant is None or facts.quant.id != "fp8" or plan.tp == 1:
        return None
    launch = engines.get(plan.engine).to_launch(plan)
    findings = rules.check(Case(facts=facts, plan=plan, launch=launch), select=("SD215",))[0]
    return next((finding for finding in findings if finding.severity == "error"), None)


def quant_default(facts: Facts) -> tuple[Quant, str]:
    """The first preferred quantisation that fits (all requests in llama-server), and why."""
    chosen, why = _first_fit(with_fields(facts, concurrency=1))
    reserved, slots = traits(facts.engine).pool == "slots", facts.concurrency or 1
    if not reserved or slots == 1 or not fits(with_fields(facts, quant=chosen, concurrency=1)):
        return chosen, why
    roomy, roomy_why = _first_fit(facts)
    if roomy.id == chosen.id or (roomy.bits or 0.0) < FOUR_BITS:
        return chosen, why
    return (roomy, roomy_why) if fits(with_fields(facts, quant=roomy)) else (chosen, why)


def _first_fit(facts: Facts) -> tuple[Quant, str]:
    model, hardware, slots = facts.model, facts.hardware, facts.concurrency or 1
    assert model is not None and hardware is not None and facts.engine is not None  # weighed
    words = {**hardware_words(hardware), "engine": facts.engine, "family": model.family}
    row = first_row("quant", words)
    choices, why = [knowledge.quant(name) for name in row["quants"]], str(row["why"])
    all_slots = f" with all {slots} slots" if slots > 1 else ""
    # what is quantised at every start comes last where that is much
    choices.sort(key=lambda choice: checkpoints.made_late(with_fields(facts, quant=choice)))
    large: list[str] = []
    unnamed: list[str] = []  # they fit, but nobody is known to publish them
    for choice in choices:
        asked = with_fields(facts, quant=choice)
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
        if fits(with_fields(facts, quant=other)) is not False:
            return other, f"{nobody}: the largest published one that fits{all_slots}"
    published = checkpoints.others(model, facts.engine, hardware, ())
    if published:  # too large: said, rather than a launch of what nobody publishes
        return published[-1], f"{nobody}, and the smallest published one does not fit"
    return knowledge.quant(unnamed[0]), nobody


def quant_of_repository(request: Request) -> Quant | None:
    """The quantisation that a name tells; the usual step for a plain name of GGUF."""
    named = knowledge.quant_from_text(request.model)
    if named is None and "gguf" in request.model.lower():
        return knowledge.quant(str(first_row("quant", {"engine": "llama-server"})["quants"][0]))
    return named
