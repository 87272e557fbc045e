"""A report as GitHub workflow commands, which annotate the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.lint.report import Report

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def report_github(report: Report) -> str:
    """One `::error file=...` line a finding."""
    lines = [
        f"::error file={_property(report.printable(one.file))}"
        f"::{_data(report.printable(one.error))}"
        for one in report.files
        if one.error
    ]
    for finding in report.findings:
        where = (
            f"file={_property(report.printable(finding.file or '-'))},line={max(1, finding.line)}"
        )
        if finding.column:
            where += f",col={finding.column}"
        text = report.printable(finding.message)
        if finding.fix:
            text += f"\nFix: {report.printable(finding.fix.text)}"
        title = f"{finding.code} {finding.slug}".strip()
        lines.append(
            f"::{_LEVELS[finding.severity]} {where},title={_property(title)}::{_data(text)}"
        )
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
