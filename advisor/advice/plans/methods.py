"""How a model can speculate here, with which draft tokens; whether it keeps the prefix cache."""

import json
from typing import Any, cast

import numpy as np

from advisor import engines
from advisor.advice.plans import checkpoints
from advisor.advice.plans.checkpoints import own_name
from advisor.domain.nouns import LLM, AdvisorError, Drafter, Facts, Method, Plan
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.engines.traits import EngineTraits, gguf_engine, traits
from advisor.knowledge import drafters, heads
from advisor.knowledge.drafters import asked_method
from advisor.perf import memory
from advisor.perf.arrays import Floats, Points
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.load import page_tokens
from advisor.perf.schedule import replay
from advisor.prediction.artefact import load
from advisor.prediction.model import prepare
from advisor.rules.kit.releases import asked_release, between

DRAFTER_K = sourced(
    {
        "eagle": (1, 2, 3, 4, 5),
        "eagle3": (1, 2, 3, 4, 5, 6, 7),
        "dflash": (3, 7, 9, 15),
        "dspark": (3, 5, 7, 8),
        "ngram": (4, 8, 16),
    },
    "draft tokens",
    "what publishers report: EAGLE-3 of 1 to 7 tokens, block drafters with blocks of 4, 8 and 16, "
    "DSpark of 3 to 8 (vllm-project/recipes); n-gram: the engines' usual (knowledge/methods)",
    "read",
)
NGRAM_FORMS = {"suffix": ("vllm",)}  # forms of n-gram lookup, and the engines that have them

# SGLang runs Gemma 4's assistant under NEXTN, which it turns into FROZEN_KV_MTP by itself
# (sgl-project/sglang#24436, merged after 0.5.11 was tagged); the 12B's has another architecture,
# which models/gemma4_mtp.py of 0.5.14 has and that of 0.5.12 has not.
SGLANG_ASSISTANTS = "0.5.12"
SGLANG_UNIFIED = {"google/gemma-4-12B-it-assistant": "0.5.14"}

# llama-server loads Gemma 4's assistant from a GGUF of its own since ggml-org/llama.cpp#23398, and
# with -hf finds one that lies beside the model as mtp-*.gguf (common/download.cpp, read from b10362
# on; the next catalogued build is this one). Without such a file it has to be named.
LLAMA_ASSISTANTS = "b10448"
DRAFTER_FLAGS = {"vllm": "--speculative-config", "sglang": "--speculative-draft-model-path"}
SPEC_METHOD = "--speculative-config.method"
MOST_K = sourced(64, "tokens", "the longest measured draft", "chosen")


def habits(facts: Facts) -> EngineTraits:
    """The traits of the engine that is asked about. Raises AdvisorError for one without any."""
    known = engines.canonical(facts.engine or "")
    if known is None:
        raise AdvisorError(
            f"no launch can be written for the engine '{facts.engine}': use vllm, sglang or "
            f"llama-server"
        )
    return traits(known)


def methods(facts: Facts) -> tuple[Method, ...]:
    """Speculative methods for this model: the one asked for, else its head, else its drafters."""
    asked = asked_method(facts)
    if asked == "ngram":
        return ("ngram",)  # copied from earlier text: any model
    # a head whose layers are known, so that it can be priced; what the model itself says counts
    shapes = (shape.mtp_layers for shape in (facts.model, facts.shape) if shape is not None)
    head = next((layers for layers in shapes if layers is not None), 0)
    own: tuple[Method, ...] = ("mtp",) if head or assistant(facts) else ()
    others = drafters.methods(facts) if asked != "mtp" else ()
    if own and asked in (None, "mtp") and not (others and headless(facts)):
        return own
    return tuple(method for method in others if asked in (None, method))


def headless(facts: Facts) -> str | None:
    """Why MTP has no checkpoint to run from; None where one keeps or may keep the head."""
    plain = reference(facts, "none")
    if not plain.known or facts.quant is None or reference(facts, "mtp").known:
        return None
    return (
        f"{plain.model} was made without the MTP head, and no {facts.quant.id} checkpoint that "
        f"keeps it is known"
    )


def drafter(facts: Facts, method: Method) -> Drafter | None:
    """The published drafter of a plan of this method; None for MTP and n-gram lookup."""
    if method not in DRAFTER_K:
        return None
    return drafters.pick(facts, method, reference(facts, method).model)


def draft_options(facts: Facts, method: Method) -> tuple[tuple[str, str | None], ...]:
    """Options of a launch that drafts so: of the drafter's page, its pinned commit, its form."""
    engine, own = facts.engine or "", drafter(facts, method)
    word = facts.question.method
    if word in NGRAM_FORMS and method == "ngram" and engine in NGRAM_FORMS[word]:
        return ((SPEC_METHOD, json.dumps(word)),)
    if own is None:
        return ()
    pinned = own.revision if not own.inside else None
    revision = {
        "vllm": ("--speculative-config.revision", json.dumps(pinned)),
        "sglang": ("--speculative-draft-model-revision", pinned),
    }.get(engine)
    by_engine = (own.options.get(key, {}) for key in (engine, f"{engine}/{facts.device.vendor}"))
    options = tuple(option for each in by_engine for option in each.items())
    return (*options, revision) if pinned and revision else options


def assistant(facts: Facts) -> str | None:
    """The model's own small drafter, where the release takes it for an MTP head."""
    since, mine = assistant_since(facts.model, facts.engine), asked_release(facts)
    older = since is None or between(mine, since, None) is False  # one that is none is taken as new
    return None if facts.model is None or older else facts.model.assistant


def named_assistant(facts: Facts) -> str | None:
    """The assistant where the launch has to name it; llama-server finds its GGUF."""
    return None if gguf_engine(facts.engine) else assistant(facts)


def assistant_since(model: LLM | None, engine: str | None) -> str | None:
    """The engine's first release that takes the model's assistant; None if none is known."""
    if model is None or model.assistant is None:
        return None
    beside = any(engine in c.engines and c.keeps_mtp for c in model.checkpoints)
    return {
        "vllm": model.assistant_since,
        "sglang": SGLANG_UNIFIED.get(model.assistant, SGLANG_ASSISTANTS),
        "llama-server": LLAMA_ASSISTANTS if beside else None,
    }.get(engine or "")


def k_values(facts: Facts, method: Method) -> tuple[int, ...]:
    """Draft tokens to try: the engine's or the method's, up to what the drafter allows."""
    own = drafter(facts, method)
    if own is None:
        most = facts.llm.mtp_k_max.get(facts.engine or "") if method == "mtp" else None
        return tuple(k for k in DRAFTER_K.get(method, habits(facts).k_range) if k <= (most or k))
    top = min(own.k_max or MOST_K, (own.block or MOST_K + 1) - 1)
    tried = tuple(k for k in DRAFTER_K[method] if (own.k_min or 1) <= k <= top)
    return tried or (own.k_min or top,)


def reference(facts: Facts, method: Method) -> checkpoints.Reference:
    """What the launch names; an assistant is a repository of its own beside the plain model."""
    inside = "none" if method == "mtp" and named_assistant(facts) is not None else method
    return checkpoints.reference(facts, inside)


def may_draft(facts: Facts) -> bool:
    """Whether the model may speculate here in a way that no launch is known for."""
    model, asked = facts.model, asked_method(facts)
    if model is None or methods(facts):
        return False
    if asked in (None, "mtp"):
        if model.assistant or model.assistant_params_b:
            return False  # what it drafts with is known, and why not here
        if heads.head(model).has is not False:
            return True
    if any(asked in (None, d.method) and facts.engine in d.engines for d in facts.drafters):
        return False  # the same
    return any(row.median > 1 for row in measured_elsewhere(facts))  # who lost is no reason to try


def unlisted_words(facts: Facts, model: LLM) -> str:
    """What is known of the head and of drafters of a model that no method is listed for."""
    asked = asked_method(facts)
    title = drafters.TITLES.get(word := facts.question.method or "", word)  # of the form: dflash2
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
            f"checkpoint{'' if own_name(facts.request) else ', or give --model ./config.json'})"
        )
    listed = drafters.refusal(facts, asked) or "no drafter of it is listed here"
    parts = [f"{title} was requested: {head or listed}" if asked else f"{head}, and {listed}"]
    known = measured_elsewhere(facts)
    if known:
        parts.append("others measured " + ", ".join(row.words for row in known))
    if known and asked != "mtp":
        option = DRAFTER_FLAGS.get(facts.engine or "", "--spec-draft-model")
        parts.append(f"a launch names a drafter with {option}")
    return "; ".join(parts)


def measured_elsewhere(facts: Facts) -> tuple[heads.Measured, ...]:
    """What others measured with the model, on this engine or anywhere."""
    assert facts.model is not None
    asked = asked_method(facts)
    engine = facts.engine if drafters.refusal(facts, asked) else None
    return tuple(
        row for row in heads.measurements(facts.model.id, engine) if asked in (None, row.method)
    )


def with_caching(facts: Facts, plan: Plan) -> Plan:
    """The plan without speculation with its prefix cache as the release has it. That of a hybrid is
    off where its states keep requests waiting; where prompts share a page, on where that pays.
    """
    if habits(facts).pool == "slots":
        return plan  # its prompt cache is per slot and on by default
    on, off = (plan.replace(prefix_caching=cached) for cached in (True, False))
    if facts.prefix_share and facts.llm.is_hybrid:
        points = prepare(from_plans(memory.replica(facts, on), [on, off]))[1]
        if facts.prefix_share * (facts.ctx_tokens or USUAL_PROMPT) < page_tokens(points)[0]:
            return off  # less than a whole page of the cache is never found again
        served = output_rates(points)
        return on if served[0] >= served[1] else off
    load = memory.replica(facts, on).concurrency
    return on if usual_caching(facts, plan, facts.memory_tokens, load) else off


def usual_caching(facts: Facts, plan: Plan, tokens: Any, load: Any) -> Any:
    """Whether a plan without speculation keeps a prefix cache where prompts share nothing: as the
    release has it, and on a hybrid beside room for the load; one truth, or an array for (N,).
    """
    hybrid, bare = facts.llm.is_hybrid, plan.replace(prefix_caching=None)
    usual = engines.get(plan.engine).effective_prefix_caching(bare, hybrid) is not False
    room = memory.room(facts, plan.replace(prefix_caching=True), tokens) if hybrid else None
    return usual if room is None else usual & (room >= (1 if load is None else load))


def cache_beside(facts: Facts, method: str, shares: Any) -> Any:
    """Whether drafts leave the prefix cache on: not with a drafter that is served without, and on a
    hybrid only for shared prompts outside vLLM's pages, where hits can answer wrongly (vllm#38182,
    #43559). `shares`: of one, or of (N,).
    """
    own = drafter(facts, cast(Method, method))
    if own is not None and own.prefix_caching is False:
        return False
    return not facts.llm.is_hybrid or (shares & (not habits(facts).states_in_pool))


def output_rates(points: Points) -> Floats:
    """Output tokens a second of filled points without speculation (N,)."""
    return replay(points, load().speeds, np.ones(len(points)), "base").output_tok_s
