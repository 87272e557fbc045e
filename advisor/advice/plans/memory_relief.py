"""What to do when memory is short: what would fit instead, tried with the real bill."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.advice.plans import checkpoints, offload, propose, topology
from advisor.domain.nouns import Facts, Hardware, MemoryBill, Plan, Quant
from advisor.domain.question import USUAL_OUTPUT, USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge
from advisor.perf import memory

GPU_COUNTS = sourced(
    (2, 4, 8),
    "GPUs",
    "counts that hosts are sold with and that divide the heads of most models",
    "chosen",
)
BUILT_IN = ("laptop", "igpu")  # classes of which a machine has one, and nobody joins several
SMALLER = (
    "fp8",
    "awq-int4",
    "nvfp4",
    "q8_0",
    "q6_k",
    "q5_k_m",
    "q4_k_m",
    "iq4_xs",
    "q3_k_m",
    "iq3_xxs",
    "iq2_m",
)
SAME_STEP = sourced(
    0.75,
    "bits a weight",
    "between formats of one step: AWQ has 4.25, Q4_K_M 4.89",
    "chosen",
)
FOUR_BITS = sourced(
    4.0, "bits a weight", "another engine is no way out with fewer: quality falls faster", "chosen"
)
CONTEXT_STEPS = sourced(
    (131_072, 65_536, 32_768, 16_384, 8192, 4096, 2048, 1024),
    "tokens",
    "context lengths that are tried where memory is short, halved each time",
    "chosen",
)


def shortfall(facts: Facts, plan: Plan, made: MemoryBill) -> str:
    """One sentence: by how much the plan does not fit, and what would."""
    model = facts.model.id if facts.model else "the model"
    quant = facts.quant.id if facts.quant else "this quantisation"
    card = facts.hardware.name or facts.hardware.id if facts.hardware else "this hardware"
    gpus = memory.replica_gpus(facts, plan)
    where = f"{gpus} x {card}" if gpus > 1 else card
    needs = made.weights_gib + made.spec_gib + made.overhead_gib
    have = (
        f"{made.available_gib:.1f} GiB usable"
        if made.available_gib is not None
        else "unknown memory"
    )
    text = (
        f"{model} at {quant} does not fit on {where} with {plan.engine}: "
        f"{made.short_gib or 0:.1f} GiB short "
        f"(weights and engine {needs:.1f} GiB per GPU, {have})"
    )
    instead = list(alternatives(facts, plan))
    what = f"what fits: {', or '.join(instead[:3])}" if instead else _smaller(facts)

    one_fits = any(
        way.startswith(("--ctx", "--max-model-len", "--concurrency")) for way in instead
    )  # what is short is the room for requests
    spread = offload.offload(facts) if plan.method == "none" and not one_fits else None
    if spread is None:
        return f"{text}; {what}"
    launch = " ".join(spread.launch.argv)
    return (
        f"{text}; {what}; or, at a speed that is not estimated here, llama-server at "
        f"{offload.words(spread)}: {launch}"
    )


def alternatives(facts: Facts, plan: Plan) -> Iterator[str]:
    """Options of the command line that make the plan without speculation fit, each on its own, best
    quality first.
    """
    plain = plan.model_copy(update={"method": "none", "k": 0})
    asked = facts.ctx_tokens or USUAL_PROMPT
    given = facts.request.max_model_len if facts.request is not None else None
    needed = asked + (facts.output_tokens or USUAL_OUTPUT)
    for ctx in CONTEXT_STEPS if given is not None else ():
        if needed <= ctx < (given or 0):
            shorter = plain.model_copy(update={"max_model_len": ctx})
            if memory.bill(facts, shorter).fits:
                yield f"--max-model-len {ctx}"
                break
    for ctx in CONTEXT_STEPS if given is None else ():
        if ctx < asked:
            length = min(plan.max_model_len or ctx, ctx + (facts.output_tokens or USUAL_OUTPUT))
            fewer = facts.model_copy(update={"ctx_tokens": ctx})
            if memory.bill(fewer, plain.model_copy(update={"max_model_len": length})).fits:
                yield f"--ctx {ctx}"
                break
    slots = plan.max_num_seqs or facts.concurrency or 1
    while (
        not traits(plan.engine).states_in_pool and slots > 1
    ):  # the others take every slot's context or recurrent state at the start
        slots //= 2
        fewer = facts.model_copy(update={"concurrency": slots})
        if memory.bill(fewer, plain.model_copy(update={"max_num_seqs": slots})).fits:
            yield f"--concurrency {slots * plan.dp}"
            break
    found = largest_quant(facts, plain)
    if found is not None:
        yield f"--quant {found.id}"
    elif plan.engine in memory.SERVERS:
        found = largest_quant(facts, _as_gguf(plain), like=True)
        if found is not None:
            yield f"--engine llama-server --quant {found.id}"
    yield from other_counts(facts, plain)


def _as_gguf(plain: Plan) -> Plan:
    """The plan as llama-server would run it, which takes no share of the memory and no ranks."""
    one = {"tp": 1, "dp": 1, "pp": 1, "memory_fraction": None, "kv_cache_dtype": None}
    return plain.model_copy(update={"engine": "llama-server", **one})


def _elsewhere(facts: Facts, plain: Plan, most: int) -> str | None:
    """Fewer GPUs than `most` on which another engine holds the model, where none was asked for."""
    asked = facts.request.engine if facts.request is not None else None
    if asked is not None or plain.engine not in memory.SERVERS or facts.tp:
        return None
    for count in more_counts(facts.hardware, facts.gpus):
        more = facts.model_copy(update={"gpus": count, "engine": "llama-server"})
        found = largest_quant(more, _as_gguf(plain), like=True) if count < most else None
        if found is not None and (found.bits or 0.0) >= FOUR_BITS:
            return f"--gpus {count} --engine llama-server --quant {found.id}"
    return None


def _smaller(facts: Facts) -> str:
    return "choose a smaller model" + (" or more GPUs" if more_counts(facts.hardware, 0) else "")


def more_counts(hardware: Hardware | None, gpus: int) -> tuple[int, ...]:
    """The usual numbers of GPUs above this one; none where the GPU is part of a laptop or of a
    processor, or of a machine without a port for linking several.
    """
    built_in = hardware is not None and (
        hardware.hardware_class in BUILT_IN
        or (hardware.hardware_class == "unified" and not topology.has_port(hardware))
    )
    return () if built_in else tuple(count for count in GPU_COUNTS if count > gpus)


def other_counts(facts: Facts, plain: Plan) -> Iterator[str]:
    """Numbers of GPUs on which the plan fits: the most of those that there are, where only they
    divide the heads, else more.
    """
    fewer = [
        n for n in range(facts.gpus - 1, 1, -1) if plain.engine in memory.SERVERS and not facts.tp
    ]
    for count in (*fewer, *more_counts(facts.hardware, facts.gpus)):
        if _fits_over(facts, plain, count):
            if count > facts.gpus and (elsewhere := _elsewhere(facts, plain, count)):
                yield elsewhere
            yield f"--gpus {count}" + (f" (of the {facts.gpus})" if count < facts.gpus else "")
            return


def _fits_over(facts: Facts, plain: Plan, count: int) -> bool:
    """Whether the plan fits when all of so many GPUs share the model, and its heads allow that."""
    if plain.engine in memory.SERVERS and not propose.divides_heads(facts, count):
        return False
    shared = facts.model_copy(update={"gpus": count, "tp": count})
    return memory.bill(shared, plain.model_copy(update={"tp": count, "dp": 1})).fits is True


def largest_quant(facts: Facts, plan: Plan, like: bool = False) -> Quant | None:
    """The largest smaller quantisation with which the plan fits; `like`: or one of the same step,
    which on another engine is one more way (four bits as GGUF carry some more for their scales).
    """
    for quant in smaller_quants(facts, plan, SAME_STEP if like else 0.0):
        if memory.bill(facts.model_copy(update={"quant": quant}), plan).fits:
            return quant
    return None


def smaller_quants(facts: Facts, plan: Plan, more: float = 0.0) -> Iterator[Quant]:
    """Quantisations with fewer bits, or up to `more` than now, that the engine runs on this
    hardware, largest first.
    """
    bits = facts.quant.bits if facts.quant else None
    arch = facts.hardware.arch if facts.hardware else ""
    names = offload.RELEASED.get(facts.model.family if facts.model else "", SMALLER)
    known = [knowledge.quant(name) for name in names if name in knowledge.quant_ids()]
    if facts.model is not None and facts.hardware is not None:  # what there is, and no other
        found = checkpoints.others(facts.model, plan.engine, facts.hardware, tuple(names))
        asked = facts.model_copy(update={"engine": plan.engine})
        here = [q for q in known if checkpoints.available(asked.model_copy(update={"quant": q}))]
        known = [*here, *found]
    for quant in sorted(known, key=lambda q: -(q.bits or 0.0)):
        if (
            quant.family in ("nvfp4", "mxfp4")
            and names is SMALLER
            and not (facts.hardware and facts.hardware.fp4_tflops)
        ):
            continue  # runs elsewhere only through slower stand-in kernels
        runs = (not quant.engines or plan.engine in quant.engines) and (
            not quant.archs or arch in quant.archs
        )
        if runs and quant.bits is not None and (bits is None or quant.bits < bits + more):
            yield quant
