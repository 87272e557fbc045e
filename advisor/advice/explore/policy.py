"""One launch for a range of loads, which count alike: off, one k or a k per batch size, whichever
loses least over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.advice import judge
from advisor.advice.explore.k_ranges import AXIS
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import LoadPoint, Policy, Sweep
from advisor.advice.plans import topology
from advisor.advice.recommend import launch_text
from advisor.domain.nouns import Decision, Plan, Request

if TYPE_CHECKING:
    from advisor.advice.own_runs.machine import Machine


def over_range(request: Request, least: int, machine: Machine | None = None) -> Policy | None:
    """The policy from `least` requests at once to those of the request; None where nothing can
    draft. Raises AdvisorError where no load can be served.
    """
    sizes = [least]
    while 2 * sizes[-1] < request.concurrency:
        sizes.append(2 * sizes[-1])
    vary = {AXIS: (*sizes, request.concurrency)}
    swept = sweep(request, vary, machine=machine)
    if len({(plan.tp, plan.pp, plan.dp) for plan in map(_plain, _loads_with_points(swept))}) > 1:
        # one server has one layout: that of the largest load
        pinned = {"tp": _plain(_loads_with_points(swept)[-1]).tp}
        swept = sweep(request.model_copy(update=pinned), vary, machine=machine)
    return choose_policy(swept) if swept.k_ranges else None


def choose_policy(swept: Sweep) -> Policy:
    """The policy of a sweep over requests at once, whose first ranges are taken."""
    served, ranges = _loads_with_points(swept), swept.k_ranges[0]
    most = max(row.k for row in ranges.loads)
    able = (point for load in served if (point := load.point(most, ranges.method)) is not None)
    plan = [point.plan for point in able][-1]
    if ranges.pays:
        plan = plan.model_copy(update={"k_schedule": ranges.rows})
    points = (
        load.point(row.k, ranges.method) for load, row in zip(served, ranges.loads, strict=True)
    )
    unsure = tuple(
        row.requests
        for row, point in zip(ranges.loads, points, strict=True)
        if row.k and (point is None or point.decision != "on")
    )
    decision: Decision = "off" if not most else "measure" if unsure else "on"
    facts = swept.facts
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


def _loads_with_points(swept: Sweep) -> list[LoadPoint]:
    return [load for load in swept.loads if load.points]


def _plain(load: LoadPoint) -> Plan:
    """The plan without speculation."""
    return load.points[0].plan
