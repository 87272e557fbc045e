"""Which releases can run a launch that names none: those that know every option it gives. A defect
of other releases cannot be met there, so no rule speaks of it.
"""

from __future__ import annotations

from functools import lru_cache

from advisor import engines
from advisor.domain.nouns import Case

_NEVER = 60  # options asked for; more belong to no launch that a person wrote


def feasible(case: Case) -> tuple[str, ...]:
    """The catalogued releases that take all the options of an unpinned launch; empty where none
    does, or all do.
    """
    launch = case.launch
    if launch is None:
        return ()
    names = frozenset(
        flag.raw for flag in launch.flags if flag.raw.startswith("--") and flag.origin == "cli"
    )
    return _feasible(case.plan.engine, names) if 0 < len(names) <= _NEVER else ()


@lru_cache(maxsize=64)
def _feasible(engine: str, names: frozenset[str]) -> tuple[str, ...]:
    catalogue = engines.get(engine).catalogue
    known = [name for name in names if catalogue.find(name, None) is not None]
    fits = tuple(
        one
        for one in catalogue.versions
        if all(catalogue.find(name, one) is not None for name in known)
    )
    return fits if len(fits) < len(catalogue.versions) else ()
