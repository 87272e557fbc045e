"""The third way beside off and a fixed block of drafts: vLLM's adaptive verification, priced.

Its price is that of the fixed block, times what the best number of verified drafts of the same cost
curve gives more, times what published pairs measured at as many tokens a step. It is a candidate
where it is faster than every fixed block with a probability of at least `SURE`, and refused where
the rules say that the release does not run it. Not known: the acceptance of single requests.
"""

from collections.abc import Callable, Iterable, Sequence
from math import exp, hypot, inf, log, log2

from advisor.advice import decide
from advisor.advice.own_runs.cells import measured_here
from advisor.advice.wording import reason, whole_percent
from advisor.domain.facts import OwnRun
from advisor.domain.nouns import Candidate, Estimate, Facts, Plan, Reason
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.domain.versions import before, release
from advisor.engines.vllm import ADAPTIVE, verifies_adaptively
from advisor.perf import memory
from advisor.perf.encoding import own_cases
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.imputation import impute
from advisor.perf.load import most_gain
from advisor.prediction.estimates import Ratio, adaptive_row, ratio_at, times
from advisor.prediction.own_runs import ALONE_FADE

Judge = Callable[[Facts, Plan, Estimate | None], Candidate]
SURE = sourced(
    0.6,
    "probability",
    "of 35 published comparisons, each priced without its owner, 2.6 % of the speed is lost so, "
    "10.5 % from 0.8 on, 12.5 % with fixed blocks alone (docs/research/adaptive.md)",
    "derived",
)
WEIGHTS = sourced(
    (0.35, 1.5), "order of reasons", "own choice: late, or before how a step is priced", "chosen"
)
REFUSED = "SD285"  # what a release does not run beside speculation


class View(NamedTuple):
    """One question's candidates with fixed blocks, and the estimates verified adaptively."""

    facts: Facts
    fixed: Sequence[Candidate]
    priced: Sequence[tuple[Plan, Estimate]]
    weight: float = 1.0


class Trial(NamedTuple):
    """Adaptive verification of the best block, a candidate of each view; what is said of it."""

    candidates: tuple[Candidate, ...] = ()
    pays: bool = False
    said: Reason | None = None


def trial(views: Sequence[View], judging: Judge) -> Trial:
    """Adaptive verification beside the same fixed blocks of one view, or of several at once."""
    columns = [c for c in zip(*(view.fixed for view in views), strict=True) if c[0].estimate]
    free = [c for c in columns if not any(decide.vetoes(one.findings) for one in c)]
    able = [block_of(plan) for plan, _ in views[0].priced]
    blocks = [column for column in free or columns if column[0].plan in able]
    if not blocks:
        return Trial()
    within = [column for column in free if all(map(decide.is_allowed, column))]

    def gain(estimates: Iterable[Estimate | None]) -> float:
        pairs = zip(views, estimates, strict=True)
        return sum(view.weight * _log_gain(view.facts, estimate) for view, estimate in pairs)

    def of_column(column: Sequence[Candidate]) -> float:
        return gain(candidate.estimate for candidate in column)

    won = [column for column in blocks if _is_proven(views, column[0].plan)]
    best, block = (max(some, key=of_column) for some in (within or free or columns, won or blocks))
    index = able.index(block[0].plan)
    plan, estimates = views[0].priced[index][0], [view.priced[index][1] for view in views]
    found = tuple(judging(v.facts, plan, e) for v, e in zip(views, estimates, strict=True))
    other = block[0].estimate.output_tok_s.speedup if block[0].estimate else None
    ratio = max((measure(view.facts, plan) for view in views), key=lambda ratio: ratio.sd)
    more = gain(estimates) - of_column(best)
    better = ratio.beside(more, None if block is best else other)
    stops = [f for c in found for f in c.findings if f.code == REFUSED and f.severity != "info"]
    limited = bool(within) and not all(map(decide.is_allowed, found))
    forbidden = limited or any(decide.vetoes(candidate.findings) for candidate in found)
    pays = (better >= SURE or bool(won)) and not stops and not forbidden
    least = f"it is a candidate from {100 * SURE:.0f} % on"
    priced = f"{whole_percent(exp(more))} beside the best fixed k={best[0].plan.k}"
    text = (
        f"No adaptive verification here: {stops[0].message}"
        if stops
        else f"Adaptive verification of k={plan.k} is priced {priced}, faster with "
        f"{100 * better:.0f} %; {'a rule allows fewer drafts' if limited else least}"
    )
    brief = f"verified adaptively {priced}, faster with {100 * better:.0f} %" if pays else ""
    said = reason(text, *adaptive_row()["sources"], weight=WEIGHTS[pays], brief=brief)
    return Trial(() if stops else found, pays, said if free else None)


def _is_proven(views: Sequence[View], plan: Plan) -> bool:
    """Whether the user's own runs of these cells verified this block adaptively and gained."""
    of_block = {(x.method, x.k) for x in views[0].facts.own_runs if own_cases.adaptive(x)}
    block = (plan.method, plan.k)
    here = (measured_here(v.facts, decide.GOAL_METRICS[v.facts.aim]) for v in views)
    return block in of_block and all(each.get(block) for each in here)


def late_unless(said: Reason | None, best: Candidate | None) -> Reason | None:
    """What is said of it, among the late reasons where the answer does not verify adaptively."""
    if said is None or (best is not None and verifies_adaptively(best.plan)):
        return said
    return said.replace(weight=min(WEIGHTS), brief="")


def runs(facts: Facts, plan: Plan) -> bool:
    """Whether the release verifies such blocks adaptively; rules know what it refuses beside."""
    row, amd = adaptive_row(), facts.hardware is not None and facts.hardware.vendor == "amd"
    since = row["amd_since" if amd else "since" if plan.method == "dspark" else "others_since"]
    block = plan.method in row["methods"] and plan.k >= row["least_k"] and not plan.k_schedule
    graphs = facts.hardware is None or facts.hardware.vendor in ("nvidia", "amd")  # it needs them
    known = plan.engine == "vllm" and graphs and release(plan.engine_version) is not None
    return block and known and not before(plan.engine_version, since)


def with_adaptive(plan: Plan) -> Plan:
    """The plan with adaptive verification on."""
    return plan.replace(extra=(*plan.extra, (ADAPTIVE, "true")))


def block_of(plan: Plan) -> Plan:
    """The plan with a fixed block."""
    return plan.replace(extra=tuple(option for option in plan.extra if option[0] != ADAPTIVE))


def fixed_blocks(plans: Sequence[Plan]) -> list[Plan]:
    """The fixed blocks that give the plans' estimates: their own, all shorter of adaptive ones."""
    every = [plan for plan in plans if not verifies_adaptively(plan)]
    for plan in filter(verifies_adaptively, plans):
        every += [one for one in _shorter(block_of(plan)) if one not in every]
    return every


def estimate(
    facts: Facts, plan: Plan, blocks: Sequence[Plan], estimates: Sequence[Estimate]
) -> Estimate:
    """The estimate of adaptive verification from those of the blocks that it needs: what the best
    of fewer verified drafts gives more, and what was measured at the tokens of this step.
    """
    shorter = [estimates[blocks.index(one)] for one in _shorter(block_of(plan))]
    own, best = shorter[-1], max(shorter, key=lambda one: one.output_tok_s.speedup.p50)
    most = float(most_gain(impute(from_plans(facts, [plan])))[0])
    # pairs were measured while all requests decode: what prompts take is not shortened
    step, speed = own.terms["cycle_ms"] / own.accepted_length.p50, own.output_tok_s.value or 0.0

    def ratio(share: float, name: str) -> Ratio:
        more, less = (log(getattr(one, name).speedup.p50) for one in (best, own))
        return measure(facts, plan).of_share(min(step * share, 1.0), more - less, most)

    made = times(
        own,
        ratio(speed / own.terms["requests_verify"] / 1e3, "output_tok_s"),
        ratio(1 / (own.tpot_ms.value or inf), "tpot_ms"),
    )
    for run in filter(own_cases.adaptive, facts.own_runs):
        ran, asked = ((x.engine, x.method, x.k) for x in (run, plan))
        gains = {name: (log, sd) for name, log, sd in run.gains}
        if ran == asked and run.model == facts.llm.id and {"output_tok_s", "tpot"} <= {*gains}:
            loads = ((run.concurrency, facts.load), (run.input_tokens, facts.ctx_tokens))
            near = exp(-ALONE_FADE * sum(abs(log2(a / b)) for a, b in loads if a and b))
            rows = (gains[name] for name in ("output_tok_s", "tpot"))
            made = times(made, *(Ratio(near * log, near * sd, keep=1 - near) for log, sd in rows))
    return made


def add_fixed_blocks(runs: Iterable[OwnRun]) -> tuple[OwnRun, ...]:
    """The own runs, and those that verified adaptively once more as what a fixed block would have
    measured there, which is less sure.
    """
    every = []
    for run in runs:
        every.append(run)
        if own_cases.adaptive(run):
            plan = dict(run.plan)
            plan["extra"] = tuple(row for row in plan["extra"] if row[0] != ADAPTIVE)
            busy = min(run.concurrency / plan.get("dp", 1), plan.get("max_num_seqs", inf))
            there = ratio_at(busy * (run.k + 1.0))
            gains = tuple(
                (name, log - there.log * (name != "ttft"), hypot(sd, there.sd))
                for name, log, sd in run.gains
            )
            every.append(run.replace(plan=tuple(plan.items()), gains=gains, derived=True))
    return tuple(every)


def of_block(candidates: Sequence[Candidate], best: int | None) -> int | None:
    """The candidate whose fixed block the best one verifies adaptively, else the best one."""
    if best is None or not verifies_adaptively(candidates[best].plan):
        return best
    return [candidate.plan for candidate in candidates].index(block_of(candidates[best].plan))


def measure(facts: Facts, plan: Plan) -> Ratio:
    """What published pairs say of steps of so many tokens."""
    requests = memory.replica(facts, plan).concurrency or 1
    return ratio_at(min(requests, plan.max_num_seqs or requests) * (plan.k + 1.0))


def _shorter(plan: Plan) -> list[Plan]:
    """The block with 1 draft to all of them."""
    return [plan.replace(k=k) for k in range(1, plan.k + 1)]


def _log_gain(facts: Facts, estimate: Estimate | None) -> float:
    return log(decide.goal_interval(estimate, facts.goal or "balanced").p50)
