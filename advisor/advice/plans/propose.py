"""Facts -> candidate plans: one per method and k that the engine version can run, all with the same
limits, so that the arms differ in speculation alone.
"""

from collections.abc import Callable, Sequence
from typing import cast

from advisor import engines
from advisor.advice.plans import cache_types, methods, topology
from advisor.advice.plans import limits as plan_limits
from advisor.advice.plans import model_flags as of_model
from advisor.advice.plans.topology import Split
from advisor.domain.nouns import AdvisorError, Engine, Facts, Method, Plan
from advisor.domain.sourced import sourced
from advisor.domain.versions import before
from advisor.engines.sglang import DP_ATTENTION, DP_SIZE
from advisor.engines.traits import LOOPBACK, traits
from advisor.perf import memory
from advisor.perf.sizes import device
from advisor.perf.sizes.device import USUAL_BUDGET
from advisor.perf.sizes.pools import is_latent
from advisor.rules.kit.models import comes_before, first_release
from advisor.rules.kit.releases import asked_release

BY_TENSOR = (
    "with --split-mode tensor a drafter crashed or changed outputs, and no build is known whose "
    "outputs were checked equal (SD208)"
)
# SGLang's first release with the method beside DP attention, and with what (SD285); None: not yet
BESIDE_GROUPS = {"dflash": "0.5.23", "dspark": "0.5.16", "ngram": None, "draft_model": None}
# the same beside pipeline stages, where it differs from the engine's other methods
BESIDE_STAGES: dict[tuple[str, Method], str] = {
    ("sglang", "mtp"): "0.5.21",
    ("sglang", "eagle"): "0.5.21",
}
DP_LM_HEAD = ("--enable-dp-lm-head", None)
RCCL = ("--disable-custom-all-reduce", None)  # AITER's hangs in SGLang's verify (sglang#29313)
CHAT_WORKLOADS = {"chat", "agent", "mixed", "code", "reasoning", "voice"}
TOOL_WORKLOADS = {"chat", "agent", "mixed"}
SMALL_GB = sourced(32, "GB", "own choice: a consumer card or a small workstation card", "chosen")
TINY_GB = sourced(16, "GB", "own choice: here vLLM's default leaves more KV cache", "chosen")
SMALL_BUDGET = sourced(
    4096, "tokens", "own choice: half of the usual, which frees activations", "chosen"
)
# A unified memory is shared with the system; small cards need all they have (SD313: up to 0.96)
UNIFIED_SHARE = sourced(0.75, "share", "own choice: a quarter stays with the system", "chosen")
SMALL_SHARE = sourced(0.95, "share", "published launches on cards of 24 and 32 GB", "assumed")
USUAL_SHARE = sourced(0.9, "share", "default of vLLM up to 0.19.1 (its catalogue)", "read")
USUAL_GB = sourced(80.0, "GB", "a datacenter card, where the memory is not known", "assumed")


def step_and_share(facts: Facts) -> tuple[int, float]:
    """Tokens of a step, and the share of the memory, for this engine on this hardware."""
    known = methods.habits(facts)
    size, unified = facts.device.memory_gb, facts.device.unified_memory
    small = (size.value if size is not None else USUAL_GB) <= SMALL_GB
    batched = SMALL_BUDGET if small and known.replicas else USUAL_BUDGET
    if small and known.outside_share:
        batched = min(batched, device.card_of(1024 * (device.usable_gib(facts) or SMALL_GB)).chunk)
    elif size is not None and size.value <= TINY_GB:
        batched = min(batched, device.default_budget(facts))
    return batched, UNIFIED_SHARE if unified else SMALL_SHARE if small else USUAL_SHARE


def splits(facts: Facts) -> tuple[Split, ...]:
    """(tp, dp) choices, the preferred first: the asked tp alone, else the largest that KV heads
    serve without copies or that leaves no replica idle, then every other one that the heads allow,
    also those that leave GPUs idle. Raises AdvisorError for asked sizes that cannot be.
    """
    stages, experts = facts.question.pp or 1, facts.question.ep or 1
    if max(stages, experts) > 1 and not methods.habits(facts).replicas:
        raise AdvisorError(f"{facts.engine} has neither --pp nor --ep: leave them out")
    ranks, gpus = (facts.tp or 1) * stages, max(1, facts.gpus)
    if gpus % ranks:
        word = f"--tp {facts.tp}" * bool(facts.tp) + f" with --pp {stages}" * (stages > 1)
        raise AdvisorError(
            f"{word.removeprefix(' with ')} does not divide --gpus {gpus}: use a size that divides "
            f"the GPUs"
        )
    found = ((ranks, gpus // ranks),) if facts.tp else _open_splits(facts, stages)
    able = tuple(
        (ranks, servers)
        for ranks, servers in found
        if topology.experts(facts, topology.stages(facts, ranks)[0], servers, experts) is not None
    )
    if not able:
        raise AdvisorError(
            f"{facts.engine} cannot share the experts over --ep {experts} ranks here: use an --ep "
            f"that divides --tp (vllm: their number, without replicas), and a model with experts"
        )
    return able


def _open_splits(facts: Facts, stages: int) -> tuple[Split, ...]:
    """The splits of all GPUs into servers of so many pipeline stages, where no tp was asked for."""
    gpus = max(1, facts.gpus)
    if gpus == 1 or not methods.habits(facts).replicas:
        return ((gpus, 1),)  # llama-server splits layers over all devices
    gpus = gpus // stages
    heads = facts.shape.kv_heads if facts.shape is not None and facts.shape.kv_heads else gpus
    able = [tp for tp in range(1, gpus + 1) if divides_heads(facts, tp)]
    sizes = [tp for tp in able if gpus % tp == 0]
    apart = topology.boards(facts) == 1 or topology.spans(facts)
    idle = [tp for tp in reversed(able) if gpus % tp and apart]
    busy = [tp for tp in sizes if gpus // tp <= facts.load]
    only = facts.llm.only_tp
    sizes = [only] if only in sizes else sizes
    best = max(*(tp for tp in sizes if tp <= heads), min(busy, default=1))
    order = [best, *(tp for tp in sizes if tp > best), *reversed([tp for tp in sizes if tp < best])]
    order += idle if only is None else ()
    return tuple((tp * stages, gpus // tp) for tp in order)


def divides_heads(facts: Facts, tp: int) -> bool:
    """Whether so many ranks share the heads evenly; powers of two where these are unknown."""
    all_heads = facts.shape.heads if facts.shape is not None else None
    heads = facts.shape.kv_heads if facts.shape is not None else None
    if not all_heads:
        return tp & (tp - 1) == 0
    return all_heads % tp == 0 and (not heads or heads % tp == 0 or tp % heads == 0)


def speculative_plans(facts: Facts, base: Plan) -> tuple[Plan, ...]:
    """One plan per method and k that this engine version has a path for (see `no_path`)."""
    return tuple(
        with_method(facts, base, method, k)
        for method in methods.methods(facts)
        if no_path(facts, base, method) is None
        for k in methods.k_values(facts, method)
    )


def no_path(facts: Facts, base: Plan, method: Method) -> str | None:
    """Why this engine version cannot run the method at all, in one sentence; None when it can."""
    unread = "does not draft with the MTP head of"
    if method == "mtp" and (lost := methods.headless(facts) or too_old(facts, unread, "mtp_since")):
        return lost
    if method != "ngram" and topology.split_mode(base) == topology.TENSOR:
        return BY_TENSOR
    word = facts.question.method or ""
    if method == "ngram" and base.engine not in methods.NGRAM_FORMS.get(word, (base.engine,)):
        return f"{word} decoding is known of {' and '.join(methods.NGRAM_FORMS[word])} alone"
    if base.pp > 1:
        since = BESIDE_STAGES.get((base.engine, method), traits(base.engine).stages)
        if since is None or before(base.engine_version, since):
            return f"{method} does not run beside pipeline stages in this release (SD204, SD285)"
    if (DP_ATTENTION, None) in base.extra and method in BESIDE_GROUPS:
        since = BESIDE_GROUPS[method]
        if since is None or before(base.engine_version, since):
            return f"{method} does not run beside DP attention in this release (SD285)"
    try:
        engines.get(base.engine).to_launch(with_method(facts, base, method, 1))
    except AdvisorError as refusal:
        return str(refusal)
    return None


def too_old(facts: Facts, what: str, table: str = "model_since") -> str | None:
    """That the release is known to be too old for this of the model (SD239); else None."""
    model, engine = facts.model, facts.engine or ""
    row = first_release(model.id, engine, table) if model is not None else None
    if model is None or row is None or not comes_before(asked_release(facts), row):
        return None
    asked = facts.question.engine_version or facts.engine_version
    return f"{engine} {asked} {what} {model.name or model.id}, which needs {row['since']} or newer"


def base_plan(facts: Facts, split: Split, groups: int = 1, stages: int | None = None) -> Plan:
    """The plan without speculation, of which all others are made; `groups` of a server's ranks
    attend for requests of their own; `stages`: of its pipeline, by the machines if left out. Raises
    AdvisorError.
    """
    known = methods.habits(facts)
    if not known.writable:
        raise AdvisorError(
            f"no launch can be written for the engine '{facts.engine}': use vllm, sglang or "
            f"llama-server"
        )
    (batched, fraction), model = step_and_share(facts), facts.model
    named = methods.reference(facts, "none")
    given, chat = facts.question.memory_fraction, facts.workload in CHAT_WORKLOADS
    tp, pp = (split[0] // stages, stages) if stages else topology.stages(facts, split[0])
    plan = Plan(
        engine=cast(Engine, facts.engine),
        engine_version=facts.engine_version,
        model=named.model,
        quantization=named.quantization,
        method="none",
        max_num_seqs=plan_limits.slots(facts, split[1]),
        max_num_batched_tokens=batched if known.memory_share else None,
        max_model_len=plan_limits.context(facts),
        memory_fraction=(given or fraction) if known.memory_share else None,
        tp=tp,
        pp=pp,
        dp=split[1],
        reasoning_parser=of_model.reasoning_parser(facts, named.model) if chat else None,
        tool_call_parser=(
            of_model.parser_name(facts, "--tool-call-parser", model.tool_call_parser)
            if model and facts.workload in TOOL_WORKLOADS
            else None
        ),
        host=None if known.listens_locally else LOOPBACK,
        port=known.port,
        extra=(
            *((topology.SPLIT_MODE, mode) for mode in topology.split_modes(facts)[:1]),
            *(((DP_SIZE, str(groups)), (DP_ATTENTION, None)) if groups > 1 else ()),
            *(topology.experts(facts, tp, split[1], facts.question.ep or 1) or ()),
            *topology.flags(facts, split[0]),
            *of_model.model_flags(facts, named.model),
            *plan_limits.shared_context(facts),
        ),
        env=of_model.needed_env(facts),
    )
    plan = methods.with_caching(facts, plan)
    if known.outside_share and given is None:
        one, arms = memory.replica(facts, plan), (plan, *_arms(facts, plan, max))
        plan = plan_limits.with_share(one, plan, arms, plan_limits.need(facts), one.load)
    usual = _arms(facts, plan, middle_of)
    plan = plan_limits.cap_slots(facts, cache_types.kv_cache(facts, plan, usual))
    longest = max((arm.k for arm in _arms(facts, plan, max)), default=0)
    plan = plan_limits.with_graphs(facts, plan, longest)
    return plan_limits.roomy(facts, plan, (plan, *_arms(facts, plan, max)))


def _arms(facts: Facts, base: Plan, pick: Callable[[Sequence[int]], int]) -> list[Plan]:
    """The plan with each method, at one of the draft tokens to try of it."""
    picked = {method: pick(methods.k_values(facts, method)) for method in methods.methods(facts)}
    return [with_method(facts, base, method, k) for method, k in picked.items()]


def base_plans(facts: Facts, split: Split) -> tuple[Plan, ...]:
    """The plans without speculation of one split: under llama.cpp by layers and by tensors (with a
    KV cache of 16 bits, llama.cpp#21788); else also with pipeline stages, under SGLang with
    attention apart for MLA, and each with whole experts on a rank, where the engine takes them.
    """
    plan = base_plan(facts, split)
    if traits(plan.engine).replicas:
        flag = engines.get(plan.engine).catalogue.find(DP_ATTENTION, facts.engine_version)
        latent = facts.shape is not None and bool(facts.shape.moe_layers) and is_latent(facts.shape)
        inside = split[1] == 1 < split[0] <= facts.load and topology.boards(facts) == 1
        pays = flag is not None and latent and inside  # MLA (sglang#9308)
        apart = (base_plan(facts, split, split[0]),) if pays else ()
        staged = (base_plan(facts, split, 1, n) for n in topology.more_stages(facts, split))
        plans = [plan, *apart, *staged]
        open_ = facts.question.ep is None  # whole experts on each rank, where that is possible
        rows = [topology.experts(facts, one.tp, one.dp, one.tp) for one in plans if open_]
        pairs = zip(plans, rows, strict=False)
        return (*plans, *(one.replace(extra=(*one.extra, *row)) for one, row in pairs if row))
    if topology.TENSOR not in topology.split_modes(facts) or plan.kv_cache_dtype:
        return (plan,)
    others = (row for row in plan.extra if row[0] != topology.SPLIT_MODE)
    return plan, plan.replace(extra=((topology.SPLIT_MODE, topology.TENSOR), *others))


def middle_of(ks: Sequence[int]) -> int:
    """The middle one of the draft tokens to try: what limits are chosen for."""
    return ks[len(ks) // 2]


def with_method(facts: Facts, base: Plan, method: Method, k: int) -> Plan:
    """The same serving limits with speculation: arms differ in no more than is forced."""
    known, named = methods.drafter(facts, method), methods.reference(facts, method)
    caching = base.prefix_caching and methods.cache_beside(facts, method, bool(facts.prefix_share))
    ends = bool(facts.prefix_share) and caching != base.prefix_caching
    needs = {
        DP_LM_HEAD: (DP_ATTENTION, None) in base.extra and method in BESIDE_GROUPS,
        RCCL: base.engine == "sglang" and base.tp > 1 and facts.device.vendor == "amd",
    }
    plan = base.replace(
        method=method,
        k=k,
        model=named.model,
        quantization=named.quantization,
        prefix_caching=caching,
        plain_caching=base.prefix_caching if ends else None,
        draft_model=methods.named_assistant(facts) if method == "mtp" else base.draft_model,
        extra=(*base.extra, *methods.draft_options(facts, method), *filter(needs.get, needs)),
    )
    if known is not None:
        named_apart = None if known.inside else known.address
        env = known.env.get(base.engine, {})
        plan = plan.replace(**{"draft_model": named_apart, "env": (*base.env, *env.items())})
    stands = facts.question.max_num_seqs is not None and not device.reserves(plan)  # others wait
    return plan if stands else plan_limits.cap_slots(facts, plan)
