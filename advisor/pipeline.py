"""The story: a request becomes facts, plans, judged candidates and advice; a file becomes launches and findings.

Each function reads on one screen; the stages live in knowledge, propose, predict, rules, decide and reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor import decide, knowledge, propose, reasons, rules
from advisor import predict as predictor
from advisor.types import Advice, AdvisorError, Candidate, Case, Estimate, Facts, Finding, LaunchText, Plan, Request

if TYPE_CHECKING:
    from advisor.validating import Report


def recommend(request: Request | None = None, **asked: Any) -> Advice:
    """One answer for one question.

    Takes a Request, or its fields as keywords (`hardware="gb10", concurrency=16, ctx_tokens=2048`).
    Raises AdvisorError (UnknownFact for names) with one sentence when the question cannot be answered as asked.
    """
    question = request if request is not None else Request(**asked)
    facts = knowledge.resolve(question)
    plans = fitting(facts, propose.plans(facts))
    estimates = estimate_plans(facts, plans)
    candidates = tuple(judge(facts, plan, estimate) for plan, estimate in zip(plans, estimates, strict=True))
    return advise(question, facts, candidates)


def estimate_plans(facts: Facts, plans: Sequence[Plan]) -> list[Estimate | None]:
    """One estimate per speculative plan, None for the plan without speculation."""
    speculative = [plan for plan in plans if plan.method != "none"]
    found = iter(predictor.estimate(facts, speculative) if speculative else [])
    return [None if plan.method == "none" else next(found) for plan in plans]


def judge(facts: Facts, plan: Plan, estimate: Estimate | None) -> Candidate:
    """A plan with what every rule says of it."""
    findings, _ = rules.check(Case(facts=facts, plan=plan, estimate=estimate))
    return Candidate(plan=plan, estimate=estimate, findings=findings)


def fitting(facts: Facts, plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The plans whose memory bill fits. Raises AdvisorError when even the plan without speculation does not."""
    from advisor import memory

    bills = [memory.bill(facts, plan) for plan in plans]
    if bills[0].fits is False:
        raise AdvisorError(memory.shortfall(facts, plans[0], bills[0]))
    return tuple(plan for plan, bill in zip(plans, bills, strict=True) if bill.fits is not False)


def advise(request: Request, facts: Facts, candidates: Sequence[Candidate]) -> Advice:
    """Decide, explain and write the launches."""
    verdict = decide.decide(facts, candidates)
    base = verdict.candidates[0]
    best = verdict.candidates[verdict.best] if verdict.best is not None else None
    running = best if best is not None and verdict.decision == "on" else base
    others = [c for i, c in enumerate(verdict.candidates) if c is not running and i != verdict.best]
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
