"""Judge one case by every rule that can speak on it: pure, deterministic, sorted."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from operator import attrgetter

from advisor.domain.launches import SPECULATION
from advisor.domain.nouns import Case, Finding, Fix, Flag, Skipped, Span
from advisor.domain.versions import parse_release
from advisor.domain.vocabulary import RuleRow
from advisor.rules.kit.case import is_hybrid
from advisor.rules.kit.fixes import AddedOption
from advisor.rules.kit.releases import affects, release, within
from advisor.rules.registry import (
    DECLARED,
    Hit,
    Lacking,
    Rule,
    decisive_rows,
    get_defect,
    get_rule,
    index,
    is_removed,
    load_row,
)

# Flags and their syntax. A launch of ours is written from the catalogue that these rules judge by,
# so they have nothing to say of it; tests/rulebook/test_spelling_rules.py asks them all the same.
SPELLING = "SD1"
Lack = tuple[str, tuple[str, ...]]  # a rule's code, and the inputs that it needs and lacks
PARTS: dict[str, Callable[[Case], object]] = {"hybrid": is_hybrid}
PLACES: dict[str, Callable[[Case], Flag | None]] = {"spec": Case.spec_flag, "k": Case.k_flag}
_ANY_RELEASE = ("latest", "stable", "server", "full", "light", "$")  # "$": a variable names it


def check(
    case: Case, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Findings and skipped rules for a case, in the order of line and code.

    select and ignore take codes ("SD201"), families ("SD2") and slugs. A rule of another engine, or
    about speculation where the plan has none, does not apply and is not listed; one that lacks an
    input is listed as skipped.
    """
    skipped, rows = _sort_out(index, *_kind(case))
    if select or ignore:
        wanted = frozenset(row.code for row in select_rows(select, ignore))
        skipped = tuple(one for one in skipped if one[0] in wanted)
        rows = tuple(row for row in rows if row.code in wanted)
    return _check_rows(case, rows, skipped)


def decisive_findings(case: Case) -> tuple[Finding, ...]:
    """Those findings of a case that can change what is decided: of the rules that decide errors and
    warnings, and what has an effect.
    """
    _, rows = _sort_out(decisive_rows, *_kind(case))
    findings, _ = _check_rows(case, rows)
    return tuple(f for f in findings if f.severity != "info" or f.effect is not None)


def _check_rows(
    case: Case, rows: Iterable[RuleRow], lacking: Iterable[Lack] = ()
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    findings: list[Finding] = []
    file = case.launch.file
    skipped = [Skipped(code, needs, file) for code, needs in lacking]
    given = frozenset(flag.name.partition(".")[0] for flag in case.launch.flags)
    for row in rows:
        if row.options and given.isdisjoint(row.options):  # most rows: not worth a call
            continue
        if row.parts and not speaks(row, case, given):
            continue
        found = DECLARED.get(row.code) or load_row(row)
        met = affects(found.defect, case) if found.unsure else True
        if met is False or (met is None and found.unsure == "silent" and release(case) is None):
            continue
        for said in found.check(case):
            if isinstance(said, Lacking):
                skipped.append(Skipped(row.code, said.needs, file))
            elif not (case.launch.open_end and isinstance(said.fix, AddedOption)):  # else unsure
                findings.append(to_finding(found, said, case, met is None))
    told = sorted(dict.fromkeys(skipped), key=lambda one: one.code)
    once = {(f.file, f.line, f.column, f.code, f.message): f for f in findings}
    return tuple(once[key] for key in sorted(once)), tuple(told)


def speaks(row: RuleRow, case: Case, given: frozenset[str]) -> bool:
    """Whether a rule may speak, by its row; `given`: the launch's options, up to a dot."""
    if row.options and given.isdisjoint(row.options):
        return False
    if row.methods and case.plan.method not in row.methods:
        return False
    return all((PARTS.get(path) or _reader(path))(case) for path in row.parts)


_reader = cache(attrgetter)


def select_rows(select: Sequence[str] | None, ignore: Sequence[str] | None) -> Iterable[RuleRow]:
    """The rules that --select and --ignore leave; one that was removed may still be ignored.
    Raises UnknownFact for other codes.
    """
    present = (name for name in ignore or () if not is_removed(name))
    for name in (*(select or ()), *present):
        if not any(_is_named(row, name) for row in index()):
            get_rule(name)
    for row in index():
        wanted = not select or any(_is_named(row, name) for name in select)
        if wanted and not any(_is_named(row, name) for name in ignore or ()):
            yield row


def _is_named(row: RuleRow, name: str) -> bool:
    asked = name.strip().upper()
    family = asked.startswith("SD") and asked[2:].isdigit() and row.code.startswith(asked)
    return family or row.slug == name.strip().lower().replace("_", "-")


def _kind(case: Case) -> tuple[str, str, bool, frozenset[str]]:
    """Engine, method, whether the launch is ours, and the inputs that are not known."""
    lacking = frozenset(name for name in _inputs() if not has(case, name))
    return case.plan.engine, case.plan.method, case.launch.emitted, lacking


@cache
def _inputs() -> tuple[str, ...]:
    """All that rules need."""
    return tuple(sorted({name for row in index() for name in row.needs}))


@lru_cache(maxsize=1024)
def _sort_out(
    among: Callable[[], tuple[RuleRow, ...]],
    engine: str,
    method: str,
    emitted: bool,
    lacking: frozenset[str],
) -> tuple[tuple[Lack, ...], tuple[RuleRow, ...]]:
    """The rules that apply: those that lack an input, with what they lack, and those to ask."""
    skipped, rows = [], []
    for row in among():
        ours = emitted and ("file" in row.needs or row.code.startswith(SPELLING))
        other = row.engines and engine not in row.engines
        if ours or other or (row.speculative and method == "none"):
            continue
        if missing := tuple(name for name in row.needs if name in lacking):
            skipped.append((row.code, missing))
        elif not row.methods or method in row.methods:
            rows.append(row)
    return tuple(skipped), tuple(rows)


def has(case: Case, name: str) -> bool:
    """Whether an input that a rule needs is known."""
    if name == "file":
        return not case.launch.emitted
    if name == "estimate":
        return case.estimate is not None
    return is_version_pinned(case) if name == "version" else getattr(case.facts, name) is not None


def is_version_pinned(case: Case) -> bool:
    """Whether the release is fixed: for a file only if it pins a catalogued one."""
    if case.launch.emitted:
        return case.plan.engine_version is not None
    return case.launch.version_pinned and case.launch.fork is None


def to_finding(found: Rule, hit: Hit, case: Case, unsure: bool) -> Finding:
    """Return the finding of a hit; without a pinned release its severity is at most a warning."""
    usual = found.unsure if unsure and found.unsure != "silent" else None
    severity, message = hit.severity or usual or found.severity, hit.message
    fix = Fix(text=hit.fix) if isinstance(hit.fix, str) else hit.fix
    documented = get_defect(found.defect) if found.defect else None
    if unsure and documented and release(case) is not None:
        severity, message = "info", f"{message} (last reported on {documented.until}; no known fix)"
    writes = not case.launch.too_old  # another release may refuse what a fix writes
    row, pinned = hit.row or {}, not found.versioned or is_version_pinned(case)
    met = within(case, documented.since, documented.until) if documented and not pinned else None
    if not pinned and not (met and release(case) is None and catalogue_speaks(case)):
        if hit.slip or (hit.everywhere and catalogue_speaks(case)):
            message += _assumption(case)
        else:
            old = found.code.startswith(SPELLING) and case.launch.too_old
            severity = "info" if old else "warning" if severity == "error" else severity
            writes = False
            versions = hit.versions or (documented.versions if documented else "")
            if versions and met is not False:
                text = None if case.launch.engine_version else case.launch.version_text
                named = f"{text} is not in the catalogue" if parse_release(text) else None
                message += f" ({named or 'release not pinned'}; applies to {versions})"
    flags = (PLACES[one](case) if one in PLACES else case.flag(one) for one in found.at)
    place = hit.flag or next(filter(None, flags), None)
    flag = place if isinstance(place, Flag) else None
    if (found.speculative or found.row.methods) and case.open_value(*SPECULATION):
        severity = "info"  # a variable names the method, and it may be another
    return Finding(
        code=found.code,
        severity=severity,
        message=message,
        slug=found.slug,
        file=case.launch.file,
        line=hit.line or (flag.line if flag else 0) or case.launch.line,
        column=flag.column if flag else 0,
        engine=case.plan.engine,
        flag=flag.name if flag else place if isinstance(place, str) else None,
        fix=(certain_fix(fix, case) if hit.sole and severity == "error" else fix)
        if writes or fix is None
        else fix.replace(safe=False),
        sources=hit.sources or tuple(row.get("sources") or found.sources),
        conflicts=hit.conflicts
        or tuple(row.get("conflicts") or (documented.conflicts if documented else ())),
        effect=hit.effect,
        strength=hit.strength,
        k_max=hit.k_max,
        k_best=hit.k_best,
    )


def certain_fix(fix: Fix | None, case: Case) -> Fix | None:
    """The fix of what no server runs with, where one word alone can be meant: no server that works
    is changed by it, so it is safe; but not where a launch of another engine or release shares the
    place.
    """
    from advisor.rules.kit.fixes import is_shared  # start-up: only for a hit with such a fix

    if fix is None or not fix.edits or fix.safe:
        return fix
    places = (Span(start=edit.start, end=edit.end) for edit in fix.edits)
    if case.launch.emitted or any(is_shared(case, place) for place in places):
        return fix
    return fix.replace(safe=True)


def catalogue_speaks(case: Case) -> bool:
    """Whether the server is one of the catalogued releases, whichever: not a build of somebody
    else, a nightly, or a release that the file names and the catalogue lacks.
    """
    launch = case.launch
    return launch.fork is None and (
        launch.engine_version is not None
        or not launch.version_text
        or launch.version_text.lower().startswith(_ANY_RELEASE)
    )


def _assumption(case: Case) -> str:
    """What is taken for granted where the server is not a catalogued release."""
    launch = case.launch
    if launch.fork is not None:
        image = launch.container.image if launch.container is not None else None
        name = image.partition("@")[0].rsplit(":", 1)[0] if image else launch.fork
        return f" (assuming that {name} takes the options of {case.plan.engine})"
    if not catalogue_speaks(case):
        return f" (assuming that {launch.version_text} takes the options of the releases)"
    if launch.container is not None and "@sha256" in (launch.container.image or ""):
        return " (assuming that the digest is that of a catalogued release)"
    return ""
