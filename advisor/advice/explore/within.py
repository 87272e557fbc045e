"""The largest load that keeps latency objectives (of the mean), and what tokens cost."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, cast

from advisor.advice.explore.axes import series
from advisor.advice.explore.mix import milliseconds
from advisor.advice.explore.sweep import pin_choices, sweep
from advisor.advice.explore.values import Arm, Bound, LoadPoint, Point, Rate, Sweep, Within
from advisor.domain.nouns import LIMITS, Advice, AdvisorError, Request
from advisor.domain.printable import printable
from advisor.domain.sourced import sourced
from advisor.engines.vllm import verifies_adaptively

MOST = 2048  # requests at once that are tried
LIKELY = sourced(
    0.5, "probability", "the largest load that keeps the objectives as likely as not", "chosen"
)
SURE = sourced(
    0.9, "probability", "the load at which the objectives are kept nearly surely", "chosen"
)


def objectives(text: str) -> dict[str, float]:
    """`tpot=50ms,ttft=2s` -> fields of a Request in milliseconds. Raises AdvisorError."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        field = f"max_{name.strip().lower()}_ms"
        limit = milliseconds(value)
        if field not in ("max_tpot_ms", "max_ttft_ms") or field in limits or limit is None:
            raise AdvisorError(
                f"'{printable(str(part), 40)}': write objectives as tpot=50ms,ttft=2s (one or "
                "both, once each)"
            )
        low, high = LIMITS[field]
        if not low <= limit <= high:
            raise AdvisorError(
                f"'{printable(str(part), 40)}' is no time from {low:g} to {high:g} ms"
            )
        limits[field] = limit
    return limits


def users_within(
    request: Request, limits: dict[str, float], ks: Sequence[int] | None = None
) -> tuple[Within, ...]:
    """The largest loads that are served for each k (without speculation first), of those up to MOST
    requests at once. Raises AdvisorError where the request cannot be served at all.
    """
    asked = request.replace(**limits)
    vary: dict[str, Any] = {
        "concurrency": sorted({*series(1, MOST, 34), min(request.concurrency, MOST)})
    }
    if ks is not None:
        vary["k"] = sorted({0, *ks})
    rough = sweep(asked, vary, one_limit=False).loads
    every = [{point.arm for point in load.points} for load in rough if load.points]
    arms = set().union(*every)
    # of adaptive verification a load has the best block alone
    missing = {arm for arm in arms if arm[2] and not all(arm in one for one in every)}
    arms -= missing
    tries = [[_Try(load, arm) for load in rough] for arm in arms]
    edges = {size for each in tries for least in (LIKELY, SURE) for size in _between(each, least)}
    vary |= {"concurrency": sorted(edges)}
    fine = sweep(asked, vary, one_limit=False).loads if edges else ()
    loads = sorted((*rough, *fine), key=lambda load: load.request.concurrency)
    found = [_within([_Try(load, arm) for load in loads]) for arm in arms]
    for _, k, _ in missing if ks is None or len(ks) > 1 else ():
        found += [row for row in users_within(request, limits, (k,)) if row.adaptive]
    return tuple(sorted(found, key=lambda row: (row.k, row.adaptive)))


def with_users(advice: Advice) -> Advice:
    """The answer with the users that each run serves within its objectives, as a sweep counts them;
    as it is where it has none.
    """
    objective = advice.objective
    if objective is None:
        return advice
    limits = ((name, getattr(objective, name)) for name in ("max_tpot_ms", "max_ttft_ms"))
    plan = advice.candidate
    k = plan.k if plan is not None else 0
    drafts = (k, plan is not None and verifies_adaptively(plan))
    request, _ = pin_choices(advice.request)
    given = {name: limit for name, limit in limits if limit is not None}
    arms = {(row.k, row.adaptive): row for row in users_within(request, given, (k,))}
    counts = {
        name: row.sure if row.sure is not None or row.sure_bound == "search" else 0
        for name, arm in (("users_without", (0, False)), ("users", drafts if k else None))
        if arm is not None and (row := arms.get(arm)) is not None
    }
    return advice.replace(objective=objective.replace(**counts))


def complete(swept: Sweep, limits: dict[str, float], rate: Rate) -> Sweep:
    """The sweep with the loads within objectives, if any, and what tokens cost at each point."""

    def at(point: Point) -> Point:
        speed = point.output_tok_s.value or 0.0
        costs = {"cost_per_million": rate.cost(speed), "kwh_per_million": rate.energy_kwh(speed)}
        return point.replace(**costs)

    within = users_within(swept.request, limits, swept.ks) if limits else ()
    loads = (load.replace(points=(*map(at, load.points),)) for load in swept.loads)
    return swept.replace(within=within, loads=(*loads,))


def with_costs(advice: Advice, rate: Rate) -> Advice:
    """The answer with what a million output tokens cost, without speculation and with it."""
    if advice.estimate is None or rate.per_hour is None:
        return advice
    speeds = advice.estimate.output_tok_s
    costs = tuple(rate.cost(x or 0.0) for x in (speeds.baseline, speeds.value))
    return advice.replace(cost_per_million=costs)


class _Try:
    """One k at one load."""

    def __init__(self, load: LoadPoint, arm: Arm) -> None:
        """Ask what is needed of the point, if this k runs there."""
        self.size, self.arm = cast(int, dict(load.setting)["concurrency"]), arm
        self.chance: float | None = None  # of keeping to the objectives
        self.slots: int | None = None  # requests that run at once, where others wait unasked
        method, k, adaptive = arm
        if (point := load.point(k, method, adaptive)) is not None:
            self.chance = point.p_objective
            waits = point.running is not None and point.running < self.size
            if waits and load.request.max_ttft_ms is None:  # which holds the wait of the others
                self.slots = point.running


def _count_kept(tries: Sequence[_Try], least: float) -> int:
    """How many of the loads, from the smallest on, are served with at least this probability: what
    more requests keep, fewer keep as well.
    """
    served = enumerate(takewhile(lambda at: at.slots is None, tries), 1)
    return max((i for i, at in served if (at.chance or 0.0) >= least), default=0)


def _between(tries: Sequence[_Try], least: float) -> set[int]:
    """Loads to try between the last one kept and the first one that is not."""
    count = _count_kept(tries, least)
    if count in (0, len(tries)):
        return set()
    low, high, slots = tries[count - 1].size, tries[count].size, tries[count].slots
    sizes = {cast(int, size) for size in series(low, high, 12)} | ({slots} if slots else set())
    return {size for size in sizes if low < size < high}


def _largest(tries: Sequence[_Try], least: float) -> tuple[_Try | None, Bound]:
    """The largest load that is served with at least this probability, and what bounds it."""
    count = _count_kept(tries, least)
    last = tries[count - 1] if count else None
    if count == len(tries):
        return last, "search"
    return last, "slots" if (tries[count].chance or 0.0) >= least else "objectives"


def _within(tries: Sequence[_Try]) -> Within:
    (likely, likely_bound), (sure, sure_bound) = (_largest(tries, p) for p in (LIKELY, SURE))
    slots = next((at.slots for at in tries if at.slots is not None), None)
    return Within(
        method=tries[0].arm[0],
        k=tries[0].arm[1],
        adaptive=tries[0].arm[2],
        likely=likely.size if likely and likely_bound != "search" else None,
        likely_bound=likely_bound,
        p=likely.chance if likely else None,
        sure=sure.size if sure and sure_bound != "search" else None,
        sure_bound=sure_bound,
        slots=slots if "slots" in (likely_bound, sure_bound) else None,
    )


# ---------------------------------------------------------------- cost and energy


def rate_of(per_hour: str | None, watts: float | None = None) -> Rate:
    """What is told of cost and power. Raises AdvisorError."""
    return Rate(per_hour=price(per_hour) if per_hour is not None else None, watts=watts)


def price(text: str) -> float:
    """`2.10/h` -> 2.10. Raises AdvisorError."""
    value, _, unit = text.strip().partition("/")
    try:
        money = float(value)
    except ValueError:
        money = -1.0
    if unit.strip() not in ("h", "hour") or not 0 < money < 1e6:
        raise AdvisorError(
            f"'{printable(text, 40)}': write a price as 2.10/h, for the whole machine"
        )
    return money
