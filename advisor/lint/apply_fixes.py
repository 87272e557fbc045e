"""Fixes until nothing is left to fix, judged after each round: a change that makes things worse is
not made.

A fixed text must still be read, start as many servers, and have no more findings of any severity
than before.
"""

from collections.abc import Callable, Sequence

from advisor.domain.nouns import AdvisorError, Edit, Finding
from advisor.domain.patterns import lazy_re
from advisor.lint import fixes
from advisor.lint.report import Report
from advisor.readers.source import SourceText

Judge = Callable[[str, str], Report]  # (text, name) -> its report
ROUNDS = 12


def apply_rounds(
    source: SourceText, report: Report, judge: Judge, unsafe: bool = False
) -> fixes.FileChange:
    """The file's text after all fixes that hold, applied in rounds (a fix may wait for one that it
    overlaps with).

    `applied` are the findings that were fixed. Raises nothing: a text that cannot be judged after a
    fix is not taken.
    """
    own = tuple(one for one in report.findings if one.file == source.name)
    launches = tuple(one for one in report.launches if one.launch.file == source.name)
    now, at = source, report._replace(findings=own, launches=launches)
    applied: list[Finding] = []
    refused: list[Finding] = []
    for _ in range(ROUNDS):
        bad = {_key(one) for one in refused}  # the same fix, whose place may have moved
        left = [one for one in at.findings if _key(one) not in bad]
        change = fixes.apply_edits(now, left, unsafe)
        if change.text == now.text:
            break
        after = _judge(judge, change.text, source.name)
        if after is None or worse(at, after):
            change, after, more = _one_by_one(now, at, left, judge, unsafe)
            refused += more
            if after is None:
                continue
        applied += change.applied
        now = SourceText(change.text, source.name, source.encoding, source.bom, source.notes)
        at = after
    return fixes.FileChange(source, now.text, tuple(applied))


def _one_by_one(
    now: SourceText, at: Report, findings: Sequence[Finding], judge: Judge, unsafe: bool
) -> tuple[fixes.FileChange, Report | None, list[Finding]]:
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
    return fixes.FileChange(now, now.text, ()), None, bad


def _key(finding: Finding) -> tuple[str, str, str | None]:
    return finding.code, finding.message, finding.flag


def _judge(judge: Judge, text: str, name: str) -> Report | None:
    try:
        return judge(text, name)
    except AdvisorError:
        return None


def worse(before: Report, after: Report) -> bool:
    """Whether a server is lost or gained, or errors grow; with as many, warnings, then remarks."""
    if len(before.launches) != len(after.launches):
        return True
    counts = [
        [
            sum(one.severity == rank for one in report.findings)
            for rank in ("error", "warning", "info")
        ]
        for report in (before, after)
    ]
    return counts[1] > counts[0]


CODE = "SD126"
_BLANKS = lazy_re(r"[\\^][ \t]+(?=\r?\n)")
_BEHIND = lazy_re(r"\\([ \t]+#[^\n]*?)(?=\r?\n|$)")
_WRONG = lazy_re(r"(?<=[ \t])(?:/|\\\\)$")
_REMARK = lazy_re(r"(?:^|[ \t;&|])#")


def continue_line(source: SourceText, finding: Finding) -> Finding:
    """The finding with the edit that joins the line above to the lost options: a backslash, or the
    blanks behind one taken away. As it is where a comment stands between.
    """
    if finding.code != CODE or finding.fix is None or finding.fix.edits:
        return finding
    place = _joint(source.text, finding.line, "^" in finding.fix.text)
    if place is None:
        return finding
    start, end, text = place
    edit = Edit(file=finding.file, start=start, end=end, text=text)
    return finding.replace(fix=finding.fix.replace(edits=(edit,)))


def _joint(text: str, line: int, caret: bool) -> tuple[int, int, str] | None:
    """Start, end and text of the edit that makes the line above go on."""
    lines = text.splitlines(keepends=True)
    if not 2 <= line <= len(lines):
        return None
    start, above = sum(map(len, lines[: line - 2])), lines[line - 2]
    if blanks := _BLANKS.search(above):
        return start + blanks.start() + 1, start + blanks.end(), ""
    if remark := _BEHIND.search(above):  # a backslash, then a comment: only the sign stays
        return start + remark.start(1), start + remark.end(1), ""
    if not above.strip():  # an empty line behind a backslash
        return start, start + len(above), ""
    words = above.rstrip()
    end = start + len(words)
    if wrong := _WRONG.search(words):  # a slash, or two backslashes
        return start + wrong.start(), start + wrong.end(), "\\"
    if caret and words.endswith("\\"):
        return end - 1, end, "^"
    if words.endswith("\\") or _REMARK.search(words):
        return None
    return end, end, " \\"
