"""Which releases can run a launch that names none: those that know every option it gives. A defect
of other releases cannot be met there, so no rule speaks of it; and what all of them refuse is an
error.
"""

from __future__ import annotations

from functools import lru_cache

from advisor import engines
from advisor.domain.nouns import Case, Flag

_NEVER = 60  # options asked for; more belong to no launch that a person wrote


def feasible(case: Case) -> tuple[str, ...]:
    """The catalogued releases that take all the options of an unpinned launch; empty where none
    does, or all do.
    """
    names = _names(case, None)
    fits = _feasible(case.plan.engine, names) if 0 < len(names) <= _NEVER else ()
    return fits if len(fits) < len(engines.get(case.plan.engine).catalogue.versions) else ()


def candidates(case: Case, without: Flag) -> tuple[str, ...]:
    """The catalogued releases that take all options of the launch but one; all where none does."""
    names = _names(case, without)
    fits = _feasible(case.plan.engine, names) if 0 < len(names) <= _NEVER else ()
    return fits or engines.get(case.plan.engine).catalogue.versions


def _names(case: Case, without: Flag | None) -> frozenset[str]:
    return frozenset(
        flag.raw
        for flag in case.launch.flags
        if flag.raw.startswith("--") and flag.origin == "cli" and flag is not without
    )


@lru_cache(maxsize=64)
def _feasible(engine: str, names: frozenset[str]) -> tuple[str, ...]:
    catalogue = engines.get(engine).catalogue
    known = [name for name in names if catalogue.find(name, None) is not None]
    return tuple(
        one
        for one in catalogue.versions
        if all(catalogue.find(name, one) is not None for name in known)
    )
