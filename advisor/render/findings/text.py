"""A report for people: one finding a line with its place and code, then the fix, then what could
not be judged.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from advisor.domain.nouns import Finding
from advisor.lint.report import merge_repeats
from advisor.rules.kit.case import k_words

if TYPE_CHECKING:
    from advisor.lint.report import CheckedLaunch, Report

_COLOURS = {"error": "31", "warning": "33", "info": "36"}


def report_text(report: Report, color: bool = False) -> str:
    """The whole report as text, without a trailing newline."""
    lines: list[str] = []
    for one in report.failures:
        where = report.printable(one.file) + (f":{one.line}" if one.line else "")
        lines.append(
            f"{where}: {_paint(one.kind, 'error', color)}: "
            f"{_without_name(report.printable(one.reason), report.printable(one.file))}"
        )
    for finding, also in merge_repeats(report.findings):
        lines += _finding(finding, report, color, also)
    if lines:
        lines.append("")
    plain = _launches(report) + skipped_lines(report)
    plain += [f"note: {one.file}: {note}" for one in report.files for note in one.notes]
    lines += map(report.printable, [*plain, summary(report)])
    return "\n".join(lines)


def _without_name(text: str, name: str) -> str:
    return text.removeprefix(f"{name}:").strip()


def _paint(text: str, severity: str, color: bool) -> str:
    return f"\x1b[{_COLOURS[severity]}m{text}\x1b[0m" if color else text


def place(finding: Finding) -> str:
    """file:line:column, as far as known."""
    parts = [finding.file or "-"]
    if finding.line:
        parts.append(str(finding.line))
        if finding.column:
            parts.append(str(finding.column))
    return ":".join(parts)


def _finding(
    finding: Finding, report: Report, color: bool, also: tuple[int, ...] = ()
) -> list[str]:
    """The lines of one finding. Colour is put on what is fit to be shown, so that no other text
    can bring its own.
    """
    head = (
        f"{report.printable(place(finding))}: {_paint(finding.severity, finding.severity, color)} "
        f"{finding.code} {report.printable(finding.message)}"
    )
    lines = []
    if also:
        lines.append(f"    also on {_lines(also)}")
    if finding.fix is not None:
        kind = (
            "" if not finding.fix.edits else " (--fix)" if finding.fix.safe else " (--unsafe-fixes)"
        )
        lines.append(f"    fix{kind}: {finding.fix.text}")
    lines += [f"    but: {text}" for text in finding.conflicts]
    if finding.sources:
        lines.append(f"    source: {'; '.join(finding.sources)}")
    return [head, *map(report.printable, lines)]


def _lines(also: tuple[int, ...]) -> str:
    more = f" and {len(also) - 12} more" if len(also) > 12 else ""
    return f"line{'s' if len(also) > 1 else ''} {', '.join(map(str, also[:12]))}{more}"


def _launches(report: Report) -> list[str]:
    lines: list[str] = []
    for one in report.launches:
        lines.append(f"{one.launch.file or '-'}:{one.launch.line}: {describe_launch(one)}")
        lines += [f"    note: {note}" for note in one.launch.notes]
        if one.change is not None:
            lines += [f"    {line}" for line in one.change.lines]
    return lines


def describe_launch(one: CheckedLaunch) -> str:
    """One launch in one line: engine, version, model, speculation."""
    version = one.launch.engine_version or one.launch.version_text or "version not pinned"
    if one.launch.engine_version and not one.launch.version_pinned:
        version += " (not pinned)"
    fork = f", {one.launch.fork}" if one.launch.fork else ""
    plan = one.plan
    spec = "no speculation" if plan.method == "none" else f"{plan.method}{k_words(plan)}"
    if plan.method == "none" and plan.k:
        spec += f" ({plan.k} draft tokens are set, but no method)"
    hardware = one.facts.hardware
    named = one.launch.container is not None and one.launch.container.gpu_kind
    host = f", on {hardware.name or hardware.id}" if named and hardware is not None else ""
    return (
        f"{one.launch.engine} {version}{fork}, "
        f"{one.launch.model or 'model not in the file'}, {spec}{host}"
    )


_OPTIONS = {
    "hardware": "--hw",
    "concurrency": "--concurrency",
    "ctx_tokens": "--ctx",
    "output_tokens": "--output-tokens",
    "workload": "--workload",
    "version": "--engine-version",
}


def skipped_lines(report: Report) -> list[str]:
    """Rules that lacked an input: first those that an option tells, then those that only the file
    could.
    """
    open_to_all: set[str] = set()
    closed: dict[tuple[str, ...], set[str]] = {}
    options: set[str] = set()
    for one in report.skipped:
        lacking = tuple(name for name in one.needs if name not in _OPTIONS)
        if lacking:
            closed.setdefault(lacking, set()).add(one.code)
        else:
            open_to_all.add(one.code)
            options |= {_OPTIONS[name] for name in one.needs}
    lines = []
    if open_to_all:
        asked = ", ".join(option for option in _OPTIONS.values() if option in options)
        lines.append(f"skipped, pass {asked}: {', '.join(sorted(open_to_all))}")
    return lines + [
        f"skipped, {' and '.join(needs)} unknown: {', '.join(sorted(codes))}"
        for needs, codes in sorted(closed.items())
    ]


def summary(report: Report) -> str:
    """How many findings of which severity, in how many launches."""
    counts = Counter(finding.severity for finding in report.findings)
    said = ", ".join(
        f"{counts[name]} {name}{'s' if counts[name] != 1 and name != 'info' else ''}"
        for name in ("error", "warning", "info")
        if counts[name]
    )
    suppressed = sum(one.suppressed for one in report.files)
    tail = f" ({suppressed} ignored in the file)" if suppressed else ""
    launches, files = len(report.launches), len(report.files)
    where = (
        f"{launches} launch{'es' if launches != 1 else ''} of {files} "
        f"file{'s' if files != 1 else ''}"
    )
    end = "; the rest was not checked" if report.cut_short else ""
    return f"{said or 'no findings'}{tail} in {where}{end}"
