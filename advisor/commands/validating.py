"""What `advisor validate` does with its options: judge, then print, show a diff, fix or migrate."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from advisor.commands.validate import exit_status

if TYPE_CHECKING:
    from advisor.validating import Report


def run(files: tuple[str, ...], options: dict[str, Any]) -> int:
    """Judge the files and act on the options; the exit status."""
    if options["target_version"]:
        from advisor.migrating import migrate_files

        return migrate_files(files, options)
    report = judge(files, options)
    if options["diff"] or options["fix"] or options["unsafe_fixes"]:
        changed = apply_fixes(report, options)
        if options["diff"]:
            return int(changed)
        if changed and "-" not in files:
            report = judge(files, options)
        elif "-" in files:
            return exit_status(report, options)
    status = exit_status(report, options)
    show(report, options)
    return status


def judge(files: tuple[str, ...], options: dict[str, Any]) -> Report:
    """The report for the files."""
    from advisor.validating import validate

    complete = bool(options["hw"] and options["concurrency"] and options["ctx"])
    return validate(files[0] if len(files) == 1 else files, changes=complete, **told(options))


def told(options: dict[str, Any]) -> dict[str, Any]:
    """What the caller tells beside the files."""
    names = ("hw", "gpus", "concurrency", "ctx", "output_tokens", "workload", "engine_version", "select", "ignore")
    wanted = {name: options[name] for name in names if options[name]}
    if wanted.get("hw") == "auto":
        from advisor.knowledge import detect_hardware

        found, gpus = detect_hardware()
        wanted = {"gpus": gpus, **wanted, "hw": found.id}
    return wanted


def apply_fixes(report: Report, options: dict[str, Any]) -> bool:
    """Write (or, with --diff, show) the fixes; whether there was anything to change."""
    from advisor import fixes
    from advisor.fixing import settled
    from advisor.validating import validate

    wanted = told(options)
    changed = False
    for read in report.reads:
        change = settled(
            read.source, report, lambda text, name: validate(text=text, name=name, **wanted), options["unsafe_fixes"]
        )
        if change.text == read.source.text:
            continue
        changed = True
        if options["diff"]:
            click.echo(fixes.shown_diff(change, read.redactor), nl=False)
        elif read.source.name == "-":
            click.echo(change.text, nl=False)
        else:
            fixes.write(change)
            click.echo(f"{read.source.name}: fixed {', '.join(sorted({one.code for one in change.applied}))}", err=True)
    return changed


def show(report: Report, options: dict[str, Any]) -> None:
    """Print the report in the format asked for."""
    form = options["form"]
    if form == "text":
        from advisor.render.findings_text import report_text

        colour = _colour(options["color"])
        click.echo(report_text(report, colour), color=colour)
    elif form == "github":
        from advisor.render.findings_github import report_github

        if text := report_github(report):
            click.echo(text)
    else:
        import json

        from advisor.render.findings_json import report_json
        from advisor.render.findings_sarif import report_sarif

        data = report_json(report) if form == "json" else report_sarif(report)
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _colour(asked: bool | None) -> bool:
    return asked if asked is not None else sys.stdout.isatty() and "NO_COLOR" not in os.environ
