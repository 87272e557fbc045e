"""Releases of a case: which one runs, which could, and which documented defects it has.

A launch that names no release can run on those that know every option it gives. A defect of other
releases cannot be met there, so no rule speaks of it; and what all of them refuse is an error.
"""

import re
from functools import lru_cache

from advisor import engines
from advisor.domain.nouns import Case, Facts, Flag
from advisor.domain.patterns import lazy_re
from advisor.domain.versions import Release, parse_release
from advisor.engines.images import is_official
from advisor.knowledge.rule_data import table
from advisor.rules.kit.case import is_gguf
from advisor.rules.kit.models import comes_before, first_release
from advisor.rules.registry import GGUF_ENGINES, get_defect

# whose catalogues have every minor release; of llama.cpp's builds they have a few
_COMPLETE = ("vllm", "sglang")
_METHOD = "--speculative-config.method"
_DAY = lazy_re(r"(?<!\d)(20\d\d)-?([01]\d)-?([0-3]\d)(?!\d)")  # of a nightly's tag
_NEVER = 60  # options asked for; more belong to no launch that a person wrote


def affects(name: str, case: Case) -> bool | None:
    """Whether the case's release is among the affected ones; None where it can be one of them: it
    is not known, or came after the last one with a report of a defect that no fix is known of.
    Raises KeyError for a defect that is not in the data.
    """
    documented = get_defect(name)
    later = documented.open and between(release(case), None, documented.until) is False
    return None if later else within(case, documented.since, documented.until)


def within(case: Case, since: str | None, until: str | None) -> bool | None:
    """Whether the case's release lies between two; of one that is not known, whether all lie there
    that it can be, or none does. None where only some do.
    """
    at, launch = release(case), case.launch
    unknown = at is None and not launch.emitted and launch.fork is None
    if not unknown or case.plan.engine not in _COMPLETE:
        return between(at, since, until)
    known, fits = engines.get(case.plan.engine).catalogue.versions, possible(case)
    here = {between(parse_release(one), since, until) for one in fits}
    # what nothing cuts may be older than the catalogue, a nightly newer
    older = fits[0] == known[0] and between(parse_release(known[0]), None, until) is False
    newer = fits[-1] == known[-1] and until is not None
    if here == {False}:
        return None if older else False
    return True if here == {True} and not newer and len(fits) < len(known) else None


def between(at: Release | None, since: str | None, until: str | None) -> bool | None:
    """since <= at <= until. None where `at` is unknown."""
    if at is None:
        return None
    low, high = parse_release(since), parse_release(until)
    top = (*high, 1 << 30) if high is not None else at  # 0.5.13 includes 0.5.13.post1
    return (low is None or at >= low) and at <= top


def release(case: Case) -> Release | None:
    """The release as comparable numbers, also where it is only a hint (a fork's tag); None if the
    text names none.

    llama.cpp: b9235 is (0, 9235); commits and semantic versions take the build number of the
    catalogue's row.
    """
    read = parse_release(case.launch.version_text)
    if is_gguf(case):
        build = read is not None and len(read) == 2
        return read if build else build_order(case.launch.engine_version)
    texts = [case.plan.engine_version]
    if not case.launch.emitted:
        texts = [case.launch.version_text, case.launch.engine_version]
    return next(filter(None, map(parse_release, texts)), None)


def build_order(version: str | None) -> Release | None:
    """A llama.cpp version (b9445, 63d93d173, 0.5.0) among the builds; None if unknown."""
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
    """Whether vLLM caches prefixes of this hybrid; None where it is not known."""
    if case.plan.prefix_caching is not None:
        return case.plan.prefix_caching
    if case.open_value("--enable-prefix-caching"):
        return None
    since = table("compatibility")["unknown_hybrid_prefix_caching"]["vllm_default_on_since"]
    return within(case, since, None)


def possible(case: Case, without: Flag | None = None) -> tuple[str, ...]:
    """The catalogued releases that can be what runs an unpinned launch: they take its options and
    values (but one of them) and have its model. All where nothing cuts them, or none is left.
    """
    engine, model = case.plan.engine, case.facts.model
    words = {
        ("--" + flag.raw.lstrip("-").replace("_", "-"), (flag.value or "").lower())
        for flag in case.launch.flags
        if flag is not without
        and flag.origin != "env"
        and (flag.raw.startswith("--") or not flag.raw.startswith("-"))
    }
    if engine == "vllm" and case.plan.method != "none":
        words.add((_METHOD, case.plan.method))
    few = frozenset(words if len(words) <= _NEVER else ())
    fits = _releases_with(engine, few, model.id if model else "", case.plan.method == "mtp")
    if _DAY.search(case.launch.version_text or "") is None:
        return fits
    return tuple(one for one in fits if not is_after_build(case, one)) or fits


def possible_label(case: Case) -> str:
    """The releases that an unpinned launch can be in words, "" where nothing cuts them."""
    known, fits = engines.get(case.plan.engine).catalogue.versions, possible(case)
    if case.plan.engine not in _COMPLETE or len(fits) == len(known):
        return ""
    last = "or later" if fits[-1] == known[-1] else f"to {fits[-1]}"
    return f" (can be {fits[0]} {last if len(fits) > 1 else 'alone'})"


def is_after_build(case: Case, release: str | None) -> bool:
    """Whether a release came out later than the next one after the day that the tag names."""
    found = _DAY.search(case.launch.version_text or "")
    days = table("compatibility")["released"].get(case.plan.engine, {})
    if found is None or release not in days:
        return False
    return days[release] in [out for out in days.values() if out >= "-".join(found.groups())][1:]


@lru_cache(maxsize=256)
def _releases_with(
    engine: str, words: frozenset[tuple[str, str]], model: str, mtp: bool
) -> tuple[str, ...]:
    known = engines.get(engine).catalogue
    fits = known.versions
    for name, value in sorted(words):  # what none takes is a slip, and tells nothing
        for some in reversed(_takers(engine, name, value)):
            if both := tuple(one for one in fits if one in some):
                fits = both
                break
    if engine not in _COMPLETE:  # an option may be older than the first row that has it
        first, last = known.index(fits[0]), known.index(fits[-1])
        fits = known.versions[max(first - 1, 0) : last + 2]
    for row in (
        first_release(model, engine, one) for one in ("model_since", "mtp_since")[: 1 + mtp]
    ):
        if model and row is not None:
            fits = tuple(one for one in fits if not comes_before(parse_release(one), row))
    return fits or known.versions


@lru_cache(maxsize=4096)
def _takers(engine: str, name: str, value: str) -> tuple[frozenset[str], frozenset[str]]:
    """The releases that have an option, and those of them that take its value."""
    known = engines.get(engine).catalogue
    having = [one for one in known.versions if known.find(name, one) is not None]
    lists = {one: _values(engine, name, one) for one in having}
    return frozenset(having), frozenset(
        one for one in having if not lists[one] or value in lists[one]
    )


@lru_cache(maxsize=1024)
def _values(engine: str, name: str, version: str) -> frozenset[str]:
    """The values that an option or the method of --speculative-config takes, in small letters."""
    known = engines.get(engine).catalogue
    if name == _METHOD:
        row = known.json_field("SpeculativeConfig", "method", version) or {}
        return frozenset(str(one).lower() for one in row.get("choices") or ())
    option = known.find(name, version)
    names = known.values(option.name, version).names if option is not None else ()
    return frozenset(one.lower() for one in names)


def is_newest(case: Case) -> bool:
    """Whether the server is the project's own image by a tag that moves with each build."""
    container = case.launch.container
    if container is None or not (container.tag or "").startswith("server"):
        return False
    image = container.image or ""
    return "@" not in image and is_official(image)
