"""Fixes until nothing is left to fix, judged after each round: a change that makes things worse is
not made.

A fixed text must still be read, start as many servers, and have no more findings of any severity
than before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.domain.nouns import AdvisorError, Finding
from advisor.lint import fixes
from advisor.lint.report import Report
from advisor.readers.source import Source

Judge = Callable[[str, str], Report]  # (text, name) -> its report
ROUNDS = 12


def apply_rounds(
    source: Source, report: Report, judge: Judge, unsafe: bool = False
) -> fixes.Change:
    """The file's text after all fixes that hold, applied in rounds (a fix may wait for one that it
    overlaps with).

    `applied` are the findings that were fixed, `conflicting` those whose fix would have made things
    worse. Raises
    nothing: a text that cannot be judged after a fix is not taken.
    """
    now, at = source, _of_file(report, source.name)
    applied: list[Finding] = []
    refused: list[Finding] = []
    for _ in range(ROUNDS):
        left = [one for one in at.findings if not _is_refused(one, refused)]
        change = fixes.apply_edits(now, left, unsafe)
        if change.text == now.text:
            break
        after = _judge(judge, change.text, source.name)
        if after is None or worse(at, after):
            change, after, bad = _one_by_one(now, at, left, judge, unsafe)
            refused += bad
            if after is None:
                continue
        applied += change.applied
        now = Source(change.text, source.name, source.encoding, source.bom, source.notes)
        at = after
    return fixes.Change(source, now.text, tuple(applied), tuple(refused))


def _one_by_one(
    now: Source, at: Report, findings: Sequence[Finding], judge: Judge, unsafe: bool
) -> tuple[fixes.Change, Report | None, list[Finding]]:
    """(the first fix that holds alone, its report, those before it that do not)."""
    bad: list[Finding] = []
    for finding in findings:
        change = fixes.apply_edits(now, [finding], unsafe)
        if change.text == now.text:
            continue
        after = _judge(judge, change.text, now.name)
        if after is not None and not worse(at, after):
            return change, after, bad
        bad.append(finding)
    return fixes.Change(now, now.text, (), ()), None, bad


def _is_refused(finding: Finding, refused: Sequence[Finding]) -> bool:
    """Whether the same fix was refused before (its place may have moved)."""
    return any(
        (one.code, one.message, one.flag) == (finding.code, finding.message, finding.flag)
        for one in refused
    )


def _judge(judge: Judge, text: str, name: str) -> Report | None:
    try:
        return judge(text, name)
    except AdvisorError:
        return None


def _of_file(report: Report, name: str) -> Report:
    """The part of a report that is about one file."""
    return report._replace(
        findings=tuple(one for one in report.findings if one.file == name),
        launches=tuple(one for one in report.launches if one.launch.file == name),
    )


def worse(before: Report, after: Report) -> bool:
    """Whether a server is lost or gained, or there are more errors, more errors and warnings, or
    more findings.
    """
    if len(before.launches) != len(after.launches):
        return True
    for ranks in (("error",), ("error", "warning"), ("error", "warning", "info")):
        counts = [
            sum(one.severity in ranks for one in report.findings) for report in (before, after)
        ]
        if counts[1] > counts[0]:
            return True
    return False
