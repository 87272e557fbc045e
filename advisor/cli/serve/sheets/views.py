"""Reports -> what the templates of the two sheets show: a checked configuration, benchmark
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.advice.own_runs.ab_test import AbReport
from advisor.advice.own_runs.calibration import Addition
from advisor.cli.serve.question import question_from
from advisor.cli.serve.sheets.questions import Checkup
from advisor.cli.serve.views import findings
from advisor.readers.results.run import BenchmarkRun
from advisor.render.findings.text import describe_launch, skipped_lines, summary
from advisor.render.own_runs import runs_text

MOST_LINES = 5_000  # of a text that are shown with its findings


def check_view(found: Checkup) -> dict[str, Any]:
    """What the sheet of a checked configuration shows; secrets are taken out of all of it."""
    report = found.report
    clean = report.cleaner()
    (read,) = report.reads
    said = summary(report)
    told = findings(report.findings)
    marks: dict[int, str] = {}
    for one in told:
        marks.setdefault(one.line, one.severity)  # the worst first
    lines = clean(read.source.text).splitlines()[:MOST_LINES]
    return {
        "summary": said[:1].upper() + said[1:],
        "secret": found.secret,
        "findings": told,
        "launches": [
            {
                "text": clean(describe_launch(one)),
                "notes": [clean(note) for note in one.launch.notes],
                "changes": [clean(line) for line in one.change.lines] if one.change else [],
            }
            for one in report.launches
        ],
        "skipped": skipped_lines(report),
        "notes": [clean(note) for one in report.files for note in one.notes],
        "safe_diff": diff_lines(found.safe_diff),
        "all_diff": diff_lines(found.all_diff),
        "fixed": found.fixed,
        "lines": [(n, line, marks.get(n, "")) for n, line in enumerate(lines, 1)],
    }


def diff_lines(diff: str) -> list[tuple[str, str]]:
    """(kind, line) of a unified diff."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    return [
        ("at" if line.startswith(("+++", "---")) else kinds.get(line[:1], "same"), line)
        for line in diff.splitlines()
    ]


def results_view(
    runs: Sequence[BenchmarkRun], report: AbReport | None, added: Addition | None = None
) -> dict[str, Any]:
    """What the sheet of benchmark files shows."""
    texts = [[line.strip() for line in runs_text([run], 100_000).splitlines()] for run in runs]
    word = report.verdict.lower() if report is not None else ""
    good = word.startswith(("faster", "turn", "keep"))
    return {
        "runs": [{"head": head, "lines": list(filter(None, rest))} for head, *rest in texts],
        "ab": report,
        "tone": "on" if good else "off" if "slow" in word else "",
        "added": _addition(added) if added is not None else None,
    }


def _addition(added: Addition) -> dict[str, Any]:
    name, request = added.machine.name, added.request
    many = "run" if added.runs == 1 else "runs"
    words = {"machine": name, "model": request.model, "concurrency": str(request.concurrency)}
    return {
        "text": f"{added.runs} {many} added to machine {name}, {len(added.machine.runs)} in total.",
        "link": f"/?{question_from(words).url()}",
    }
