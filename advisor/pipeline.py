"""The story: a request becomes facts, plans, judged candidates and advice; a file becomes launches and findings.

Each function reads on one screen; the stages live in knowledge, propose, predict, rules, decide and reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor import decide, k_schedule, knowledge, predictor, propose, reasons, rules
from advisor.types import Advice, AdvisorError, Candidate, Case, Estimate, Facts, Finding, LaunchText, Plan, Request

if TYPE_CHECKING:
    from advisor.validating import Report


def recommend(request: Request | None = None, **asked: Any) -> Advice:
    """One answer for one question.

    Takes a Request, or its fields as keywords (`hardware="gb10", concurrency=16, ctx_tokens=2048`).
    Raises AdvisorError (UnknownFact for names) with one sentence when the question cannot be answered as asked.
    """
    question = request if request is not None else checked(asked)
    facts = knowledge.resolve(question)
    base = workable_base(facts)
    plans = fitting(facts, propose.speculative_plans(facts, base.plan))
    estimates = predictor.estimate(replica(facts, base.plan), plans) if plans else []
    judged = tuple(judge(facts, plan, estimate) for plan, estimate in zip(plans, estimates, strict=True))
    return advise(question, facts, (base, *judged))


def checked(asked: Mapping[str, Any]) -> Request:
    """A Request from keywords, with types and ranges checked. Raises AdvisorError with one sentence."""
    from pydantic import ValidationError

    try:
        request = Request.model_validate(dict(asked))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the request"
        raise AdvisorError(f"{field}: {first['msg'].lower()}") from None
    for name in ("gpus", "concurrency", "ctx_tokens", "output_tokens"):
        if getattr(request, name) < 1:
            raise AdvisorError(f"{name} is {getattr(request, name)}: it must be at least 1")
    return request


def workable_base(facts: Facts) -> Candidate:
    """The plan without speculation on the first split of the GPUs that fits and that no rule calls an error.

    Raises AdvisorError with the reason of the preferred split when there is none.
    """
    from advisor import memory

    refusal = ""
    for split in propose.splits(facts):
        plan = propose.base_plan(facts, split)
        bill = memory.bill(facts, plan)
        if bill.fits is False:
            refusal = refusal or memory.shortfall(facts, plan, bill)
            continue
        candidate = judge(facts, plan, None)
        errors = [f for f in candidate.findings if f.severity == "error"]
        if not errors:
            return candidate
        fix = f"; {errors[0].fix.text}" if errors[0].fix is not None else ""
        refusal = refusal or f"this cannot be served as asked: {errors[0].message} [{errors[0].code}]{fix}"
    raise AdvisorError(refusal)


def replica(facts: Facts, plan: Plan) -> Facts:
    """The facts as one of `dp` replicas sees them: its share of the concurrent requests."""
    if plan.dp == 1:
        return facts
    return facts.model_copy(update={"concurrency": -(-(facts.concurrency or 1) // plan.dp), "gpus": plan.tp})


def judge(facts: Facts, plan: Plan, estimate: Estimate | None) -> Candidate:
    """A plan with what every rule says of it."""
    findings, _ = rules.check(Case(facts=facts, plan=plan, estimate=estimate))
    return Candidate(plan=plan, estimate=estimate, findings=findings)


def fitting(facts: Facts, plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The plans whose memory bill fits."""
    from advisor import memory

    return tuple(plan for plan in plans if memory.bill(facts, plan).fits is not False)


def advise(request: Request, facts: Facts, candidates: Sequence[Candidate]) -> Advice:
    """Decide, explain and write the launches."""
    verdict = decide.decide(facts, candidates)
    base = verdict.candidates[0]
    best = verdict.candidates[verdict.best] if verdict.best is not None else None
    if best is not None and verdict.decision == "on":
        best = scheduled(facts, verdict.candidates, best)
    running = best if best is not None and verdict.decision == "on" else base
    others = [c for i, c in enumerate(verdict.candidates) if i not in (verdict.best, 0)]
    told = reasons.explain(facts, verdict)
    return Advice(
        request=request,
        facts=facts,
        decision=verdict.decision,
        plan=running.plan,
        candidate=best.plan if best is not None else None,
        estimate=best.estimate if best is not None else None,
        findings=merged(running, best),
        plan_findings=running.findings,
        reasons=told,
        runners_up=tuple(sorted(others, key=lambda c: c.regret)[:3]),
        would_change=reasons.would_change(facts, verdict),
        launch=launch_text(running.plan),
        launch_off=launch_text(base.plan),
        launch_on=launch_text(best.plan) if best is not None else None,
        measure_with=measure_commands(facts, base.plan) if verdict.decision == "measure" else (),
        evidence_newest=max((e.date for e in facts.evidence if e.date), default=""),
    )


def scheduled(facts: Facts, candidates: Sequence[Candidate], best: Candidate) -> Candidate:
    """The same candidate with a k per batch size where that pays and no rule speaks against it."""
    if not k_schedule.takes_one(best.plan):
        return best
    ranges = k_schedule.schedule(facts, [c.plan for c in candidates if not decide.vetoes(c.findings)], best.plan)
    if not ranges:
        return best
    plan = best.plan.model_copy(update={"k_schedule": ranges, "k": max(k for _, _, k in ranges)})
    judged = judge(facts, plan, best.estimate)
    known = {f.code for f in best.findings}
    against = [f for f in judged.findings if f.code not in known and f.severity != "info"]
    return best if against else best.model_copy(update={"plan": plan, "findings": judged.findings})


def merged(running: Candidate, best: Candidate | None) -> tuple[Finding, ...]:
    """Findings of the plan to run and of the best speculative candidate, each once, worst first."""
    both = (*running.findings, *(best.findings if best is not None else ()))
    return reasons.strongest(tuple({(f.code, f.message): f for f in both}.values()))


def launch_text(plan: Plan) -> LaunchText:
    from advisor import engines

    adapter = engines.get(plan.engine)
    return adapter.render(adapter.to_launch(plan))


def measure_commands(facts: Facts, plan: Plan) -> tuple[str, ...]:
    """The benchmark to run against each arm of the A/B."""
    from advisor import engines

    return (engines.get(plan.engine).benchmark_command(plan, facts),)


def validate(source: Any, **options: Any) -> Report:
    """Read a serving configuration and judge it; see advisor.validating.validate."""
    from advisor.validating import validate as run

    return run(source, **options)


def compose(request: Request | None = None, **asked: Any) -> str:
    """A docker-compose file for the recommended launch."""
    from advisor.render.compose import compose_yaml

    return compose_yaml(recommend(request, **asked))


def predict(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predicted speed-ups for rows with the columns of the measurement table; one result per row, in order."""
    return predictor.predict_dicts(rows)


def explain(code: str) -> str:
    """The text of one rule: why, bad, good, sources."""
    return rules.explain(code)
