"""The fix of a command that a line's end cuts off (SD126): only the file's text shows the place."""

from __future__ import annotations

from advisor.domain.nouns import Edit, Finding
from advisor.domain.patterns import lazy_re
from advisor.readers.source import Source

CODE = "SD126"
_BLANKS = lazy_re(r"\\[ \t]+(?=\r?\n)")
_BEHIND = lazy_re(r"\\([ \t]+#[^\n]*?)(?=\r?\n|$)")
_REMARK = lazy_re(r"(?:^|[ \t;&|])#")


def continue_line(source: Source, finding: Finding) -> Finding:
    """The finding with the edit that joins the line above to the lost options: a backslash, or the
    blanks behind one taken away. As it is where a comment stands between.
    """
    if finding.code != CODE or finding.fix is None or finding.fix.edits:
        return finding
    edit = _edit(source, finding)
    if edit is None:
        return finding
    return finding.model_copy(update={"fix": finding.fix.model_copy(update={"edits": (edit,)})})


def _edit(source: Source, finding: Finding) -> Edit | None:
    lines = source.text.splitlines(keepends=True)
    if not 2 <= finding.line <= len(lines):
        return None
    start = sum(len(line) for line in lines[: finding.line - 2])
    above = lines[finding.line - 2]
    if blanks := _BLANKS.search(above):
        at = start + blanks.start() + 1
        return Edit(file=finding.file, start=at, end=start + blanks.end(), text="")
    if remark := _BEHIND.search(above):  # a backslash, then a comment: only the sign stays
        at = start + remark.start(1)
        return Edit(file=finding.file, start=at, end=start + remark.end(1), text="")
    words = above.rstrip()
    if finding.fix is not None and "^" in finding.fix.text and words.endswith("\\"):
        at = start + len(words) - 1
        return Edit(file=finding.file, start=at, end=at + 1, text="^")
    if not words or words.endswith("\\") or _REMARK.search(words):
        return None
    at = start + len(words)
    return Edit(file=finding.file, start=at, end=at, text=" \\")
