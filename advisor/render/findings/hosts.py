"""A report for code hosts: SARIF 2.1.0, and workflow commands of GitHub that annotate lines."""

import os
from typing import Any
from urllib.parse import quote

from advisor.domain.nouns import Finding
from advisor.lint.fixes import shape_edit
from advisor.lint.report import Failure, Report
from advisor.readers import FileRead
from advisor.render.findings.json_out import redact_data
from advisor.render.findings.text import link
from advisor.rules import get_rule

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report_sarif(report: Report) -> dict[str, Any]:
    """The report as one SARIF run."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("mtp-advisor")
    except PackageNotFoundError:
        own = "0"
    codes = sorted({finding.code for finding in report.findings})
    reads = {read.source.name: read for read in report.reads}
    driver = {"name": "advisor", "semanticVersion": own, "rules": list(map(_rule, codes))}
    told: dict[str, Any] = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": not report.failures,
                        "toolExecutionNotifications": [_notification(x) for x in report.failures],
                    }
                ],
                "results": [_result(one, codes, reads) for one in report.findings],
            }
        ],
    }
    clean: dict[str, Any] = redact_data(told, report)
    return clean


def _notification(failure: Failure) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": uri(failure.file)}}
    if failure.line:
        place["region"] = {"startLine": failure.line}
    return {
        "level": "error",
        "message": {"text": failure.text},
        "locations": [{"physicalLocation": place}],
    }


def _rule(code: str) -> dict[str, Any]:
    found = get_rule(code)
    links = (link(source) for source in found.sources)
    address = next((one for one in links if one.startswith("https://")), None)
    return {
        "id": code,
        **({"helpUri": address} if address else {}),
        "name": "".join(part.title() for part in found.slug.split("-")),
        "shortDescription": {"text": found.text.summary},
        "fullDescription": {"text": found.text.why},
        "help": {
            "text": f"Bad: {found.text.bad.text}\nGood: {found.text.good.text}\nSources: "
            f"{'; '.join(found.sources)}"
        },
        "defaultConfiguration": {"level": _LEVELS[found.severity]},
    }


def uri(name: str) -> str:
    """A file name as a relative reference where it lies below the working folder."""
    if name in ("", "-"):
        return "stdin"
    relative = os.path.relpath(name) if os.path.isabs(name) else name
    return quote((name if relative.startswith("..") else relative).replace(os.sep, "/"))


def _result(finding: Finding, codes: list[str], reads: dict[str, FileRead]) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(1, finding.line)}
    if finding.column:
        region["startColumn"] = finding.column
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message + (f" Fix: {finding.fix.text}" if finding.fix else "")},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": uri(finding.file)}, "region": region}}
        ],
        "properties": {
            "sources": list(finding.sources),
            "engine": finding.engine,
            "flag": finding.flag,
        },
    }
    fixes = _fixes(finding, reads.get(finding.file))
    return {**result, "fixes": fixes} if fixes else result


def _fixes(finding: Finding, read: FileRead | None) -> list[dict[str, Any]]:
    """The edits as SARIF replacements, in the form that the place has."""
    if finding.fix is None or not finding.fix.edits or read is None:
        return []
    replacements = []
    for edit in (shape_edit(read.source.text, edit) for edit in finding.fix.edits):
        if edit is None:  # the place cannot take it
            continue
        places = (*read.source.place(edit.start), *read.source.place(edit.end))
        region = dict(zip(_REGION, places, strict=True))
        replacements.append({"deletedRegion": region, "insertedContent": {"text": edit.text}})
    change = {"artifactLocation": {"uri": uri(finding.file)}, "replacements": replacements}
    return [{"description": {"text": finding.fix.text}, "artifactChanges": [change]}]


_REGION = ("startLine", "startColumn", "endLine", "endColumn")
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def report_github(report: Report) -> str:
    """One `::error file=...` line a finding."""
    show = report.printer()
    lines = [
        f"::error file={_property(show(one.file))}"
        + (f",line={one.line}" if one.line else "")
        + f"::{_data(show(one.text))}"
        for one in report.failures
    ]
    for finding in report.findings:
        where = f"file={_property(show(finding.file or '-'))},line={max(1, finding.line)}"
        if finding.column:
            where += f",col={finding.column}"
        text = show(finding.message)
        if finding.fix:
            text += f"\nFix: {show(finding.fix.text)}"
        title = f"{finding.code} {finding.slug}".strip()
        lines.append(
            f"::{_COMMANDS[finding.severity]} {where},title={_property(title)}::{_data(text)}"
        )
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
