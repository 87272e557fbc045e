"""The largest load that keeps latency objectives, for each arm, with its probability; and what
tokens cost.

What it does not know: bursts, and the spread of latencies between requests: objectives are of the
mean, as everywhere here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from advisor.advice import decide
from advisor.advice.explore.axes import series
from advisor.advice.explore.mix import milliseconds
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import Bound, Load, Point, Within
from advisor.domain.nouns import LIMITS, AdvisorError, Method, Request
from advisor.domain.printable import printable
from advisor.domain.sourced import sourced

MOST = 2048  # requests at once that are tried
LIKELY = sourced(
    0.5,
    "probability",
    "the largest load that keeps the objectives as likely as not",
    "chosen",
)
SURE = sourced(
    0.9, "probability", "the load at which the objectives are kept nearly surely", "chosen"
)


def objectives(text: str) -> dict[str, float]:
    """`tpot=50ms,ttft=2s` -> fields of a Request in milliseconds. Raises AdvisorError."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        field = f"max_{name.strip().lower()}_ms"
        limit = milliseconds(value)
        if field not in ("max_tpot_ms", "max_ttft_ms") or field in found or limit is None:
            raise AdvisorError(
                f"'{printable(str(part), 40)}': write objectives as tpot=50ms,ttft=2s (one or "
                "both, once each)"
            )
        low, high = LIMITS[field]
        if not low <= limit <= high:
            raise AdvisorError(
                f"'{printable(str(part), 40)}' is no time from {low:g} to {high:g} ms"
            )
        found[field] = limit
    return found


def users_within(
    request: Request, limits: dict[str, float], ks: Sequence[int] | None = None
) -> tuple[Within, ...]:
    """The largest loads that are served for each k (without speculation first), of those up to MOST
    requests at once.

    Raises AdvisorError where the request cannot be served at all.
    """
    asked = request.model_copy(update=limits)
    vary: dict[str, Any] = {"concurrency": series(1, MOST, 34)}
    if ks is not None:
        vary["k"] = sorted({0, *ks})
    rough = sweep(asked, vary)
    arms = list(dict.fromkeys((p.method, p.k) for load in rough.loads for p in load.points))
    edges: set[int] = set()
    for method, k in arms:
        for least in (LIKELY, SURE):
            edges |= _between(rough.loads, method, k, least)
    fine = sweep(asked, vary | {"concurrency": sorted(edges)}).loads if edges else ()
    loads = sorted((*rough.loads, *fine), key=_size)
    return tuple(_within(loads, method, k) for method, k in sorted(arms, key=lambda arm: arm[1]))


def _size(load: Load) -> int:
    return cast(int, dict(load.setting)["concurrency"])


def _chance(load: Load, method: Method, k: int) -> float | None:
    """P of keeping to the objectives; None where this k does not run there."""
    point: Point | None = load.point(k, method)
    if point is None:
        return None
    return decide.p_objective(load.request, cast(Any, point), "value")


def _slots(load: Load, method: Method, k: int) -> int | None:
    """The requests that run at once where the wait of the others is not asked about; None where
    all run, or where TTFT holds the wait.
    """
    point = load.point(k, method)
    if point is None or point.running is None or load.request.max_ttft_ms is not None:
        return None
    return point.running if point.running < _size(load) else None


def _count_kept(loads: Sequence[Load], method: Method, k: int, least: float) -> int:
    """How many of the loads, from the smallest on, are served with at least this probability."""
    count = 0
    for load in loads:
        chance = _chance(load, method, k)
        if chance is None or chance < least or _slots(load, method, k) is not None:
            break
        count += 1
    return count


def _between(loads: Sequence[Load], method: Method, k: int, least: float) -> set[int]:
    """Loads to try between the last one kept and the first one that is not."""
    count = _count_kept(loads, method, k, least)
    if count in (0, len(loads)):
        return set()
    low, high = _size(loads[count - 1]), _size(loads[count])
    slots = _slots(loads[count], method, k)
    tried = {cast(int, v) for v in series(low, high, 12)} | (
        {slots} if slots is not None else set()
    )
    return {size for size in tried if low < size < high}


def _largest(
    loads: Sequence[Load], method: Method, k: int, least: float
) -> tuple[Load | None, Bound]:
    """The largest load that is served with at least this probability, and what bounds it."""
    count = _count_kept(loads, method, k, least)
    last = loads[count - 1] if count else None
    if count == len(loads):
        return last, "search"
    chance = _chance(loads[count], method, k)
    held = chance is not None and chance >= least  # by those that run
    return last, "slots" if held else "objectives"


def _within(loads: Sequence[Load], method: Method, k: int) -> Within:
    (likely, likely_bound), (sure, sure_bound) = (
        _largest(loads, method, k, least) for least in (LIKELY, SURE)
    )
    waits = (_slots(load, method, k) for load in loads)
    return Within(
        method=method,
        k=k,
        likely=_size(likely) if likely and likely_bound != "search" else None,
        likely_bound=likely_bound,
        p=_chance(likely, method, k) if likely else None,
        sure=_size(sure) if sure and sure_bound != "search" else None,
        sure_bound=sure_bound,
        slots=next((slots for slots in waits if slots is not None), None)
        if "slots" in (likely_bound, sure_bound)
        else None,
    )


# ---------------------------------------------------------------- cost and energy


def price(text: str) -> float:
    """`2.10/h` -> 2.10. Raises AdvisorError."""
    value, slash, unit = text.strip().partition("/")
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not slash or unit.strip() not in ("h", "hour") or not 0 < found < 1e6:
        raise AdvisorError(
            f"'{printable(text, 40)}': write a price as 2.10/h, for the whole machine"
        )
    return found
