"""From a question to Facts, every default with its reason, and to the commands of its A/B."""

from math import ceil
from typing import Any

from advisor.advice.choices import (
    Default,
    engine_for,
    quant_default,
    quant_of_repository,
    version_for,
)
from advisor.advice.plans import checkpoints, methods, propose, topology
from advisor.advice.plans.limits import FOUR_BITS
from advisor.advice.spoken import detection
from advisor.domain.nouns import (
    AS_ASKED,
    LLM,
    AdvisorError,
    Checkpoint,
    Facts,
    Hardware,
    Quant,
    Request,
    UnknownFact,
)
from advisor.domain.shell import shell_word
from advisor.domain.sourced import sourced
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.knowledge.evidence import nearest_pairs
from advisor.knowledge.model_files import READ
from advisor.knowledge.names import find_name, more_than, squeeze
from advisor.prediction.acceptance import USUAL_K

_OPTIONS = {"hardware": "hw", "ctx_tokens": "ctx"}  # fields whose option is called otherwise
AB_FOLDER = "ab"
AS_REQUESTED = (  # facts that a request states
    "tp", "concurrency", "ctx_tokens", "output_tokens", "workload", "prefix_share", "output_spread",
    "goal",
)  # fmt: skip
BY_NAME = "model-name"  # source of a model of which no more than its name was read
LAYOUT_OPEN = "int4"  # four bits whose layout a user leaves open
FOUR_BIT = ("awq-int4", "nvfp4", "mxfp4", "q4_k_m", "ud-q4_k_xl", "iq4_xs")  # the usual first
SHOWN_OF_ONE = sourced(6, "A/B runs", "own choice: as many are shown", "chosen")
SHOWN_OF_EACH = sourced(
    4, "pairs", "own choice: of each method, where several were measured", "chosen"
)


def _quant(
    request: Request, bare: Facts, usual: tuple[Quant, str] | None
) -> tuple[Quant, list[Default]]:
    if request.quant is not None:
        return knowledge.quant(request.quant), []
    if (named := quant_of_repository(bare, request)) is not None:
        return named, [("quant", named.id, "as the model's name or own file says")]
    own = [d for d in knowledge.drafters(bare.llm) if d.method == request.method]
    if own and all(d.inside for d in own):
        rows = (c for c in bare.llm.checkpoints if not c.engines or bare.engine in c.engines)
        holder = next((c for c in rows if c.repository in own[0].inside), None)
        if holder is not None:
            why = f"{holder.repository} holds the drafter of --method {request.method}"
            return knowledge.quant(holder.quant), [("quant", holder.quant, why)]
    chosen, why = usual or quant_default(bare)
    return chosen, [("quant", chosen.id, why)]


def _published_four(request: Request, bare: Facts) -> tuple[Request, list[Default]]:
    """The request with a published checkpoint of four bits where "int4" has none itself."""
    open_ = request.quant is not None and knowledge.quant(request.quant).id == LAYOUT_OPEN
    if not open_ or LAYOUT_OPEN in {row.quant for row in knowledge.checkpoints(bare.llm)}:
        return request, []
    engine = engine_for(bare, request.replace(quant=None))[0]
    for quant in (quant_default(bare.replace(engine=engine))[0], *map(knowledge.quant, FOUR_BIT)):
        runs = request.engine is None or not quant.engines or engine in quant.engines
        able = (bare.replace(quant=quant, engine=name) for name in quant.engines or (engine,))
        four = FOUR_BITS <= (quant.bits or 0.0) < FOUR_BITS + 1
        four = four and bare.device.arch in (quant.archs or (bare.device.arch,))
        if four and runs and any(map(checkpoints.available, able)):
            why = f"{request.quant} means four bits: a published checkpoint"
            return request.replace(quant=quant.id), [("quant", quant.id, why)]
    return request, []


def asked_model(name: str) -> LLM:
    """The model of a launch. Raises UnknownFact for a bare name that says more than a known
    model's: a fine-tune or a sibling, whose weights no repository tells.
    """
    model, text, index = knowledge.llm(name), name.strip(), knowledge.index()
    if find_name(text, index["llms_keys"]) is not None or "/" in text or model.source == READ:
        return model
    forms = [form for form, ident, _ in index["llm_forms"] if ident == model.id]
    forms += [squeeze(c.repository.rsplit("/", 1)[-1]) for c in knowledge.checkpoints(model)]
    if not more_than(text, forms):
        return model
    hint = f"(what is not listed, by its repository or folder: --model ORG/{text[:60]})"
    raise UnknownFact("model", text[:80], (model.id,), hint)


def _sampling(request: Request, model: LLM) -> tuple[dict[str, Any], list[Default]]:
    """How the model thinks and samples, where the question leaves it open."""
    thinking, warm, defaults = request.thinking, request.temperature, []
    if thinking is None and model.thinking_default is not None:
        thinking = model.thinking_default
        defaults.append(("thinking", "on" if thinking else "off", "the model's own default"))
    if warm is None and (warm := model.temperature(request.workload, thinking)) is not None:
        source = model.default_temperature.source if model.default_temperature else model.source
        why = f"recommended for this model and workload ({source})"
        defaults.append(("temperature", f"{warm:g}", why))
    return {"thinking": thinking, "temperature": warm}, defaults


def _machine(request: Request) -> tuple[Hardware, list[Default]]:
    if request.hardware.strip().lower() != "auto":
        return knowledge.hardware(request.hardware), []
    hw, count = detection().detect()
    defaults = [("hardware", hw.id, f"found on this machine: {count} x {hw.name or hw.id}")]
    if count > request.gpus:
        why = f"this machine has {count}: give --gpus {count} to use them all"
        defaults.append(("gpus", str(request.gpus), why))
    return hw, defaults


def _model(request: Request) -> tuple[LLM, list[Default]]:
    """The model, with the user's own repository as its only checkpoint where he named one."""
    model = asked_model(request.model)
    name = model.name or model.id
    if model.is_class:
        raise AdvisorError(
            f"'{model.id}' stands for measured models whose names are not known, so no launch can "
            f"be written for it: name a model (advisor models list)"
        )
    if model.source == BY_NAME and not model.checkpoints and "/" not in request.model:
        raise AdvisorError(
            f"no published checkpoint of {name} is known, nor its shape: give "
            f"the repository or folder that you serve as --model (ORG/{model.id}, ./folder)"
        )
    own = checkpoints.own_name(request)
    if own is None:
        return model, []
    why = f"taken as {name}: shape, head and acceptance are assumed to be its"
    return checkpoints.with_own(model, own), [("model", own, why)]


def facts_for_request(request: Request) -> Facts:
    """Everything known for a request. Raises AdvisorError (UnknownFact for names)."""
    facts = bare_facts(request)
    drafting = _measured_methods(facts)
    each = SHOWN_OF_ONE if len(drafting) == 1 else SHOWN_OF_EACH
    rows = (row for method in drafting for row in nearest_pairs(facts, method, each))
    return facts.replace(evidence=tuple(rows))


def engine_choice(facts: Facts) -> dict[str, str | None]:
    """Engine, release and quantisation as a request names them."""
    quant = facts.quant.id if facts.quant is not None else None
    return {"engine": facts.engine, "engine_version": facts.engine_version, "quant": quant}


def bare_facts(request: Request) -> Facts:
    """The same without the measured pairs, which take longest. Raises AdvisorError."""
    hw, defaults = _machine(request)
    model, own = _model(request)
    bare = Facts(
        hardware=hw,
        model=model,
        shape=knowledge.known_shape(model),
        gpus=request.gpus,
        concurrency=request.concurrency,
        ctx_tokens=max(request.ctx_tokens + request.output_tokens - 1, 1),
        output_tokens=1,
    )
    request, four = _published_four(request, bare)
    engine, engine_why, usual = engine_for(bare, request)
    version, version_why = version_for(request, engine, hw)
    quant, quant_why = _quant(request, bare.replace(engine=engine), usual)
    checkpoint = knowledge.checkpoint(model, quant, engine, "mtp")
    if checkpoint is None and "/" in request.model and "://" not in request.model:
        checkpoint = Checkpoint(
            quant=quant.id, repository=request.model, engines=(engine,), source=AS_ASKED,
            note="As requested; its contents were not read.",
        )  # fmt: skip
    sampling, sampling_why = _sampling(request, model)
    link, each = request.interconnect, request.gpus_per_machine
    joined = topology.link_default(hw, request.gpus, each) if link is None else None
    defaults += [*own, *four, *engine_why, *version_why, *quant_why, *sampling_why]
    defaults += [("interconnect", *joined)] if joined is not None else []
    facts = bare.replace(
        **{name: getattr(request, name) for name in AS_REQUESTED},
        **sampling,
        request=request,
        quant=quant,
        checkpoint=checkpoint,
        engine=engine,
        engine_version=version,
        interconnect=joined[0] if joined is not None else link,
    )
    if older := propose.too_old(facts, "cannot load"):
        raise AdvisorError(f"{older} (--engine {engine} alone takes the newest)")
    board = topology.assumption(facts)
    defaults += [board] if board is not None else []
    facts = facts.replace(defaults=tuple(defaults), drafters=knowledge.drafters(model))
    if request.acceptance_length is None or request.acceptance_k is not None:
        return facts
    # one k for all plans: at each plan's own k the shortest draft would be the best one
    k = max(int(USUAL_K[_measured_methods(facts)[0]]), ceil(request.acceptance_length - 1), 1)
    why = "--acceptance-length is taken as measured at this k: give --acceptance-k if it was not"
    return facts.replace(
        request=request.replace(acceptance_k=k), defaults=(*defaults, ("acceptance_k", str(k), why))
    )


def _measured_methods(facts: Facts) -> tuple[str, ...]:
    """The methods that can be proposed here; MTP where there are none."""
    return methods.methods(facts) or (drafters.asked_method(facts) or "mtp",)


def ab_commands(request: Request) -> tuple[str, str]:
    """How to plan and run an A/B."""
    plan = " ".join(("advisor bench plan", *as_options(request), "--out", AB_FOLDER))
    return plan, f"advisor bench run {AB_FOLDER}"


def as_options(request: Request) -> list[str]:
    """What differs from the defaults, as the command line's options."""
    words = ["--hw", shell_word(request.hardware)]
    plain = Request(hardware=request.hardware)
    for name in type(plain).model_fields:
        value = getattr(request, name)
        if value is None or value == getattr(plain, name):
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name}")
            continue
        parts = value if isinstance(value, tuple) else (value,)
        text = ",".join(f"{x:.12g}" if isinstance(x, float) else f"{x}" for x in parts)
        words += [f"--{_OPTIONS.get(name, name).replace('_', '-')}", shell_word(text)]
    return words
