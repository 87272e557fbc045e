"""What only the whole file tells of a finding: that a comment takes it away, that it is said of
twenty services in the same words, or that what it misses stands elsewhere in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from advisor.domain.nouns import Finding, Launch
from advisor.domain.patterns import lazy_re
from advisor.readers import FileRead

_SHM = lazy_re(r"shm[-_]?size[\"']?\s*[:=]?\s*[\"']?\d|/dev/shm", re.I)
_PROFILES = lazy_re(r"^\s+profiles:", re.M)
_NUMBERS = lazy_re(r"[\d.,]*\d")
_IGNORE = lazy_re(
    r"advisor:[ \t]*ignore(-file)?[ \t]*=[ \t]*([A-Za-z0-9][\w,\- \t]*?)(?=$|[ \t]+[^,\s]|[\"'])",
    re.M,
)
LEAST = 3  # alike from so many on


class SharedFinding(NamedTuple):
    """A finding, and the lines of the others that say the same."""

    finding: Finding
    also: tuple[int, ...]


def fair(read: FileRead, findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those that the file answers elsewhere: shared memory that is given in
    another part of it, services of which a profile starts one at a time.
    """
    text = read.source.text
    answered = set()
    kept = list(findings)
    codes = {finding.code for finding in kept}
    if "SD240" in codes and _SHM.search(text):
        answered.add("SD240")
    if "SD306" in codes and _PROFILES.search(text):
        answered.add("SD306")
    return [finding for finding in kept if finding.code not in answered]


def merge_repeats(findings: Sequence[Finding]) -> list[SharedFinding]:
    """The findings in their order, those that say the same of several places of a file as one."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    told: list[SharedFinding] = []
    for finding in findings:
        group = groups[_key(finding)]
        if len(group) < LEAST:
            told.append(SharedFinding(finding, ()))
        elif finding is group[0]:
            told.append(SharedFinding(finding, tuple(sorted({one.line for one in group[1:]}))))
    return told


def _key(finding: Finding) -> tuple[str, ...]:
    said = finding.fix.text if finding.fix is not None else ""
    return (
        finding.file,
        finding.code,
        finding.severity,
        "" if finding.code == "SD306" else _NUMBERS.sub("#", finding.message),
        _NUMBERS.sub("#", said),
    )


def drop_ignored(
    read: FileRead, launches: Sequence[Launch], findings: Sequence[Finding]
) -> list[Finding]:
    """The findings that no `# advisor: ignore=CODE reason` takes away.

    It holds for its own line, for the line below it, for the whole launch that begins there, and
    with `ignore-file` for the file.
    """
    text = read.source.text
    if "advisor:" not in text:
        return list(findings)
    whole: set[str] = set()
    lines: dict[int, set[str]] = {}
    for found in _IGNORE.finditer(text):
        codes = {code.upper() for code in re.split(r"[,\s]+", found.group(2)) if code}
        if found.group(1):
            whole |= codes
        else:
            line = read.source.place(found.start())[0]
            lines.setdefault(line, set()).update(codes)
            before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
            if not before.strip("#;/- \t") or before.upper() in ("REM", "::"):
                lines.setdefault(line + 1, set()).update(codes)
    starts = sorted(launch.line for launch in launches)
    return [finding for finding in findings if not _is_ignored(finding, whole, lines, starts)]


def _is_ignored(
    finding: Finding, whole: set[str], lines: dict[int, set[str]], starts: Sequence[int]
) -> bool:
    begun = max((line for line in starts if line <= finding.line), default=finding.line)
    codes = whole | lines.get(finding.line, set()) | lines.get(begun, set())
    return any(finding.code.startswith(code) or finding.slug.upper() == code for code in codes)
