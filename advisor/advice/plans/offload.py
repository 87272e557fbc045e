"""A mixture larger than its card: llama-server keeps experts of some layers in system memory."""

from math import ceil

from advisor import engines
from advisor.advice.plans import checkpoints, methods, propose
from advisor.advice.plans.limits import FOUR_BITS
from advisor.domain.nouns import LLM, AdvisorError, Facts, LaunchText, MemoryBill, Plan, Quant
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import weights

# Families whose smaller files are none: the experts of gpt-oss stay in MXFP4 in every GGUF.
RELEASED = {"gpt-oss": ("mxfp4",)}
QUANTS = ("q4_k_m", "ud-q4_k_xl", "iq4_xs")  # four-bit steps of GGUF, the preferred first
SPARE_LAYERS = sourced(
    1, "layers", "a step over a long prompt copies the experts of one layer to the card", "derived"
)
# A slot's least context: more experts leave for it, as a shorter one ends most conversations.
CONTEXT = sourced(8192, "tokens", "a few turns with a file in them", "assumed")
BEGIN = sourced(
    2, "draft tokens", "the k of most runs that gain, experts in system memory (GAINS)", "read"
)
# Pairs of runs with experts in system memory: MTP lost in the first four, did little in two, and
# gained in the last four, on cards of 6 to 16 GB.
LOSSES = ("f70148891450", "gaztrab5080", "ik1513", "ik2369")
EVEN = ("a2000cpumoe", "s4070mtp")
GAINS = ("lc22673b", "moe3060cpu", "corral9070xt", "gemma26maxq")
MEASURED = (
    "Experts in system memory, as measured: MTP gave 0.43x to 0.86x in four reports, 0.88x to "
    "1.06x in two and 1.04x to 1.32x in four"
)

SOURCES = ("llamacpp15077",)


class Offload(NamedTuple):
    """Experts in system memory: the layers, their size, and the plain launch."""

    quant: Quant
    layers: int  # the value of --n-cpu-moe, which counts layers without experts too
    of: int
    system_gib: float
    launch: LaunchText
    plan: Plan

    @property
    def flag(self) -> str:
        """The llama-server option that keeps these layers' experts in system memory."""
        whole = self.layers >= self.of
        return weights.ALL_EXPERTS if whole else f"{weights.EXPERTS_OF} {self.layers}"


def offload(facts: Facts) -> Offload | None:
    """The least that has to leave the card at four bits; None where nothing has to, where it would
    not help, or with several cards (the option counts from the first layer and would empty one
    alone).
    """
    shape = facts.known_shape
    if shape is None or facts.gpus != 1 or not _has_own_memory(facts):
        return None
    for quant in _quants(facts):
        per_layer, billed = weights.layer_gib(shape, quant), _bill(facts, quant)
        if not per_layer or billed is None or billed[2].fits is not False:
            return None
        asked, plan, bill = billed
        layers = weights.layers_over(shape, quant, bill.short_gib or 0.0)
        if layers is None:
            continue
        most = shape.moe_layers or 0
        for count in range(layers + SPARE_LAYERS, most + 1):
            spread = _make_offload(shape, quant, plan, count, per_layer)
            arm = drafts(asked, spread.plan)
            # both arms are measured alike, and so keep every slot
            if arm is None or arm.max_num_seqs == spread.plan.max_num_seqs:
                return spread
        return _make_offload(shape, quant, plan, most, per_layer)
    return None


def some_layers(facts: Facts) -> str | None:
    """The same for a dense model's layers; None where nothing leaves, or it would not help."""
    shape = facts.known_shape
    if shape is None or not shape.layers or shape.moe_layers or not _has_own_memory(facts):
        return None
    for quant in _quants(facts):
        billed = _bill(facts, quant)
        if billed is None or not (short := billed[2].short_gib) or facts.gpus != 1:
            return None
        _, plan, bill = billed
        each = (bill.weights_gib + (bill.kv_gib or 0.0)) / (shape.layers + 1)  # and the output
        stay = shape.layers - ceil(short / each) - int(SPARE_LAYERS)
        if stay > 0:
            adapter, option = engines.get("llama-server"), ("--gpu-layers", str(stay))
            spread = plan.replace(extra=(*plan.extra, option))
            text = " ".join(adapter.render(adapter.to_launch(spread)).argv)
            away = each * (shape.layers - stay)
            return f"{quant.id} with {away:.1f} GiB of layers in system memory: {text}"
    return None


def drafts(facts: Facts, plan: Plan) -> Plan | None:
    """The plan with the model's own head; None where there is none to run."""
    able = "mtp" in methods.methods(facts) and propose.no_path(facts, plan, "mtp") is None
    return propose.with_method(facts, plan, "mtp", BEGIN) if able else None


def measurement(arm: Plan | None) -> str:
    """What was measured so, and what to do with it: to test drafts where the model has any."""
    if arm is None:
        return f"{MEASURED}; here nothing can draft, so start without speculation"
    return f"{MEASURED}: start without speculation, then test k = {arm.k}"


def _quants(facts: Facts) -> list[Quant]:
    """What to try: the question's own GGUF of four bits or more, then what somebody publishes: the
    usual ones, others of four bits or more (smallest first), the largest below.
    """
    model, own, names = facts.llm, facts.quant, RELEASED.get(facts.llm.family, QUANTS)
    usual = [knowledge.quant(name) for name in names if name in knowledge.quant_ids()]
    named = [q for q in usual if knowledge.checkpoint(model, q, "llama-server", "none")]
    # published as GGUF, most bits first
    published = checkpoints.others(model, "llama-server", facts.device, ())
    others = [quant for quant in published if quant not in usual]
    wide = [quant for quant in reversed(others) if (quant.bits or 0.0) >= FOUR_BITS]
    rows = [*named, *wide, *(quant for quant in others if quant not in wide)]
    if own is not None and own.family.startswith("gguf") and (own.bits or 0.0) >= FOUR_BITS:
        rows = [own, *rows]
    return list({quant.id: quant for quant in rows}.values())


def words(spread: Offload) -> str:
    """What it takes, in half a sentence."""
    return (
        f"{spread.quant.id} with {spread.flag} ({spread.system_gib:.1f} GiB of experts in "
        "system memory)"
    )


def difference(spread: Offload) -> str:
    """Model and flag: what the launch has that one of the same limits on the card alone has not."""
    argv = spread.launch.argv
    model = argv[1 : argv.index("--batch-size")] if "--batch-size" in argv else argv[1:3]
    return f"{' '.join(model)} {spread.flag}"


def _has_own_memory(facts: Facts) -> bool:
    """Whether the accelerator has memory of its own: else nothing is to be won."""
    shared = facts.device.unified_memory or facts.device.hardware_class in ("unified", "igpu")
    return facts.hardware is not None and not shared


def _bill(facts: Facts, quant: Quant) -> tuple[Facts, Plan, MemoryBill] | None:
    """llama-server with all of a quantisation on the card; None where no plan can be made."""
    usual = engines.get("llama-server").usual(facts.hardware)[0]
    release = facts.engine_version if gguf_engine(facts.engine) else usual
    asked = facts.replace(quant=quant, engine="llama-server", engine_version=release)
    try:
        plan = propose.base_plan(asked, (1, 1))
    except AdvisorError:
        return None
    if facts.question.max_model_len is None:
        most = min(CONTEXT, facts.llm.max_context_tokens or 0)
        plan = plan.replace(max_model_len=max(plan.max_model_len or 0, most))
    return asked, plan, memory.bill(asked, plan)


def _make_offload(
    shape: LLM, quant: Quant, plan: Plan, experts_of: int, per_layer: float
) -> Offload:
    dense = weights.dense_layers(shape)  # where they come in between, more than enough
    layers, of = dense + experts_of, dense + (shape.moe_layers or 0)
    option = (weights.ALL_EXPERTS, None) if layers >= of else (weights.EXPERTS_OF, str(layers))
    adapter = engines.get("llama-server")
    spread = plan.replace(extra=(*plan.extra, option))
    launch = adapter.render(adapter.to_launch(spread))
    return Offload(quant, layers, of, experts_of * per_layer, launch, spread)
