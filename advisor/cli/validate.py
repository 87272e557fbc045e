"""`advisor validate`: lint the serving configuration that people already run."""

from __future__ import annotations

from typing import Any, get_args

import click

from advisor.cli.lazy import HELP
from advisor.cli.options import complete_names
from advisor.cli.validate_run import RANK, run
from advisor.domain.nouns import Workload

WORKLOADS: tuple[str, ...] = get_args(Workload)


def _codes(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


@click.command(context_settings=HELP)
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
)
@click.option(
    "--select",
    multiple=True,
    callback=_codes,
    help="Check only these codes or families (SD201, SD2).",
)
@click.option("--ignore", multiple=True, callback=_codes, help="Skip these codes or families.")
@click.option(
    "--fail-on",
    type=click.Choice(list(RANK)),
    default="error",
    show_default=True,
    help="Lowest severity that exits with 1.",
)
@click.option(
    "--hw",
    shell_complete=complete_names("hardware"),
    help="Hardware, as in `advisor hardware`; auto detects this machine.",
)
@click.option("--gpus", type=click.IntRange(1, 1024), help="Number of GPUs.")
@click.option("--concurrency", type=click.IntRange(1, 100_000), help="Concurrent requests.")
@click.option("--ctx", type=click.IntRange(1, 10_000_000), help="Prompt tokens per request.")
@click.option(
    "--output-tokens", type=click.IntRange(1, 10_000_000), help="Output tokens per request."
)
@click.option("--workload", type=click.Choice(WORKLOADS))
@click.option("--engine-version", help="Engine release; overrides the file's.")
@click.option("--diff", is_flag=True, help="Show what --fix would change; change nothing.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes in place.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="Apply (with --diff: show) the other fixes as well."
)
@click.option(
    "--target-version",
    help="Print the launch for another release of its engine (with --fix: rewrite its flags).",
)
@click.option(
    "--skip-unrelated", is_flag=True, help="Do not fail on files that start no engine (for hooks)."
)
@click.option(
    "--color/--no-color",
    default=None,
    help="Colour the output; default: on a terminal without NO_COLOR.",
)
def validate(files: tuple[str, ...], **options: Any) -> None:
    """Report settings of a launch that crash, slow down, corrupt output or are silently ignored.

    FILE is a script, compose file, manifest, unit, preset, ..., a folder, or - for standard
    input. Exit status: 0 clean, 1 findings at or above --fail-on, 2 not read completely.
    """
    context = click.get_current_context()
    context.exit(run(files or ("-",), options))
