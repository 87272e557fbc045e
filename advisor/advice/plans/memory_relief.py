"""What to do when memory is short: what would fit instead, tried with the real bill."""

from collections.abc import Iterator

from advisor.advice.plans import checkpoints, offload, propose, topology
from advisor.advice.plans.limits import FEW, FOUR_BITS
from advisor.advice.wording import name_of
from advisor.domain.nouns import Facts, Hardware, MemoryBill, Plan, Quant
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge
from advisor.perf import memory

GPU_COUNTS = sourced(
    (2, 4, 8), "GPUs", "what hosts are sold with, and divides the heads of most models", "chosen"
)
BOARD_COUNTS = sourced((16, 32), "GPUs", "two and four machines of eight", "chosen")
BUILT_IN = ("laptop", "igpu")  # classes of which a machine has one, and nobody joins several
SMALLER = ("fp8", "awq-int4", "nvfp4", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "iq4_xs", "q3_k_m",
           "iq3_xxs", "iq2_m")  # fmt: skip
SAME_STEP = sourced(
    0.75, "bits a weight", "between formats of one step: AWQ has 4.25, Q4_K_M 4.89", "chosen"
)
CONTEXT_STEPS = sourced(
    (131_072, 65_536, 32_768, 16_384, 8192, 4096, 2048, 1024),
    "tokens",
    "halved each time",
    "chosen",
)
HIGH_SHARE = sourced((0.9, 0.85), "share", "own choice: of a card, of unified memory", "chosen")


def shortfall(facts: Facts, plan: Plan, bill: MemoryBill) -> str:
    """One sentence: by how much the plan does not fit, and what would."""
    quant = facts.quant.id if facts.quant else "this quantisation"
    gpus = memory.replica_gpus(facts, plan)
    where = f"{f'{gpus} x ' if gpus > 1 else ''}{name_of(facts.hardware, 'this hardware')}"
    needs = bill.weights_gib + bill.spec_gib + bill.overhead_gib
    have = (
        "unknown memory" if bill.available_gib is None else f"{bill.available_gib:.1f} GiB usable"
    )
    text = (
        f"{facts.llm.id or 'the model'} at {quant} does not fit on {where} with {plan.engine}: "
        f"{bill.short_gib or 0:.1f} GiB short (weights and engine {needs:.1f} GiB per GPU, {have})"
    )
    plain = plan.replace(method="none", k=0)
    fewer = list(_fewer_tokens(facts, plain))
    if instead := [*fewer, *_other_builds(facts, plain)]:
        text += f"; what fits: {', or '.join(instead[:3])}"
    else:
        text += (
            f"; choose a smaller model{' or more GPUs' if more_counts(facts.hardware, 0) else ''}"
        )
    if plan.method != "none" or fewer:  # what is short may be the room for requests
        return text
    split = offload.some_layers(facts)
    if (spread := offload.offload(facts)) is not None:
        split = f"{offload.words(spread)}: {' '.join(spread.launch.argv)}"
    slow = "; or, at a speed that is not estimated here, llama-server at "
    return text + slow + split if split is not None else text


def _fewer_tokens(facts: Facts, plain: Plan) -> Iterator[str]:
    """Options of the command line that make room by shorter or fewer requests."""

    def fits(plan: dict[str, int], asked: dict[str, int]) -> bool:
        return bool(memory.bill(facts.replace(**asked), plain.replace(**plan)).fits)

    prompt, given = facts.ctx_tokens or USUAL_PROMPT, facts.question.max_model_len
    for ctx in CONTEXT_STEPS:
        if given is not None:
            if facts.length <= ctx < given and fits({"max_model_len": ctx}, {}):
                yield f"--max-model-len {ctx}"
                break
        elif ctx < prompt:
            length = min(plain.max_model_len or ctx, facts.length - prompt + ctx)
            if fits({"max_model_len": length}, {"ctx_tokens": ctx}):
                yield f"--ctx {ctx}"
                break
    slots = plain.max_num_seqs or facts.load
    while not traits(plain.engine).states_in_pool and slots > 1:
        # the others take every slot's context or recurrent state at the start
        slots //= 2
        if fits({"max_num_seqs": slots}, {"concurrency": slots}):
            yield f"--concurrency {slots * plain.dp}"
            break


def _other_builds(facts: Facts, plain: Plan) -> Iterator[str]:
    """A share, quantisations or GPUs with which the plain plan fits, best quality first."""
    high = plain.replace(memory_fraction=HIGH_SHARE[bool(facts.device.unified_memory)])
    unset = plain.engine == "vllm" and facts.question.memory_fraction is None  # all is in its share
    if unset and memory.bill(facts, high).fits:
        yield f"--gpu-memory-utilization {high.memory_fraction}"
    if (quant := largest_quant(facts, plain)) is not None:
        yield f"--quant {quant.id}"
    elif plain.engine in memory.SERVERS:
        # llama-server takes no share of the memory and no ranks
        one = {"tp": 1, "dp": 1, "pp": 1, "memory_fraction": None, "kv_cache_dtype": None}
        quant = largest_quant(facts, plain.replace(engine="llama-server", **one), like=True)
        if quant is not None and not (facts.load > FEW and (quant.bits or 0.0) < FOUR_BITS):
            yield f"--engine llama-server --quant {quant.id}"
    for count in more_counts(facts.hardware, facts.question.tp or facts.gpus):
        if plain.engine in memory.SERVERS and not propose.divides_heads(facts, count):
            continue
        shared = facts.replace(gpus=count, tp=count)
        if memory.bill(shared, plain.replace(tp=count, dp=1, pp=1)).fits:
            gpus = f"--gpus {count}" if count > facts.gpus else ""
            yield f"{gpus} --tp {count}".strip() if facts.question.tp else gpus
            break


def more_counts(hardware: Hardware | None, gpus: int) -> tuple[int, ...]:
    """The usual numbers of GPUs above this one; none for what cannot be linked."""
    built_in = hardware is not None and (
        hardware.hardware_class in BUILT_IN
        or (hardware.hardware_class == "unified" and not topology.has_port(hardware))
    )
    boards = BOARD_COUNTS if hardware is not None and hardware.machine_gpus is not None else ()
    return () if built_in else tuple(n for n in (*GPU_COUNTS, *boards) if n > gpus)


def largest_quant(facts: Facts, plan: Plan, like: bool = False) -> Quant | None:
    """The largest smaller quantisation that runs and fits here; `like`: or one of the same step."""
    bits, arch = facts.quant.bits if facts.quant else None, facts.device.arch
    names = offload.RELEASED.get(facts.llm.family, SMALLER)
    known = [knowledge.quant(name) for name in names if name in knowledge.quant_ids()]
    if facts.model is not None and facts.hardware is not None:  # what there is, and no other
        published = checkpoints.others(facts.model, plan.engine, facts.hardware, tuple(names))
        asked = facts.replace(engine=plan.engine)
        known = [q for q in known if checkpoints.available(asked.replace(quant=q))]
        known += published
    fp4 = names is not SMALLER or facts.device.fp4_tflops
    for quant in sorted(known, key=lambda q: -(q.bits or 0.0)):
        if quant.family in ("nvfp4", "mxfp4") and not fp4:
            continue  # runs elsewhere only through slower stand-in kernels
        runs = plan.engine in (quant.engines or (plan.engine,)) and arch in (quant.archs or (arch,))
        most = float("inf") if bits is None else bits + (SAME_STEP if like else 0.0)
        if not runs or quant.bits is None or quant.bits >= most:
            continue
        if memory.bill(facts.replace(quant=quant), plan).fits:
            return quant
    return None
