"""The story of a question: Request -> Facts -> Plans -> judged candidates -> Advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from advisor import engines
from advisor.advice import adaptive, decide, judge, objectives, resolve, rivals
from advisor.advice.explain import reasons
from advisor.advice.explain.difference import Beside
from advisor.advice.explain.what_if import quicker, smaller_cache, would_change
from advisor.advice.plans import limits, offload, placement, topology
from advisor.advice.plans.placement import is_priced
from advisor.advice.resolve import facts_for_request
from advisor.advice.wording import name_of, reason
from advisor.domain.nouns import (
    Advice,
    AdvisorError,
    Candidate,
    Estimate,
    Facts,
    LaunchText,
    Plan,
    Reason,
    Request,
)
from advisor.domain.patterns import Later
from advisor.engines import k_ranges
from advisor.engines.vllm import verifies_adaptively
from advisor.engines.writer import write_file
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.prediction import estimates

if TYPE_CHECKING:
    from advisor.advice.own_runs.machine import Machine

Answered = Callable[[], tuple[Advice, list[Estimate]]]


def recommend(
    request: Request | None = None,
    *,
    machine: Machine | None = None,
    what_if: bool = True,
    **asked: Any,
) -> Advice:
    """One answer for one question: a Request, or its fields as keywords. `machine` adds the user's
    own runs; without `what_if` the answer does not say what would change it. Raises AdvisorError
    (UnknownFact for names) where the question cannot be answered.
    """
    request = request if request is not None else check_request(asked)
    request = request if machine is None else request.replace(machine=machine)
    try:
        advice, _ = answer(request, what_if)
    except AdvisorError:
        if (spilled := _with_offload(request, facts_for_request(request))) is not None:
            return spilled
        raise
    if request.machine is None:
        return advice
    from advisor.advice.own_runs.calibration import calibrated_reason  # start-up: pydantic, YAML

    return advice.replace(reasons=(calibrated_reason(request.machine, advice), *advice.reasons))


def answer(request: Request, what_if: bool = True) -> tuple[Advice, judge.PlanQuestion]:
    """The same without own runs, and its question; both runs are alike where TPOT decides."""
    question = judge.candidate_plans(with_own_runs(facts_for_request(request), request))
    candidates, beside = judge_question(question)
    advice = advise(request, candidates, beside, what_if)
    best = advice.estimate if advice.candidate is not None else None
    slots = decide.common_slots(question.facts, advice.decision, advice.decided_by, best)
    if slots is None or best is None:
        return advice, question
    alike, question = answer(request.replace(max_num_seqs=slots), what_if)
    least = question.facts.question.max_num_seqs or slots
    # without the sentence on a limit that was lowered once more
    others = alike.reasons[1:] if least < slots else alike.reasons
    free, held = advice.plan_off, alike.plan_off  # what runs meanwhile needs no limit
    same = free and held and (free.tp, free.dp) == (held.tp, held.dp) and alike.decision != "on"
    runs: dict[str, Any] = {"plan": free, "launch": advice.launch_off} if same else {}
    why = (reasons.one_limit(best, least, bool(runs)), *others)
    return alike.replace(reasons=why, request=request, **runs), question


def recommend_beside(asked: Sequence[tuple[Request, Plan]]) -> list[Answered]:
    """One answer each when it is its turn, and what the one batch of all expects of a plan that
    runs already and of the one without speculation; nothing where the answer took no batch. Each
    raises as `recommend` does.
    """
    known: dict[int, Facts] = {}
    for i, (request, _) in enumerate(asked):
        with suppress(AdvisorError):  # which `recommend` raises
            known[i] = facts_for_request(request)
    questions: dict[int, tuple[judge.PlanQuestion, judge.Others]] = {}
    for i, turn in zip(known, judge.candidate_questions([*known.values()]), strict=True):
        with suppress(AdvisorError):
            one = turn()
            billed = [(p, judge.replica_bill(one.facts, p)) for p in (asked[i][1], one.base.plan)]
            questions[i] = one, billed
    judged = dict(
        zip(questions, judge.judge_beside([*questions.values()], judge.weigh), strict=True)
    )

    def take_turn(i: int) -> tuple[Advice, list[Estimate]]:
        if i not in judged:
            return recommend(asked[i][0]), []
        candidates, beside, estimates = judged[i]()
        return advise(asked[i][0], candidates, beside, what_if=False), estimates

    return [partial(take_turn, i) for i in range(len(asked))]


def judge_question(question: judge.PlanQuestion) -> tuple[tuple[Candidate, ...], Beside]:
    """The candidates of a question, and what was asked beside their estimates."""
    facts, others = question.facts, rivals.plans(question)
    candidates, beside, estimates = judge.judge_beside([(question, others)], judge.judge)[0]()
    priced = [(plan, row) for (plan, _), row in zip(others, estimates, strict=True)]
    fixed = [c for c in candidates if not verifies_adaptively(c.plan)]
    return candidates, beside._replace(rival=partial(rivals.explain, facts, fixed, priced))


def with_own_runs(facts: Facts, request: Request) -> Facts:
    """The facts with the user's own runs of a machine, where one is named."""
    if request.machine is None:
        return facts
    from advisor.advice.own_runs.calibration import own_runs_for  # start-up: pydantic and YAML

    return facts.replace(own_runs=own_runs_for(request.machine, facts))


def check_request(asked: Mapping[str, Any]) -> Request:
    """A Request from keywords, checked; as many GPUs as `tp` if alone. Raises AdvisorError."""
    fields = dict(asked)
    if fields.get("gpus") is None:  # as on the command line
        fields["gpus"] = fields.get("tp") or 1
    if isinstance(fields.get("model"), str):
        fields["model"] = knowledge.model_path(fields["model"])
    return valid_request(fields)


def valid_request(fields: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Request:
    """A Request within its limits. Raises AdvisorError, naming the field as `names` calls it."""
    from pydantic import ValidationError

    try:
        return Request.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the request"
        field = (names or {}).get(field, field)
        raise AdvisorError(f"{field}: {first['msg'].lower()}") from None


def advise(
    request: Request, candidates: Sequence[Candidate], beside: Beside, what_if: bool = True
) -> Advice:
    """Decide, explain and write the launches; `beside`: what was asked beside the estimates."""
    facts = beside.facts
    verdict = decide.decide(facts, candidates)
    base, best = verdict.candidates[0], verdict.best_candidate
    if best is None and is_priced(facts):
        base = base.replace(estimate=judge.estimate_plans(facts, [base.plan])[0])
    running = best if best is not None and verdict.decision == "on" else base
    others = [c for i, c in enumerate(verdict.candidates) if i not in (verdict.best, 0)]
    layouts = tuple(
        x
        for i, x in enumerate(beside.layouts[:3])
        if not i or not decide.vetoes(judge.weigh(facts, x.plan, None).findings)
    )
    beside = beside._replace(adaptive=adaptive.late_unless(beside.adaptive, best), layouts=layouts)
    # of the fixed block, which was measured; what choosing among its drafts adds has its own reason
    block = verdict._replace(best=adaptive.of_block(verdict.candidates, verdict.best))
    of_limits = limits.limit_choices(memory.replica(facts, running.plan), running.plan)
    chosen = (*facts.defaults, *of_limits)
    why = Later(partial(_reasons, facts, block, beside, running.plan, chosen))
    gain = None
    if best is not None and best.estimate is not None and decide.tells(best.estimate, facts.goal):
        gain = decide.goal_interval(best.estimate, facts.aim)
    cache = smaller_cache(facts, block) if what_if else ""
    flips = Later(partial(would_change, facts, block, cache)) if what_if else ()
    facts = facts.replace(defaults=chosen)
    both = (*running.findings, *(best.findings if best is not None else ()))
    return Advice(
        request=request,
        facts=facts,
        decision=verdict.decision,
        plan=running.plan,
        candidate=best.plan if best is not None else None,
        plan_off=base.plan,
        estimate=(best or base).estimate,
        gain=gain,
        decided_by=verdict.rule,
        findings=reasons.strongest(tuple({(f.code, f.message): f for f in both}.values())),
        plan_findings=running.findings,
        reasons=tuple(why) if what_if else why,
        runners_up=tuple(sorted(others, key=lambda c: c.regret)[:3]),
        would_change=flips,
        next_layout=placement.runner_up(layouts),
        quicker=quicker(facts, block, cache) if what_if else "",
        launch=launch_text(topology.on_each(facts, running.plan)),
        launch_off=launch_text(topology.on_each(facts, base.plan)),
        launch_on=launch_text(topology.on_each(facts, best.plan)) if best is not None else None,
        measure_with=resolve.ab_commands(request) if best is not None else (),
        evidence_newest=max((row.date for row in facts.evidence), default=""),
        objective=objectives.objective(
            request, (best or base).estimate, verdict.decision, drafts=best is not None
        ),
    )


def _reasons(
    facts: Facts,
    verdict: decide.Verdict,
    beside: Beside,
    running: Plan,
    chosen: Sequence[tuple[str, str, str]],
) -> list[Reason]:
    """All that is said for and about the answer, strongest first."""
    rival = beside.rival(verdict.best_candidate) if verdict.best_candidate is not None else None
    why = [*reasons.explain(facts, verdict, beside), rival, beside.adaptive]
    for name, kind, price in chosen:
        if name == "kv_cache_dtype" and not limits.only_type(facts, running):
            text = f"KV cache in {kind} instead of 16 bits: {price}"
            brief = f"the KV cache is {kind}: compare answers and acceptance (--explain)"
            why.append(reason(text, "memory bill", weight=2.95, brief=brief, risk=True))
    return sorted((row for row in why if row is not None), key=lambda row: -row.weight)


def launch_text(plan: Plan) -> LaunchText:
    """Return the launch command of a plan."""
    adapter = engines.get(plan.engine)
    launch, files = adapter.render(adapter.to_launch(plan)), k_ranges.files(plan)
    if not files:
        return launch
    written = (write_file(name, content) for name, content in files.items())
    return launch.replace(files=files, text="\n".join((*written, launch.text)))


def _with_offload(request: Request, facts: Facts) -> Advice | None:
    """The answer where nothing fits the card: a mixture with experts in system memory; None where
    another way was asked for, or where that does not fit either.
    """
    engine = request.engine is None or engines.canonical(request.engine) == "llama-server"
    gguf = facts.quant is not None and facts.quant.family.startswith("gguf")
    free = engine and (request.quant is None or gguf) and request.engine_version is None
    if (spread := offload.offload(facts) if free else None) is None:
        return None
    same, plan = request.replace(engine="llama-server", quant=spread.quant.id), spread.plan
    try:
        asked = facts_for_request(same)
    except AdvisorError:
        return None
    drafted = offload.drafts(asked, plan)
    tpot = estimates.estimate(asked, [drafted or plan])[0].tpot_ms
    findings, launch = judge.judge(asked, plan, None).findings, launch_text(plan)
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
        reasons=(
            reason(text, *offload.SOURCES, weight=3.0, brief=brief),
            reason(
                offload.measurement(drafted),
                *offload.GAINS,
                *offload.EVEN,
                *offload.LOSSES,
                weight=2.5,
            ),
        ),
        launch=launch,
        launch_off=launch,
        launch_on=launch_text(drafted) if drafted is not None else None,
        measure_with=resolve.ab_commands(request) if drafted is not None else (),
        evidence_newest=max((row.date for row in asked.evidence), default=""),
    )
