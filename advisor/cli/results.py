"""`advisor results` and `advisor ab`: what a user's benchmark files say, and what an A/B of them
is worth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.advice.own_runs import setting as settings
from advisor.advice.own_runs.ab_test import judge_ab
from advisor.cli.lazy import HELP
from advisor.cli.options import setting_options
from advisor.cli.recommend import page_width, write
from advisor.readers.results.formats import read_all
from advisor.render.results_json import ab_json_text, runs_json_text
from advisor.render.results_text import ab_text, runs_text

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FORMAT = click.Choice(["text", "json"])


@click.command(context_settings=HELP)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--format", "form", type=FORMAT, default="text", show_default=True)
def results(files: tuple[Path, ...], form: str) -> None:
    """Show what benchmark files contain.

    Engine, k, load, TTFT, TPOT, ITL, output tok/s and acceptance by position, as far as they are
    stated. The format is detected from the content: vllm bench, sglang.benchmark.serving, llama-
    bench, GuideLLM, AIPerf, llama-benchy, a server's /metrics, log lines of the engines and more.
    Exit status 2 where a file cannot be read.
    """
    runs = read_all(files)
    if form == "json":
        write(runs_json_text(runs))
        return
    write(runs_text(runs, page_width()))


@click.command(context_settings=HELP)
@click.argument("off", type=FILE)
@click.argument("on", type=FILE)
@click.option(
    "--off", "more_off", multiple=True, type=FILE, help="Another run without speculation."
)
@click.option("--on", "more_on", multiple=True, type=FILE, help="Another run with speculation.")
@click.option("--launch", type=FILE, help="Launch of the benchmark: compose.yml, a script, a unit.")
@setting_options
@click.option("--format", "form", type=FORMAT, default="text", show_default=True)
def ab(
    off: Path,
    on: Path,
    more_off: tuple[Path, ...],
    more_on: tuple[Path, ...],
    launch: Path | None,
    form: str,
    **asked: Any,
) -> None:
    """Evaluate an A/B benchmark: OFF is the run without speculation, ON the one with it.

    Prints the gains with their noise, whether the runs are comparable, acceptance and step time
    against the expected values, and what to try next. Exit status: 1 if the runs are not
    comparable, 2 if a file cannot be read.
    """
    left, right = read_all((off, *more_off)), read_all((on, *more_on))
    plan = settings.plan_of_launch(launch) if launch else None
    report = judge_ab(left, right, settings.setting(left, right, asked, plan))
    if form == "json":
        write(ab_json_text(report))
    else:
        write(ab_text(report, page_width()))
    if report.verdict == "not comparable":
        click.get_current_context().exit(1)
