"""What stands around a decision, whichever way it goes; each is a reason with its source."""

from collections.abc import Sequence

from advisor.advice.choices import engine_default
from advisor.advice.explain import machines
from advisor.advice.plans import checkpoints, limits, methods, offload, propose, topology
from advisor.advice.wording import reason
from advisor.domain.nouns import Estimate, Facts, Plan, Reason
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.perf import imputation, memory
from advisor.perf.sizes import device
from advisor.prediction.estimates import predict_batch
from advisor.rules.kit.models import unusable_head

LENGTHS_TURN = sourced(
    0.1, "probability", "of a gain; below it answers of varied lengths lose as well", "chosen"
)
LONG_PROMPT = sourced(8192, "tokens", "seed000: its test with a P99 ITL of a second", "measured")
PAGES_PER_GIB = sourced(262_144, "pages", "of 4 KiB each (Linux on x86-64)", "read")


def around(facts: Facts, base: Plan) -> list[Reason]:
    """All that holds here."""
    start = topology.others(facts, base)
    reasons = (
        _engine(facts),
        machines.link_reason(facts, base),
        machines.boards(facts, base),
        reason(start, "knowledge/engines", weight=0.5) if start else None,
        _idle(facts, base),
        _data_parallel_experts(facts, base),
        _kernel_limit(facts, base),
        *_experts(facts),
    )
    return [caveat for caveat in reasons if caveat is not None]


def head(facts: Facts, plan: Plan) -> Reason | None:
    """That nobody is known to have seen the head, or the drafter beside weights of a user's own."""
    if plan.method in ("none", "ngram") or facts.model is None:
        return None
    here = (facts.model.id, facts.quant.id if facts.quant is not None else "", plan.method)
    own = (run for run in facts.own_runs if (run.model, run.quant, run.method) == here)
    apart = plan.method != "mtp" or plan.draft_model not in (None, plan.model)
    known = drafters.of_plan(facts, plan)
    doubts = known.conflicts if known is not None and known.asked_only else ()
    if any((run.accepted_length or 0.0) > 1 for run in own) or (
        apart and not doubts and not checkpoints.is_own(facts.model)
    ):
        return None
    if known is not None and doubts:
        return reason("; ".join(doubts), *known.sources, weight=2.68, brief=doubts[0], risk=True)
    if apart:
        name = facts.model.name or facts.model.id
        target = known.target if known is not None else name
        text = (
            f"{plan.draft_model} is made for {target}: what {plan.model} accepts of it may differ"
        )
        brief = f"the drafter is made for other weights ({target})"
        return reason(text, "knowledge/drafters", weight=2.68, brief=brief, risk=True)
    rows = {checkpoints.address(c): c for c in reversed(knowledge.checkpoints(facts.model))}
    row = rows.get(plan.model or "")
    if row is None or row.keeps_mtp is not None or "mtp" in row.repository.lower():
        return None
    gguf = gguf_engine(plan.engine)
    text = (
        f"Whether {row.repository} keeps the MTP head is not known: look for "
        f"{'blk.*.nextn' if gguf else 'mtp.* (or one more layer)'} among its "
        f"tensors; without them the server does not start, or no draft is accepted"
    )
    brief = "the checkpoint may lack the MTP head: look for its tensors (--explain)"
    reported, sources = None if gguf else unusable_head(row.repository), ("knowledge/llms",)
    if reported is not None and reported["severity"] != "info":
        text, sources = f"{text}; reported: {reported['text']}", reported["sources"]
    return reason(text, *sources, weight=2.68, brief=brief, risk=True)


def open_part(facts: Facts, plan: Plan) -> Reason | None:
    """What a plan's drafts depend on and no estimate has: --rpc links, memory that is full."""
    if plan.method == "none":
        return None
    if any(name == "--rpc" for name, _ in plan.extra):
        text = (
            "Speculation with layers over --rpc is not predicted, as no estimate prices the link: "
            "one owner measured 1.18x to 1.26x with MTP, k=1, and once 0.77x, where 1.42x to 1.48x "
            "was expected"
        )
        brief = "speculation over --rpc is not predicted: 0.77x to 1.26x was measured"
        return reason(text, "gfx1200rpc", weight=2.69, brief=brief, risk=True)
    if not device.reserves(plan):
        return None
    bill = memory.bill(memory.replica(facts, plan), plan)
    if not device.nearly_fits(plan, bill):
        return None
    text = (
        f"The memory is billed {bill.short_gib or 0:.1f} GiB too large with speculation; launches "
        f"up to {device.BILL_ERROR_GIB:g} GiB over ran with their usual gain, and one further over "
        f"fell to 0.71x and 0.83x where 1.57x and 1.52x were expected"
    )
    brief = "with speculation it may not fit, and then falls to 0.7x (--explain)"
    return reason(text, "corral9070xt", weight=2.69, brief=brief, risk=True)


def tails(facts: Facts, plan: Plan) -> Reason | None:
    """That the slowest tokens are not predicted: a risk where long prompts share the steps."""
    if plan.method == "none":
        return None
    long = facts.load > 1 and (facts.ctx_tokens or 0) >= LONG_PROMPT
    text = (
        "P99 of TPOT and ITL is not predicted and can rise where the mean falls: a rejected draft "
        "makes single steps longer (P99 TPOT +9.8 % beside TPOT -8.4 %, one stream), and so do "
        "prompts that are computed between them (P99 ITL about 1 s at 4 x 8,192 tokens): compare "
        "P99 of both runs"
    )
    brief = "P99 ITL is not predicted (1 s at 4 x 8k, GB10): compare it in the A/B"
    return reason(text, "seed000", weight=0.95 if long else 0.35, brief=brief, risk=long)


def lengths_decide(facts: Facts, plans: Sequence[Plan], estimate: Estimate | None) -> bool:
    """Whether random text of one length is off while a plan would not be where lengths vary."""
    off = knowledge.threshold("decision_off_p_gain").value
    open_ = facts.workload == "random" and facts.output_spread is None and facts.load > 1
    if not open_ or estimate is None or not plans or not LENGTHS_TURN <= estimate.p_gain <= off:
        return False
    varied = facts.replace(output_spread=imputation.value("output_spread"))
    return bool((predict_batch([(varied, plan) for plan in plans]).chances > off).any())


def _engine(facts: Facts) -> Reason | None:
    """An engine that was asked for where the defaults name another, because of this hardware."""
    if facts.question.engine is None or facts.hardware is None or gguf_engine(facts.engine):
        return None
    engine, why = engine_default(facts.hardware)
    if not gguf_engine(engine):
        return None
    text = f"{facts.engine} was requested; {engine} is the default engine for this hardware: {why}"
    return reason(text, "knowledge/defaults.yaml", weight=2.6, brief=text.partition(": ")[0])


def _kernel_limit(facts: Facts, base: Plan) -> Reason | None:
    """What Linux must be told before an AMD processor's graphics may take more than half (ttm)."""
    if not facts.device.unified_memory or facts.device.vendor != "amd":
        return None
    arms = [propose.with_method(facts, base, m, 1) for m in methods.methods(facts)]
    bills = [memory.bill(facts, arm) for arm in (base, *arms)]
    parts = ("weights_gib", "spec_gib", "state_gib", "overhead_gib", "kv_gib")
    most = max(sum(getattr(bill, part) or 0.0 for part in parts) for bill in bills)
    usable, allowed = device.usable_gib(facts), bills[0].available_gib
    if usable is None or allowed is None or most <= usable / 2:
        return None
    text = (
        f"This takes {most:.0f} GiB, and Linux gives the graphics half of the memory unless the "
        f"kernel is started with more: ttm.pages_limit={int(allowed) * PAGES_PER_GIB} "
        f"({int(allowed)} GiB)"
    )
    brief = f"it needs {most:.0f} GiB: start the kernel with ttm.pages_limit (--explain)"
    return reason(text, "rocm-strix-halo", weight=2.75, brief=brief, risk=True)


def _idle(facts: Facts, base: Plan) -> Reason | None:
    """Replicas that have nothing to do, and what would use them."""
    requests, spare = facts.load, base.dp - facts.load
    if spare <= 0 or topology.spans(facts):
        return None
    many = "request" if requests == 1 else "requests"
    idle = f"{spare} of the {base.dp} replicas {'has' if spare == 1 else 'have'} nothing to do"
    text = f"{idle} with {requests} {many} at once: --concurrency {base.dp} gives each one work"
    return reason(text, "knowledge/llms", weight=2.2, brief=idle, risk=True)


def _data_parallel_experts(facts: Facts, base: Plan) -> Reason | None:
    """vLLM's data parallelism of experts, which is not what the estimate takes it for."""
    alone = base.dp < 2 or topology.spans(facts) or not traits(base.engine).replicas_wait
    if alone or not facts.llm.is_moe:
        return None
    share = "GPU" if base.tp == 1 else f"{base.tp} GPUs"
    text = (
        "The replicas of a mixture of experts are not independent in vLLM: --data-parallel-size "
        f"{base.dp} splits its experts over all of them, and every step waits for the slowest; the "
        f"estimate takes them as independent. {base.dp} servers, one on each {share}, are"
    )
    return reason(text, "vllm-docs-dp", weight=0.85)


def _experts(facts: Facts) -> list[Reason]:
    """Four bits with experts in system memory, where fewer bits were chosen to fit the card."""
    quant, open_ = facts.quant, facts.question.quant is None and gguf_engine(facts.engine)
    if quant is None or not open_ or not (quant.bits or limits.FOUR_BITS) < limits.FOUR_BITS:
        return []
    if (spread := offload.offload(facts)) is None:
        return []
    text = (
        f"Four bits instead of {quant.id}: {offload.words(spread)}, at a speed that is not "
        f"estimated here: the launch without speculation, with {offload.difference(spread)}"
    )
    known = offload.measurement(offload.drafts(facts, spread.plan))
    return [
        reason(text, *offload.SOURCES, weight=1.25),
        reason(known, *offload.LOSSES, *offload.EVEN, *offload.GAINS, weight=0.6),
    ]
