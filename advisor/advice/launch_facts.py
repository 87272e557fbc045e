"""From a launch that was read to Facts: what it says, and what the caller adds."""

from typing import cast

from advisor.advice.plans import checkpoints
from advisor.domain.nouns import LLM, Facts, Launch, Plan, Quant, Workload
from advisor.domain.question import LIMITS
from advisor.knowledge import store as knowledge
from advisor.knowledge.evidence import nearest_pairs
from advisor.perf.steps import batches


def launch_facts(
    launch: Launch,
    plan: Plan,
    *,
    hw: str | None = None,
    gpus: int | None = None,
    concurrency: int | None = None,
    ctx_tokens: int | None = None,
    output_tokens: int | None = None,
    workload: str | None = None,
) -> Facts:
    """What a launch tells and the caller adds; rules of a part that is None are skipped."""
    named = plan.model or launch.model or ""
    model = knowledge.llm_from_text(named) or knowledge.llm_from_text(plan.served_model_name or "")
    quant = _quant(model, named, plan)
    published = model.checkpoints if model is not None and named else ()
    same = [c for c in published if f"{named}:".lower().startswith(f"{c.repository.lower()}:")]
    container = launch.container
    hw = hw or (container.gpu_kind if container is not None else None)
    hardware = knowledge.hardware(hw) if hw else None
    linked = sum(len((hosts or "").split(",")) for name, hosts in plan.extra if name == "--rpc")
    parallel = max(plan.tp, 1) * max(batches(plan), 1)
    facts = Facts(
        hardware=hardware,
        model=model,
        shape=knowledge.known_shape(model) if model else None,
        quant=quant,
        checkpoint=min(same, key=lambda c: quant is None or c.quant != quant.id, default=None),
        engine=launch.engine,
        engine_version=launch.engine_version,
        gpus=gpus or min(parallel + linked, int(LIMITS["gpus"][1])),
        interconnect="ethernet" if linked else None,
        tp=plan.tp,
        concurrency=concurrency,
        ctx_tokens=ctx_tokens,
        output_tokens=output_tokens,
        workload=cast("Workload | None", workload),
        temperature=model.temperature(workload) if model else None,
        thinking=model.thinking_default if model else None,
        drafters=knowledge.drafters(model) if model else (),
    )
    if hardware is None or model is None or plan.method == "none":
        return facts  # only what is said of speculation rests on measured pairs
    return facts.replace(evidence=nearest_pairs(facts))


def _quant(model: LLM | None, named: str, plan: Plan) -> Quant | None:
    """The first that our own launches of this very file are priced with, else what names tell."""
    for known in model.checkpoints if model is not None else ():
        if known.file is not None and checkpoints.address(known).lower() == named.lower():
            return knowledge.quant(known.quant)
    quant = knowledge.quant_from_text(named)
    if plan.quantization and (quant is None or quant.id == checkpoints.FULL):  # made at load
        quant = knowledge.quant_from_text(plan.quantization) or quant
    return quant
