"""Several servers on the same GPUs: how much memory each may take, and what they cost each other.

Memory: each gets what its weights, states and requests need, and the rest is shared out; together
never more than one server would take. Time: the GPU's contexts take turns, so a server with
something to do waits for the others that have something to do; nothing is gained by running side by
side. Assumed, as no measurement of two engines on one GPU is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, exp

from advisor.advice.explore import instances
from advisor.advice.explore.instances import Server
from advisor.domain.nouns import AdvisorError
from advisor.domain.sourced import sourced
from advisor.perf import memory
from advisor.perf.sizes import device

STEP = 100  # fractions are whole hundredths
MOST_PARTS = 100  # of 25 that make the wish: what is free is given out up to four times over
PARTS = sourced(25, "parts", "own choice: steps of a wish that are tried", "chosen")
USUAL_FRACTION = sourced(0.9, "share", "default of the engines, rounded", "assumed")


def share_memory(several: Sequence[Server], whole: Server) -> list[Server]:
    """The servers with shares of the memory that `whole`, one server for all, would take.

    Raises AdvisorError with the sizes where they do not fit beside each other.
    """
    cap = _most_gib(whole)
    facts = whole.question.facts
    usable = device.usable_gib(facts)
    if cap is None or usable is None:
        raise AdvisorError("the memory of this hardware is not known")
    if whole.question.base.plan.memory_fraction is None:
        return _side_by_side(several, usable)
    least = [_smallest(one, lambda found: True) for one in several]
    wanted = [_smallest(one, _holds_all) or _top(one) for one in several]
    needs = [_gib(one, fraction) for one, fraction in zip(several, least, strict=True)]
    if None in needs or sum(n for n in needs if n is not None) > cap:
        told = " + ".join("more than all" if n is None else f"{n:.1f}" for n in needs)
        raise AdvisorError(
            f"{len(several)} copies do not fit: they need at least {told} GiB of a GPU, and "
            f"{cap:.1f} of {usable:.1f} GiB can be given"
        )
    low = [fraction or 0 for fraction in least]
    spread = [max(w - m, 1) for w, m in zip(wanted, low, strict=True)]
    best, first, last = low, 0, MOST_PARTS
    while first < last:  # as large a part of the wish, or of what is free, as fits
        middle = (first + last + 1) // 2
        tried = [m + middle * s // PARTS for m, s in zip(low, spread, strict=True)]
        sizes = [_gib(one, fraction) for one, fraction in zip(several, tried, strict=True)]
        if None in sizes or sum(s for s in sizes if s is not None) > cap + 1e-9:
            last = middle - 1
        else:
            best, first = tried, middle
    made = [instances.with_fraction(o, f / STEP) for o, f in zip(several, best, strict=True)]
    return [one for one in made if one is not None]


def _side_by_side(several: Sequence[Server], usable: float) -> list[Server]:
    """Servers that allocate what they need: together at most the device."""
    sizes = [_most_gib(one) for one in several]
    if None in sizes or sum(s for s in sizes if s is not None) > usable:
        told = " + ".join("unknown" if s is None else f"{s:.1f}" for s in sizes)
        raise AdvisorError(
            f"{len(several)} copies do not fit: they need {told} GiB of a GPU that gives "
            f"{usable:.1f} GiB"
        )
    return list(several)


def _smallest(one: Server, enough: Callable[[Server], bool]) -> int | None:
    """The least hundredths of the memory with which the server starts and has enough."""
    low, high = 1, _top(one)
    found = instances.with_fraction(one, high / STEP)
    if found is None or not enough(found):
        return None
    while low < high:
        middle = (low + high) // 2
        tried = instances.with_fraction(one, middle / STEP)
        if tried is not None and enough(tried):
            high = middle
        else:
            low = middle + 1
    return high


def _top(one: Server) -> int:
    return int((one.question.base.plan.memory_fraction or USUAL_FRACTION) * STEP + 1e-9)


def _holds_all(one: Server) -> bool:
    """Whether the KV of all its requests has room at once."""
    facts, plan = one.question.facts, one.question.base.plan
    length = max((f.ctx_tokens or 0) + (f.output_tokens or 0) for f in one.each)
    held = memory.max_requests(facts, plan, length)
    return held is None or held >= ceil(sum(one.loads) - 1e-9)


def _gib(one: Server, fraction: int | None) -> float | None:
    if fraction is None:
        return None
    made = instances.with_fraction(one, fraction / STEP)
    return _most_gib(made) if made is not None else None


def _most_gib(one: Server) -> float | None:
    """GiB of one GPU that the server takes with whichever of its plans takes most."""
    facts = one.question.facts
    plans = (one.question.base.plan, *one.question.plans[-1:])  # the largest k takes most
    sizes = [instances.memory_gib(facts, plan, memory.bill(facts, plan)) for plan in plans]
    return None if None in sizes else max(s for s in sizes if s is not None)


# ---------------------------------------------------------------- time


def busy(requests: float, arrives: bool) -> float:
    """Part of the time in which a server has something to do: always in a closed loop, by chance
    where requests arrive on their own.
    """
    return 1.0 - exp(-requests) if arrives else 1.0


def slowdowns(busies: Sequence[float]) -> list[float]:
    """How much longer everything takes in each server beside the others."""
    return [1.0 + sum(busies) - own for own in busies]
