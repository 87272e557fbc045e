"""`advisor sweep`: curves of gain against load."""

from __future__ import annotations

from typing import Any

import click

from advisor.advice.asked import question
from advisor.cli.options import question_options
from advisor.cli.recommend import machine_option, write
from advisor.cli.settings import HELP
from advisor.explore.axes import parsed
from advisor.explore.sweep import sweep as swept
from advisor.render.sweep_json import sweep_csv, sweep_json_text


@click.command(context_settings=HELP)
@question_options
@machine_option
@click.option(
    "--vary",
    "varied",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="What varies, e.g. concurrency=1..128, k=0..4, ctx=512,8192; give it several times.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv"]),
    default="csv",
    show_default=True,
    help="Form of the answer.",
)
def sweep(varied: tuple[str, ...], form: str, **asked: Any) -> None:
    """Gain against load, one curve a k: where it pays, where it stops to, and what was measured."""
    vary = dict(parsed(text) for text in varied)
    request, machine = question(asked)
    found = swept(request, vary, machine=machine)
    write(sweep_json_text(found) if form == "json" else sweep_csv(found))
