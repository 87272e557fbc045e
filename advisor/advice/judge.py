"""Plans -> candidates: what an engine can run here, its estimate, and the findings on it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, groupby, zip_longest
from typing import TypeVar

import numpy as np

from advisor import engines, rules
from advisor.advice import adaptive, decide
from advisor.advice.adaptive import Judge
from advisor.advice.decide import METRICS, Verdict
from advisor.advice.explain import measured
from advisor.advice.explain.difference import Beside, points_of
from advisor.advice.plans import methods, placement, propose, topology
from advisor.advice.plans.memory_relief import shortfall
from advisor.domain.normal import Z10
from advisor.domain.nouns import (
    AdvisorError,
    Candidate,
    Case,
    Estimate,
    Facts,
    Finding,
    MemoryBill,
    Plan,
)
from advisor.domain.records import NamedTuple
from advisor.engines.vllm import verifies_adaptively
from advisor.perf import memory
from advisor.perf.sizes import device
from advisor.perf.steps import busy, in_steps
from advisor.prediction import estimates
from advisor.prediction.predict import Medians

Planned = tuple[Facts, Sequence[Plan], Sequence[MemoryBill]]
Written = Callable[[], list[Estimate]]  # when it is its turn
JudgedBeside = tuple[tuple[Candidate, ...], Beside, list[Estimate]]
Layouts = tuple[placement.Layout, ...]
Others = Sequence[tuple[Plan, MemoryBill]]  # plans that are priced beside those of a question
T = TypeVar("T")
_CHIP = ("SD268", "SD272")  # no engine, or no kernels of the quantisation, for this accelerator


class PlanQuestion(NamedTuple):
    """What is judged: facts, the plan without speculation, and those with it that fit."""

    facts: Facts
    base: Candidate
    plans: tuple[Plan, ...]
    bills: tuple[MemoryBill, ...]  # what each of these plans takes of one replica's memory
    layouts: tuple[placement.Layout, ...] = ()  # that fit, the one of the plans first

    @property
    def all_plans(self) -> tuple[Plan, ...]:
        """What is estimated: the plans, then adaptive verification of those that have it."""
        return (
            *self.plans,
            *(adaptive.with_adaptive(p) for p in self.plans if adaptive.runs(self.facts, p)),
        )


def candidate_plans(facts: Facts, judging: Judge | None = None) -> PlanQuestion:
    """The plans that answer a question. Raises AdvisorError where none can run."""
    return candidate_questions([facts], judging)[0]()


def candidate_questions(
    asked: Sequence[Facts], judging: Judge | None = None
) -> list[Callable[[], PlanQuestion]]:
    """Of several questions, priced in one batch: each raises AdvisorError when it is called."""

    def question(facts: Facts, layouts: Callable[[], tuple[Candidate, Layouts]]) -> PlanQuestion:
        base, left = layouts()
        fit = plans_that_fit(facts, propose.speculative_plans(facts, base.plan))
        bills = tuple(replica_bill(facts, *one) for one in fit)
        return PlanQuestion(facts, base, tuple(plan for plan, _ in fit), bills, left)

    turns = workable_layouts(asked, judging)
    return [partial(question, *one) for one in zip(asked, turns, strict=True)]


def replica_bill(facts: Facts, plan: Plan, bill: MemoryBill | None = None) -> MemoryBill:
    """What a plan takes of one replica's memory; `bill`: of all its devices, if that is at hand."""
    return (bill if plan.dp == 1 else None) or memory.bill(memory.replica(facts, plan), plan)


def workable_layouts(
    asked: Sequence[Facts], judging: Judge | None = None
) -> list[Callable[[], tuple[Candidate, Layouts]]]:
    """Of each question when it is called, all priced in one batch: the plan without speculation on
    the best layout of the GPUs that fits, with room for a drafter where one has it, and that no
    rule calls an error; and the layouts from that one on. Raises AdvisorError with the reason of
    the split that comes nearest.
    """
    fitting = [_plain_plans(facts) for facts in asked]
    layouts = placement.order_layouts([(x, one.fit) for x, one in zip(asked, fitting, strict=True)])
    rows = zip(asked, fitting, layouts, strict=True)
    return [partial(_workable, facts, judging, fits, those) for facts, fits, those in rows]


def attempt(make: Callable[[], T]) -> T | AdvisorError:
    """What is made, or why it cannot be."""
    try:
        return make()
    except AdvisorError as error:
        return error


class _Fitting(NamedTuple):
    """The plans without speculation that fit, before a layout is chosen."""

    fit: list[Plan]
    refusals: list[tuple[float, str]]  # GiB short, why
    last: Plan | None = None  # that was tried
    error: AdvisorError | None = None  # where none may be tried


def _plain_plans(facts: Facts) -> _Fitting:
    fit: list[Plan] = []
    refusals: list[tuple[float, str]] = []
    plan = None
    try:
        for plan in (p for x in propose.splits(facts) for p in propose.base_plans(facts, x)):
            if plan.dp > 1 and plan.engine not in memory.SERVERS:
                share = memory.replica(facts, plan)
                raise AdvisorError(
                    f"{plan.engine} has no replicas, it spreads its layers over all {facts.gpus} "
                    f"GPUs: leave --tp out, or request one of {plan.dp} servers with --gpus "
                    f"{plan.tp} --concurrency {share.concurrency}"
                )
            bill = memory.bill(facts, plan)
            if bill.fits is False:
                refusals.append((bill.short_gib or 0.0, shortfall(facts, plan, bill)))
            else:
                fit.append(plan)
    except AdvisorError as error:
        return _Fitting([], [], error=error)
    return _Fitting(fit, refusals, plan)


def _workable(
    facts: Facts, judging: Judge | None, fits: _Fitting, layouts: Layouts
) -> tuple[Candidate, Layouts]:
    """The first layout that no rule refuses and that has room for a drafter."""
    if fits.error is not None:
        raise fits.error
    tight: tuple[Candidate, Layouts] | None = None
    plan, refusals = fits.last, fits.refusals
    for i, (plan, *_) in enumerate(layouts):
        candidate = (judging or judge)(facts, plan, None)
        if errors := [f for f in candidate.findings if f.severity == "error"]:
            refusals.append((-1.0, _refusal(errors[0])))  # it fits, so this stands in the way
            continue
        able = (m for m in methods.methods(facts) if propose.no_path(facts, plan, m) is None)
        first = [propose.with_method(facts, plan, method, 1) for method in able]
        if not first or any(memory.bill(facts, arm).fits is not False for arm in first):
            return candidate, layouts[i:]
        tight = tight or (candidate, layouts[i:])  # no room for a method that could run
    if tight is not None:
        return tight
    # the other questions of "what would change" need no better reason
    for finding in (
        judge(facts, plan, None).findings if not judging and refusals[-1][0] >= 0 and plan else ()
    ):
        if finding.code in _CHIP and finding.severity == "error":  # no memory would help
            raise AdvisorError(_refusal(finding))
    raise AdvisorError(min(refusals, key=lambda refusal: refusal[0])[1])


def _refusal(error: Finding) -> str:
    fix = f"; {error.fix.text}" if error.fix is not None else ""
    return f"this setup cannot be served: {error.message} [{error.code}]{fix}"


def estimate_plans(facts: Facts, plans: Sequence[Plan]) -> list[Estimate]:
    """One estimate per plan, of all its replicas."""
    return estimate_questions([(facts, plans, ())])[0][0]()


def estimate_questions(
    questions: Sequence[Planned], loads: Sequence[tuple[Facts, Plan]] = ()
) -> tuple[list[Written], Medians]:
    """The same for several questions in one call, each written out when it is its turn; and the
    medians of the loads beside them. Bills: of one replica of the first plans, if at hand.
    """
    blocks = [adaptive.fixed_blocks(plans) for _, plans, _ in questions]
    pairs = [(facts, own) for (facts, _, _), own in zip(questions, blocks, strict=True)]
    steps = (in_steps(facts, own, topology.board_gpus(facts)) for facts, own in pairs)
    if not (cases := [*chain.from_iterable(steps)]):
        return [list for _ in questions], Medians(np.empty(0), {})
    batch = estimates.predict_batch(cases, beside=points_of(loads))
    starts = accumulate(map(len, blocks[:-1]), initial=0)
    written: list[Written] = [
        partial(_slice_estimates, batch, start, asked)
        for start, asked in zip(starts, questions, strict=True)
    ]
    return written, batch.story.beside


def verdicts(questions: Sequence[PlanQuestion]) -> Iterator[Callable[[], Verdict]]:
    """The verdict on each question by what can change it; one estimate for the same runs."""
    for _, group in groupby(questions, key=lambda question: question.facts.own_runs):
        alike = list(group)
        written, _ = estimate_questions([(one.facts, one.all_plans, one.bills) for one in alike])
        for question, later in zip(alike, written, strict=True):
            yield partial(_verdict, question, later)


def _verdict(question: PlanQuestion, later: Written) -> Verdict:
    candidates, third = judge_plans(question, later(), weigh)
    aside = () if third.pays else third.candidates
    return decide.decide(question.facts, candidates)._replace(aside=aside)


def judge_beside(
    asked: Sequence[tuple[PlanQuestion, Others]], judging: Judge
) -> list[Callable[[], JudgedBeside]]:
    """Of each question when it is its turn, estimated in one call: the candidates, what was asked
    beside them, and the estimates of its other plans.
    """
    planned: list[Planned] = []
    for question, others in asked:
        billed = [*zip(question.plans, question.bills, strict=True), *others]
        plans = (*(plan for plan, _ in billed), *question.all_plans[len(question.plans) :])
        planned.append((question.facts, plans, [bill for _, bill in billed]))
    loads = [load for q, _ in asked for load in measured.loads(q.facts, q.plans)]
    written, medians = estimate_questions(planned, loads)

    def take_turn(question: PlanQuestion, others: Others, later: Written) -> JudgedBeside:
        estimates, first = later(), len(question.plans)
        last = first + len(others)
        candidates, third = judge_plans(question, [*estimates[:first], *estimates[last:]], judging)
        beside = Beside(question.facts, question.layouts, loads, medians, adaptive=third.said)
        return candidates, beside, estimates[first:last]

    return [partial(take_turn, *one, later) for one, later in zip(asked, written, strict=True)]


def _slice_estimates(batch: estimates.Batch, start: int, asked: Planned) -> list[Estimate]:
    """The estimates of one of several questions: those of the batch from `start` on."""
    facts, plans, bills = asked
    blocks = adaptive.fixed_blocks(plans)  # those of the plans first, in their order
    pairs = zip(plans, bills, strict=False)
    bills = [bill for plan, bill in pairs if not verifies_adaptively(plan)]
    written = [
        _of_all(batch.estimate(start + i, bill), busy(facts, plan))
        for i, (plan, bill) in enumerate(zip_longest(blocks, bills))
    ]
    own = iter(written)
    rows = [
        adaptive.estimate(facts, plan, blocks, written) if verifies_adaptively(plan) else next(own)
        for plan in plans
    ]
    if facts.hardware is None or placement.is_priced(facts):
        return rows
    bare = {"baseline": None, "value": None, "baseline_range": None, "value_range": None}
    return [  # with ratios alone
        row.replace(**{name: getattr(row, name).replace(**bare) for name in METRICS})
        for row in rows
    ]


def judge_plans(
    asked: PlanQuestion, estimates: Sequence[Estimate], judging: Judge | None = None
) -> tuple[tuple[Candidate, ...], adaptive.Trial]:
    """The plan without speculation, then the others with their estimates (of all that is estimated)
    and findings, with adaptive verification of the best where that pays; and what it is worth.
    """
    judging, count = judging or judge, len(asked.plans)
    rows = [*zip(asked.all_plans, estimates, strict=True)]
    fixed = (asked.base, *(judging(asked.facts, *row) for row in rows[:count]))
    third = adaptive.trial([adaptive.View(asked.facts, fixed, rows[count:])], judging)
    return (*fixed, *(third.candidates if third.pays else ())), third


def _of_all(estimate: Estimate, replicas: float) -> Estimate:
    """An estimate of one replica as that of all: only tokens per second add up."""
    rate = estimate.output_tok_s
    if replicas == 1 or rate.baseline is None or rate.baseline_range is None:
        return estimate
    plain = float(np.log(rate.baseline_range.p90 / rate.baseline_range.p10)) / (2 * Z10)
    whole = estimates.with_levels(rate.speedup, replicas * rate.baseline, plain)
    return estimate.replace(output_tok_s=whole)


def case_of(facts: Facts, plan: Plan, estimate: Estimate | None = None) -> Case:
    """A plan as rules see it, with its launch. Raises AdvisorError if it cannot be written."""
    launch = engines.get(plan.engine).to_launch(topology.on_each(facts, plan))
    return Case(facts=facts, plan=plan, estimate=estimate, launch=launch)


def judge(facts: Facts, plan: Plan, estimate: Estimate | None) -> Candidate:
    """A plan with what every rule says of it."""
    findings = rules.check(case_of(facts, plan, estimate))[0]
    return Candidate(plan=plan, estimate=estimate, findings=findings)


def weigh(facts: Facts, plan: Plan, estimate: Estimate | None) -> Candidate:
    """A plan with what can change the decision only, where no more than that is told."""
    findings = rules.decisive_findings(case_of(facts, plan, estimate))
    return Candidate(plan=plan, estimate=estimate, findings=findings)


def plans_that_fit(facts: Facts, plans: Sequence[Plan]) -> list[tuple[Plan, MemoryBill]]:
    """The plans that fit, each with its bill; else those too large by no more than bills err."""
    billed = [*zip(plans, memory.bills(facts, plans), strict=True)]
    fit = [(plan, bill) for plan, bill in billed if bill.fits is not False]
    return fit or [(plan, bill) for plan, bill in billed if device.nearly_fits(plan, bill)]
