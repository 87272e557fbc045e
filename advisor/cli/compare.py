"""`advisor compare` and `advisor why-not`: choices side by side, and why the answer has another."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from advisor.advice.explore.compare import compare as compare_choices
from advisor.advice.explore.compare import kind_of
from advisor.advice.explore.values import Rate
from advisor.advice.explore.why_not import why_not as explain_why_not
from advisor.advice.explore.within import objectives
from advisor.advice.explore.within import price as per_hour_of
from advisor.advice.questions import question, request_from
from advisor.cli.lazy import HELP
from advisor.cli.options import question_options
from advisor.cli.recommend import page_width, takes_unicode, wants_color, write
from advisor.domain.nouns import AdvisorError
from advisor.lint.side_by_side import side_by_side
from advisor.render.compare_json import (
    comparison_json_text,
    files_json_text,
    why_not_json_text,
)
from advisor.render.compare_text import comparison_text, files_text, why_not_text

form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)


def objective_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --users-within, --price and --watts."""
    for option in (
        click.option(
            "--watts",
            type=click.FloatRange(0, 1e6, min_open=True),
            help="Power of the machine: adds energy per million tokens.",
        ),
        click.option(
            "--price", metavar="X/h", help="Price of the machine, 2.10/h: adds cost per million."
        ),
        click.option(
            "--users-within",
            "within",
            metavar="LIMITS",
            help="Find the largest concurrency within limits: tpot=50ms,ttft=2s.",
        ),
    ):
        command = option(command)
    return command


def rate_of(per_hour: str | None, watts: float | None) -> Rate:
    """What the options say of cost and power."""
    return Rate(per_hour=per_hour_of(per_hour) if per_hour is not None else None, watts=watts)


@click.command(context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="A B [C]")
@question_options
@objective_options
@form_option
def compare(
    names: tuple[str, ...],
    within: str | None,
    price: str | None,
    watts: float | None,
    form: str,
    **asked: Any,
) -> None:
    """Compare two or three choices and explain the difference: hardware, models, engines,
    releases (vllm@0.25.1 vllm@0.32.0), quantisations, or launch files.
    """
    style = (page_width(), wants_color())
    if any(os.path.exists(name) or name == "-" for name in names):
        _files(names, form, style, asked)
        return
    if not asked.get("hw") and kind_of(names[0]) == "hardware":
        asked["hw"] = names[0]  # each name is its own
    limits = objectives(within) if within is not None else None
    found = compare_choices(request_from(asked), names, limits)
    rate = rate_of(price, watts)
    write(
        comparison_json_text(found, rate)
        if form == "json"
        else comparison_text(found, rate, *style, unicode=takes_unicode())
    )


def _files(
    names: tuple[str, ...], form: str, style: tuple[int, bool], asked: dict[str, Any]
) -> None:
    missing = [name for name in names if name != "-" and not os.path.exists(name)]
    if missing:
        raise AdvisorError(f"{missing[0]}: no such file; files are compared with files")
    source = click.get_current_context().get_parameter_source
    told = {
        name: asked[key]
        for name, key in (
            ("hw", "hw"),
            ("gpus", "gpus"),
            ("concurrency", "concurrency"),
            ("ctx", "ctx_tokens"),
            ("output_tokens", "output_tokens"),
            ("workload", "workload"),
        )
        if asked.get(key) is not None
        and (asked.get("hw") or source(key) == click.core.ParameterSource.COMMANDLINE)
    }
    found = side_by_side(names, **told)
    text = files_text(found, *style, unicode=takes_unicode())
    write(files_json_text(found) if form == "json" else text)


@click.command("why-not", context_settings=HELP)
@click.argument("what", metavar="WHAT")
@question_options
@form_option
def why_not(what: str, form: str, **asked: Any) -> None:
    """Explain why WHAT was not recommended.

    WHAT is k=4, engine=sglang, quant=bf16, model=NAME or hw=NAME.
    """
    request, _ = question(asked)
    found = explain_why_not(request, what)
    text = why_not_text(found, page_width(), wants_color(), unicode=takes_unicode())
    write(why_not_json_text(found) if form == "json" else text)
