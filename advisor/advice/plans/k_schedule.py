"""A k per batch size, where the engine takes one and where it pays.

What it does: asks the predictor for the best k at every batch size up to the load, and joins equal
neighbours into ranges. What it does not know: what changing draft lengths costs in CUDA graphs; a
rule (SD415) says where they do, and then no schedule is offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.nouns import Facts, Plan
from advisor.domain.sourced import sourced
from advisor.domain.versions import before, release
from advisor.engines.traits import traits

LEAST_GAIN = sourced(
    0.05,
    "log gain",
    "a change of k must promise this much at its batch size; below it one k is simpler",
    "chosen",
)
SIZES = sourced(
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), "requests", "batch sizes that are looked at", "chosen"
)


def takes_one(plan: Plan) -> bool:
    """vLLM from 0.24 and SGLang from 0.5.14 on, one replica: with data parallelism vLLM switches
    the schedule off.
    """
    since = traits(plan.engine).schedules_k
    if since is None or plan.dp != 1 or plan.method != "mtp" or not plan.engine_version:
        return False
    return release(plan.engine_version) is not None and not before(plan.engine_version, since)


def sizes(facts: Facts) -> tuple[int, ...]:
    """The batch sizes below the load at which another k may pay, and the load; none below: none."""
    load = facts.concurrency or 1
    below = tuple(size for size in SIZES if size < load)
    return (*below, load) if below else ()


def schedule(
    facts: Facts, gains: Mapping[int, Mapping[int, float]], chosen: Plan
) -> tuple[tuple[int, int, int], ...]:
    """Ranges (from, to, k) over batch sizes 1..max_num_seqs; empty where one k serves all of them
    as well, and where the k of the whole load was not chosen by the estimate but by what is
    documented or by risk, which no estimate at fewer requests knows. `gains`:
    the goal's median speed-up by batch size and k, the whole load last.
    """
    top = chosen.max_num_seqs or facts.concurrency or 1
    if not gains or any(len(here) < 2 for here in gains.values()):
        return ()
    wanted = []
    for here in gains.values():
        best = max(here, key=lambda k: here[k])
        wanted.append(
            best
            if here[best] >= here[chosen.k] * (1 + LEAST_GAIN) and best > chosen.k
            else chosen.k
        )
    if wanted[-1] != chosen.k:
        return ()
    return _ranges([*zip(gains, wanted, strict=True)], top)


def _ranges(wanted: Sequence[tuple[int, int]], top: int) -> tuple[tuple[int, int, int], ...]:
    """Join (batch size, k) into ranges; each size speaks up to the next one. k never rises with the
    batch size.
    """
    ceiling = wanted[0][1]
    out: list[tuple[int, int, int]] = []
    for index, (size, k) in enumerate(wanted):
        ceiling = min(ceiling, k)
        last = wanted[index + 1][0] - 1 if index + 1 < len(wanted) else max(top, size)
        if out and out[-1][2] == ceiling:
            out[-1] = (out[-1][0], last, ceiling)
        else:
            out.append((size, last, ceiling))
    return tuple(out) if len(out) > 1 else ()
