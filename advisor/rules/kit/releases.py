"""Releases of a case: which one runs, which could, and which documented defects it has.

A launch that names no release can run on those that know every option it gives. A defect of other
releases cannot be met there, so no rule speaks of it; and what all of them refuse is an error.
"""

from __future__ import annotations

import re
from functools import lru_cache

from advisor import engines
from advisor.domain.nouns import Case, Facts, Flag
from advisor.domain.versions import Release, parse_release
from advisor.knowledge.rule_data import table
from advisor.readers.images import is_official
from advisor.rules.kit.case import is_gguf, open_value
from advisor.rules.registry import GGUF_ENGINES, get_defect

_COMPLETE = (
    "vllm",
    "sglang",
)  # whose catalogues have every minor release; of llama.cpp's builds they have a few


def affects(name: str, case: Case) -> bool | None:
    """Whether the case's release is among the affected ones; None where it is not known and can be
    one of them. Raises KeyError for a defect that is not in the data.
    """
    documented = get_defect(name)
    at = release(case)
    if (
        at is None
        and not case.launch.emitted
        and case.launch.version_text is None
        and case.plan.engine in _COMPLETE
    ):
        fits = [parse_release(one) for one in feasible(case)]
        if fits and not any(between(one, documented.since, documented.until) for one in fits):
            return False
    return between(at, documented.since, documented.until)


def between(at: Release | None, since: str | None, until: str | None) -> bool | None:
    """since <= at <= until. None where `at` is unknown."""
    if at is None:
        return None
    low, high = parse_release(since), parse_release(until)
    return (low is None or at >= low) and (high is None or at <= _ceiling(high))


def _ceiling(at: Release) -> Release:
    return (*at, 1 << 30)  # 0.5.13 as an upper end includes 0.5.13.post1


# ---------------------------------------------------------------- versions


def release(case: Case) -> Release | None:
    """The release as comparable numbers, also where it is only a hint (a fork's tag); None if the
    text names none.

    llama.cpp: b9235 is (0, 9235); commits and semantic versions take the build number of the
    catalogue's row.
    """
    if is_gguf(case):
        return _build(case)
    texts = [case.plan.engine_version]
    if not case.launch.emitted:
        texts = [case.launch.version_text, case.launch.engine_version]
    for text in texts:
        found = parse_release(text)
        if found is not None:
            return found
    return None


def _build(case: Case) -> Release | None:
    text = case.launch.version_text
    found = parse_release(text)
    if found is not None and len(found) == 2:
        return found
    version = case.launch.engine_version
    return build_order(version)


def build_order(version: str | None) -> Release | None:
    """The place of a catalogued llama.cpp version (b9445, 63d93d173, 0.5.0) among the build
    numbers; None if unknown.
    """
    found = parse_release(version)
    if version is None or (found is not None and len(found) == 2):
        return found
    rows = engines.get("llama-server").catalogue.notes.get("builds") or ()
    return next(((0, int(row["order"])) for row in rows if row["id"] == version), None)


def asked_release(facts: Facts) -> Release | None:
    """The release of a question as comparable numbers; of llama.cpp the build that was asked for,
    which may lie between the catalogued ones.
    """
    if facts.engine not in GGUF_ENGINES:
        return parse_release(facts.engine_version)
    asked = facts.request.engine_version if facts.request is not None else None
    if asked and engines.get(facts.engine).resolve_version(asked).version == facts.engine_version:
        return build_order(asked) or build_order(facts.engine_version)
    return build_order(facts.engine_version)


def version_name(version: str | None) -> str:
    """A catalogued version for messages: a llama.cpp commit gets its build number."""
    order = build_order(version) if version and not re.match(r"b?\d+(\.|$)", version) else None
    return f"about b{order[1]}" if order else version or "an unknown release"


def version_label(case: Case) -> str:
    """The version for messages, as written where it is known."""
    return case.launch.version_text or case.launch.engine_version or "(unpinned)"


def prefix_caching_on(case: Case) -> bool | None:
    """Whether vLLM caches prefixes of this hybrid: as told, else the release's default; None where
    neither is known.
    """
    if case.plan.prefix_caching is not None:
        return case.plan.prefix_caching
    if open_value(case, "--enable-prefix-caching"):
        return None
    return between(
        release(case),
        table("compatibility")["unknown_hybrid_prefix_caching"]["vllm_default_on_since"],
        None,
    )


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


def is_newest(case: Case) -> bool:
    """Whether the server is the project's own image by a tag that moves with each build."""
    container = case.launch.container
    return (
        container is not None
        and (container.tag or "").startswith("server")
        and "@" not in (container.image or "")
        and is_official(container.image or "")
    )
