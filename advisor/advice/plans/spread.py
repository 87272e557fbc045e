"""The answer where nothing fits the card: a mixture of experts with experts in system memory."""

from __future__ import annotations

from advisor import engines
from advisor.advice import resolve
from advisor.advice.judge import judge
from advisor.advice.plans import offload
from advisor.advice.wording import name_of, reason
from advisor.domain.nouns import Advice, AdvisorError, Facts, Request
from advisor.prediction import estimates


def answer(request: Request, facts: Facts) -> Advice | None:
    """The advice; None where another way was asked for, or where no spreading fits."""
    engine = request.engine is None or engines.canonical(request.engine) == "llama-server"
    gguf = facts.quant is not None and facts.quant.family.startswith("gguf")
    free = engine and (request.quant is None or gguf) and request.engine_version is None
    spread = offload.offload(facts) if free else None
    if spread is None:
        return None
    change, plan = {"engine": "llama-server", "quant": spread.quant.id}, spread.plan
    try:
        asked = resolve.facts_for_request(request.model_copy(update=change))
    except AdvisorError:
        return None
    drafted = offload.drafts(asked, plan)
    tpot = estimates.estimate(asked, [drafted or plan])[0].tpot_ms
    adapter = engines.get(plan.engine)
    findings = judge(asked, plan, None).findings
    launch = adapter.render(adapter.to_launch(plan))
    base, gain = tpot.baseline_range, tpot.speedup
    assert base is not None  # every estimate has it
    middle, low, high = (f"{1e3 / ms:.0f}" for ms in (base.p50, base.p90, base.p10))
    speed = f"about {middle} tokens/s a request ({low} to {high})"
    if drafted is not None:
        speed += f" and {gain.p50:.2f}x that ({gain.p10:.2f} to {gain.p90:.2f}) at k = {drafted.k}"
    text = (
        f"Nothing fits {name_of(asked.hardware, request.hardware)} whole; "
        f"{offload.words(spread)} does, at {speed}; the bandwidth of the system memory sets the "
        "speed, and a machine with less memory cannot run it"
    )
    brief = f"nothing fits whole; {offload.words(spread)} does"
    measured = (*offload.GAINS, *offload.EVEN, *offload.LOSSES)
    reasons = (
        reason(text, *offload.SOURCES, weight=3.0, brief=brief),
        reason(offload.measurement(drafted), *measured, weight=2.5),
    )
    return Advice(
        request=request,
        facts=asked,
        decision="measure" if drafted is not None else "off",
        plan=plan,
        candidate=drafted,
        plan_off=plan,
        gain=gain if drafted is not None else None,
        decided_by="spread" if drafted is not None else "no_method",
        findings=findings,
        plan_findings=findings,
        reasons=reasons,
        launch=launch,
        launch_off=launch,
        launch_on=adapter.render(adapter.to_launch(drafted)) if drafted is not None else None,
        measure_with=resolve.ab_commands(request) if drafted is not None else (),
        evidence_newest=max((row.date for row in asked.evidence if row.date), default=""),
    )
