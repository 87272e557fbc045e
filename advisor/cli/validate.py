"""`advisor validate`: check a serving configuration; print the findings, show a diff or fix."""

import os
import sys
from typing import Any

import click

from advisor.advice.spoken import split_count
from advisor.cli.base import HELP, form_option, option, say
from advisor.cli.options import CHECKED, click_options
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import json_text
from advisor.lint.report import Report, merge_reports, no_launch_message, with_unread
from advisor.lint.validate import validate as check_files

RANK = {"info": 0, "warning": 1, "error": 2, "never": 3}


def run(files: tuple[str, ...], options: dict[str, Any]) -> int:
    """Judge the files and act on the options; the exit status."""
    report = judge(files, options)
    if options["diff"]:
        return int(bool(apply_fixes(report, options)))
    fixing = options["fix"] or options["unsafe_fixes"]
    if fixing and (changed := apply_fixes(report, options)):
        report = check_again(files, changed, options)
    show(report, options, aside=bool(fixing) and "-" in files)
    return exit_status(report, options)


def judge(files: tuple[str, ...], options: dict[str, Any]) -> Report:
    """The report for the files."""
    report = _check(options, source=files[0] if len(files) == 1 else files)
    if options["skip_unrelated"] or no_launch_message(report):
        return report
    return with_unread(report, files)


def check_again(files: tuple[str, ...], changed: dict[str, str], options: dict[str, Any]) -> Report:
    """The report after fixes; standard input is judged as it was printed."""
    if "-" not in changed:
        return judge(files, options)
    piped = _check(options, text=changed["-"], name="-")
    others = tuple(name for name in files if name != "-")
    return merge_reports([piped, judge(others, options)]) if others else piped


def _check(options: dict[str, Any], **read: Any) -> Report:
    """The report, with what `recommend` would do instead where enough is told to say it."""
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return check_files(
        changes=bool(options["hw"] and options["concurrency"] and options["ctx"]),
        project=not options["isolated"],
        jobs=options["jobs"] or len(own) or os.cpu_count() or 1,
        **context_of(options),
        **read,
    )


def context_of(options: dict[str, Any]) -> dict[str, Any]:
    """What the caller tells beside the files."""
    names = [*(row.name for row in CHECKED.values()), "select", "ignore"]
    wanted = {name: options[name] for name in names if options[name]}
    if wanted.get("hw") == "auto":
        from advisor.knowledge.detect import detect  # start-up: only for this option

        found, gpus = detect()
        wanted = {"gpus": gpus, **wanted, "hw": found.id}
    elif "hw" in wanted:
        name, count = split_count(wanted["hw"])
        wanted = ({"gpus": count} if count else {}) | wanted | {"hw": name}
    return wanted


def apply_fixes(report: Report, options: dict[str, Any]) -> dict[str, str]:
    """Write (or, with --diff, show) the fixes; the new texts by file. Standard input is a filter:
    its text always comes out, changed or not, and always counts as new, because it cannot be
    read again.
    """
    from advisor.lint import fixes  # start-up: only for this option
    from advisor.lint.apply_fixes import apply_rounds  # start-up: only for this option

    wanted = {**context_of(options), "project": not options["isolated"]}
    changed: dict[str, str] = {}
    for read in report.reads:
        change = apply_rounds(
            read.source,
            report,
            lambda text, name: check_files(text=text, name=name, **wanted),
            options["unsafe_fixes"],
        )
        piped = read.source.name == "-" and not options["diff"]
        if change.text == read.source.text and not piped:
            continue
        changed[read.source.name] = change.text
        if options["diff"]:
            say(fixes.redacted_diff(change, read.redactor), end="")
        elif piped:
            click.echo(read.source.bom + change.text.encode(read.source.encoding), nl=False)
        else:
            fixes.write(change)
            codes = ", ".join(sorted({one.code for one in change.applied}))
            say(f"{read.source.name}: fixed {codes}", err=True)
    return changed


def show(report: Report, options: dict[str, Any], aside: bool = False) -> None:
    """Print the report; `aside`: to standard error, where the output is the fixed text."""
    form = options["form"]
    if form == "text":
        from advisor.render.findings.text import report_text  # start-up: only for this option

        stream, colour = sys.stderr if aside else sys.stdout, options["color"]
        if colour is None:
            colour = stream.isatty() and "NO_COLOR" not in os.environ
        say(report_text(report, colour, options["verbose"]), color=colour, err=aside)
    else:
        from advisor.render.findings import hosts, json_out  # start-up: not for the text

        if form == "github":
            if text := hosts.report_github(report):
                say(text, err=aside)
            return
        data = json_out.report_json(report) if form == "json" else hosts.report_sarif(report)
        say(json_text(data), err=aside)


def exit_status(report: Report, options: dict[str, Any]) -> int:
    """2: not read, or not to its end; 1: findings at or above --fail-on; else 0."""
    if report.failures:
        return 2
    if not options["skip_unrelated"] and (problem := no_launch_message(report)):
        raise AdvisorError(problem)
    if report.cut_short:
        return 2
    worst = max((RANK[finding.severity] for finding in report.findings), default=-1)
    return int(worst >= RANK[options["fail_on"]])


def _codes(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


@click.command(context_settings=HELP)
@click.argument("files", nargs=-1, metavar="FILE...")
@form_option("text", "json", "sarif", "github")
@option(
    "select", "Check only these codes or families (SD201, SD2).", multiple=True, callback=_codes
)
@option("ignore", "Skip these codes or families.", multiple=True, callback=_codes)
@option("fail-on", "Lowest severity that exits with 1.", list(RANK), default="error")
@click_options(CHECKED, defaults=False)
@option("diff", "Show what --fix would change; change nothing.", bool)
@option("fix", "Apply the safe fixes in place.", bool)
@option("unsafe-fixes", "Apply (with --diff: show) the other fixes as well.", bool)
@option("skip-unrelated", "Do not fail on files that start no engine (for hooks).", bool)
@option("isolated", "Ignore [tool.advisor] and advisor.toml.", bool)
@option("jobs", "Processes for many files; default: all cores.", click.IntRange(1, 256))
@option("verbose", "All sources, and the codes of skipped rules.", bool)
@option(
    "color/--no-color", "Colour the output; default: on a terminal without NO_COLOR.", default=None
)
def validate(files: tuple[str, ...], **options: Any) -> None:
    """Report settings of a launch that crash, slow down, corrupt output or are silently ignored.

    FILE is a script, compose file, manifest, unit, preset, ..., a folder, or - for standard
    input. Exit status: 0 clean, 1 findings at or above --fail-on, 2 not read completely.
    """
    click.get_current_context().exit(run(files or ("-",), options))
