"""One launch for a range of loads: off, one k or a k per batch size, whichever loses least."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from advisor.advice import adaptive, decide, judge
from advisor.advice.explore.k_ranges import AXIS
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import LoadPoint, Policy, Sweep
from advisor.advice.plans import topology
from advisor.advice.recommend import launch_text
from advisor.advice.wording import reason, whole_percent
from advisor.domain.nouns import Advice, Decision, Facts, Plan, Request
from advisor.domain.sourced import sourced

RANGE = sourced(5.0, "order of reasons", "own choice: before all others", "chosen")


def over_range(request: Request, least: int) -> Policy | None:
    """The policy from `least` requests on; None where nothing drafts. Raises AdvisorError."""
    vary = {AXIS: doublings(least, request.concurrency)}
    swept = sweep(request, vary)
    plans = [_plain(load) for load in _loads_with_points(swept)]
    if len({(plan.tp, plan.pp, plan.dp) for plan in plans}) > 1:
        # one server has one layout: that of the largest load
        swept = sweep(request.replace(tp=plans[-1].tp), vary)
    tried = [swept]
    drafts = next((load.best_method for load in swept.loads if load.best_method), None)
    if drafts and len({*map(topology.split_mode, plans)}) > 1:  # tensors where nothing drafts
        tried.append(sweep(request.replace(method=drafts), vary))
    return max((choose_policy(one) for one in tried if one.k_ranges), key=_speed, default=None)


def _speed(policy: Policy) -> float:
    """Mean log of the tokens per second that its launch gives over the loads."""
    loads = zip(_loads_with_points(policy.sweep), policy.ranges.loads, strict=True)
    points = [load.point(row.k, policy.ranges.method) for load, row in loads]
    values = [point.output_tok_s.value or 1.0 for point in points if point is not None]
    return sum(map(log, values)) / len(points)


def doublings(least: int, most: int) -> tuple[int, ...]:
    """Requests at once from one end to the other, each twice the one before it."""
    sizes = [least]
    while 2 * sizes[-1] < most:
        sizes.append(2 * sizes[-1])
    return (*sizes, most)


def choose_policy(swept: Sweep) -> Policy:
    """The policy of a sweep over requests at once, whose first ranges are taken."""
    served, ranges, facts = _loads_with_points(swept), swept.k_ranges[0], swept.facts
    most = max(row.k for row in ranges.loads)
    able = (point for load in served if (point := load.point(most, ranges.method)) is not None)
    plan = [point.plan for point in able][-1]
    if ranges.pays:
        plan = plan.replace(k_schedule=ranges.rows)
    elif gains := _adaptive_gains(facts, plan, served):
        plan = adaptive.with_adaptive(plan)
        pairs = zip(ranges.loads, gains, strict=True)
        ranges = ranges.replace(loads=tuple(row.replace(gain=gain) for row, gain in pairs))
    points = (
        load.point(row.k, ranges.method) for load, row in zip(served, ranges.loads, strict=True)
    )
    unsure = tuple(
        row.requests
        for row, point in zip(ranges.loads, points, strict=True)
        if row.k and (point is None or point.decision != "on")
    )
    decision: Decision = "off" if not most else "measure" if unsure else "on"
    return Policy(
        decision=decision,
        ranges=ranges,
        unsure=unsure,
        plan=plan,
        launch=launch_text(topology.on_each(facts, plan)),
        launch_off=launch_text(topology.on_each(facts, _plain(served[-1]))),
        findings=judge.judge(facts, plan, None).findings,
        sweep=swept,
    )


def _adaptive_gains(facts: Facts, plan: Plan, served: Sequence[LoadPoint]) -> list[float]:
    """The gain of adaptive verification at each load; none where it is not surely faster."""
    pairs = [[load.point(plan.k, plan.method, way) for way in (False, True)] for load in served]
    gains = [[point.gain.p50 for point in pair if point is not None] for pair in pairs]
    if any(len(pair) < 2 for pair in gains):
        return []
    more = sum(log(own / fixed) for fixed, own in gains) / len(gains)
    sure = adaptive.measure(facts, plan).beside(more) >= adaptive.SURE
    return [own for _, own in gains] if sure else []


def as_advice(policy: Policy, advice: Advice) -> Advice:
    """The answer at the largest load with the policy's launch, in every form that an answer has."""
    loads, runs = policy.ranges.loads, policy.decision == "on"
    plain, plan = _plain(_loads_with_points(policy.sweep)[-1]), policy.plan
    (estimate,) = judge.estimate_plans(advice.facts, [plan])
    worst = min(loads, key=lambda load: load.gain / load.best_gain)
    unsure = f"not surely a gain at {', '.join(map(str, policy.unsure))}; "
    text = (
        f"One launch for {loads[0].requests} to {loads[-1].requests} requests, figures of the "
        f"most: {unsure if policy.unsure else ''}beside the best of each load at worst "
        f"{whole_percent(worst.gain / worst.best_gain)}, at {worst.requests}"
    )
    return advice.replace(
        decision=policy.decision,
        plan=plan if runs else plain,
        candidate=plan,
        plan_off=plain,
        estimate=estimate,
        gain=decide.goal_interval(estimate, advice.facts.aim),
        decided_by="unsure" if policy.decision == "measure" else "estimate",
        findings=policy.findings,
        plan_findings=policy.findings if runs else advice.plan_findings,
        reasons=(reason(text, "physics core", weight=RANGE), *advice.reasons),
        launch=policy.launch if runs else policy.launch_off,
        launch_on=policy.launch,
        launch_off=policy.launch_off,
    )


def _loads_with_points(swept: Sweep) -> list[LoadPoint]:
    return [load for load in swept.loads if load.points]


def _plain(load: LoadPoint) -> Plan:
    """The plan without speculation."""
    return load.points[0].plan
