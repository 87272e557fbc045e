"""Findings that a comment in the file takes away: `# advisor: ignore=CODE reason`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.domain.nouns import Finding, Launch
from advisor.readers import FileRead

_IGNORE = re.compile(
    r"advisor:[ \t]*ignore(-file)?[ \t]*=[ \t]*([A-Za-z0-9][\w,\- \t]*?)(?=$|[ \t]+[^,\s]|[\"'])",
    re.M,
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
