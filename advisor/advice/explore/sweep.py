"""The story of a sweep: each load is the question of `recommend` there, all in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

from advisor.advice import decide, judge, objectives, resolve
from advisor.advice.decide import NO_GAIN
from advisor.advice.explore.axes import Axes, axes
from advisor.advice.explore.k_ranges import LoadFacts, k_ranges
from advisor.advice.explore.values import LoadPoint, Point, Setting, Sweep, Value, break_evens
from advisor.advice.plans import methods, propose
from advisor.advice.recommend import with_own_runs
from advisor.domain.nouns import (
    AdvisorError,
    Candidate,
    Estimate,
    Evidence,
    Facts,
    Finding,
    Goal,
    MemoryBill,
    MetricEstimate,
    Plan,
    Request,
)
from advisor.domain.records import NamedTuple
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge.evidence import covering_pairs
from advisor.perf import memory
from advisor.rules.kit.policy import graphs_end

# what a point has as it was estimated
_ESTIMATED = ("p_gain", "output_tok_s", "tpot_ms", "ttft_ms", "accepted_length", "memory", "basis")


class _LoadQuestion(NamedTuple):
    """One load before it is estimated."""

    setting: Setting
    request: Request
    question: judge.PlanQuestion | None = None
    refusal: str | None = None
    lacking: tuple[tuple[int, str], ...] = ()


def sweep(
    request: Request,
    vary: Mapping[str, Sequence[Value]],
    *,
    one_limit: bool = True,
) -> Sweep:
    """Curves of gain against load, one for each k and one load for each combination of the varied
    fields. `vary` holds values of numbers of the request and of `k` (else as `recommend` weighs).
    Without `one_limit` each run has the requests at once that fit, also where TPOT decides. Raises
    AdvisorError where a field cannot be varied, or where no load can be served.
    """
    grid = axes(vary)
    base, facts = pin_choices(request)
    names = [name for name, _ in grid.fields]
    values = product(*(values for _, values in grid.fields))
    settings = [tuple(zip(names, row, strict=True)) for row in values]
    asked = _load_questions(base, settings, grid)
    if all(load.question is None for load in asked):
        raise AdvisorError(asked[0].refusal or "no load can be served")
    judged = judge.verdicts([load.question for load in asked if load.question is not None])
    loads = tuple(
        LoadPoint(setting=load.setting, request=load.request, refusal=load.refusal)
        if load.question is None
        else _answer(load, load.question.facts, next(judged)(), grid, one_limit)
        for load in asked
    )
    answered = zip(loads, asked, strict=True)
    return Sweep(
        request=base,
        facts=facts,
        axes=grid.fields,
        ks=grid.ks or tuple(sorted({p.k for load in loads for p in load.points} | {0})),
        loads=loads,
        break_even=break_evens(loads, grid.numeric),
        k_ranges=k_ranges([LoadFacts(x, y.question.facts) for x, y in answered if y.question]),
        pairs=_pairs(asked, base.goal),
    )


def pin_choices(request: Request) -> tuple[Request, Facts]:
    """The request with engine, release and quantisation chosen, and its facts."""
    facts = resolve.bare_facts(request)
    chosen = {name: word for name, word in resolve.engine_choice(facts).items() if word is not None}
    return request.replace(**chosen), facts


def _load_questions(base: Request, settings: Sequence[Setting], grid: Axes) -> list[_LoadQuestion]:
    """A question for each setting, the layouts of all in one batch."""
    requests = [base.replace(**dict(setting)) for setting in settings]
    bare = (judge.attempt(partial(resolve.bare_facts, request)) for request in requests)
    facts = [x if isinstance(x, AdvisorError) else with_own_runs(x, base) for x in bare]
    questions = iter(
        judge.candidate_questions([x for x in facts if isinstance(x, Facts)], judge.weigh)
    )
    made = []
    for setting, request, one in zip(settings, requests, facts, strict=True):
        question = one if isinstance(one, AdvisorError) else judge.attempt(next(questions))
        if isinstance(question, AdvisorError):
            made.append(_LoadQuestion(setting, request, refusal=str(question)))
            continue
        question, lacking = _with_ks(question, grid.ks) if grid.ks is not None else (question, ())
        made.append(_LoadQuestion(setting, request, question, lacking=lacking))
    return made


def _with_ks(
    question: judge.PlanQuestion, ks: Sequence[int]
) -> tuple[judge.PlanQuestion, tuple[tuple[int, str], ...]]:
    """The question with plans of exactly these k for its methods, and why others cannot run."""
    facts, base = question.facts, question.base.plan
    plans: list[Plan] = []
    bills: list[MemoryBill] = []
    lacking: list[tuple[int, str]] = []
    for method in methods.methods(facts):
        refusal = propose.no_path(facts, base, method)
        arms = [propose.with_method(facts, base, method, k) for k in ks if k > 0]
        for plan, bill in zip(arms, memory.bills(facts, arms), strict=True):
            if refusal is not None or bill.fits is False:
                full = f"k={plan.k} does not fit into the memory beside the weights"
                lacking.append((plan.k, refusal or full))
            else:
                plans.append(plan)
                bills.append(judge.replica_bill(facts, plan, bill))
    return question._replace(plans=tuple(plans), bills=tuple(bills)), tuple(lacking)


def _answer(
    load: _LoadQuestion,
    facts: Facts,
    verdict: decide.Verdict,
    grid: Axes,
    one_limit: bool,
) -> LoadPoint:
    base, *others = verdict.candidates
    chosen = verdict.best_candidate
    estimate = chosen.estimate if chosen is not None else None
    slots = decide.common_slots(facts, verdict.decision, verdict.rule, estimate)
    if slots is not None and one_limit:
        request = load.request.replace(max_num_seqs=slots)
        (again,) = _load_questions(request, [load.setting], grid)
        if again.question is not None:
            (later,) = judge.verdicts([again.question])
            return _answer(again, again.question.facts, later(), grid, one_limit)
    best = chosen.plan if chosen is not None else None
    points = [_point(facts, base, candidate) for candidate in (*others, *verdict.aside)]
    if grid.ks is None or 0 in grid.ks:
        points.insert(0, _plain(facts, base.plan, others[0].estimate if others else None))
    return LoadPoint(
        setting=load.setting,
        request=load.request,
        decision=verdict.decision,
        rule=verdict.rule,
        best_method=best.method if best is not None else None,
        best_k=best.k if best is not None else None,
        best_adaptive=best is not None and verifies_adaptively(best),
        k_rules=_codes(
            [
                finding
                for one in verdict.candidates
                for finding in one.findings
                if (finding.effect == "support" and best is not None and finding.k_best == best.k)
                or (finding.effect == "k_max" and (finding.k_max or one.plan.k) < one.plan.k)
            ]
        ),
        run_k=best.k if best is not None and verdict.decision == "on" else 0,
        points=tuple(points),
        lacking=load.lacking,
    )


def _point(facts: Facts, base: Candidate, candidate: Candidate) -> Point:
    estimate, goal = candidate.estimate, facts.aim
    assert estimate is not None  # every plan but the first speculates and was estimated
    alone = decide.decide(facts, (base, candidate))
    return Point(
        plan=candidate.plan,
        method=candidate.plan.method,
        k=candidate.plan.k,
        gain=decide.goal_interval(estimate, goal),
        adaptive=verifies_adaptively(candidate.plan),
        utility=alone.candidates[1].utility,
        decision=alone.decision,
        **{name: getattr(estimate, name) for name in _ESTIMATED},
        forbidden_by=_codes(decide.vetoes(candidate.findings)),
        documented=_codes([f for f in candidate.findings if f.effect in ("loss", "caution")]),
        running=_count_running(facts, candidate.plan, estimate.terms.get("requests_verify")),
        graphs_end=(graphs_end(facts, candidate.plan) or (None, None))[1],
        predictable=decide.tells(estimate, goal),
        p_objective=objectives.p_objective(facts.request, estimate, "value"),
    )


def _count_running(facts: Facts, plan: Plan, of_replica: float | None) -> int | None:
    """The requests that run at once in all replicas, of those that ask."""
    share = memory.replica(facts, plan).concurrency
    if of_replica is None or share is None or of_replica >= share:
        return facts.concurrency
    return int(of_replica) * plan.dp


def _codes(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.code for finding in findings}))


def _plain(facts: Facts, plan: Plan, other: Estimate | None) -> Point:
    """The point without speculation: its absolute speeds are the baselines of the others."""
    first = other or judge.estimate_plans(facts, [plan])[0]

    def plain(metric: MetricEstimate) -> MetricEstimate:
        own = {"value": metric.baseline, "value_range": metric.baseline_range}
        return metric.replace(speedup=NO_GAIN, predictable=True, **own)

    return Point(
        plan=plan,
        method="none",
        k=0,
        gain=NO_GAIN,
        p_gain=None,
        utility=0.0,
        decision="off",
        output_tok_s=plain(first.output_tok_s),
        tpot_ms=plain(first.tpot_ms),
        ttft_ms=plain(first.ttft_ms),
        memory=memory.bill(memory.replica(facts, plan), plan),
        basis=first.basis,
        running=_count_running(facts, plan, first.terms.get("requests_base")),
        p_objective=objectives.p_objective(facts.request, first, "baseline"),
    )


def _pairs(asked: Sequence[_LoadQuestion], goal: Goal) -> tuple[Evidence, ...]:
    """The measured pairs that cover a load, of the metrics of the goal, each once."""
    rows = {
        (row.run_id, row.metric): row
        for load in asked
        if load.question is not None
        for method in dict.fromkeys(plan.method for plan in load.question.plans)
        for row in covering_pairs(load.question.facts, method)
        if row.metric in decide.GOAL_METRICS[goal]
    }
    return tuple(sorted(rows.values(), key=lambda r: (r.concurrency or 0, r.k or 0, r.run_id)))
