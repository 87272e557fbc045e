"""`advisor recommend`, `compose`, `schema`: a question in, an answer out in the form asked for."""

import os
import sys
from typing import Any

import click

from advisor.advice.questions import advice_for, no_mtp_answer, policy_for
from advisor.cli.base import HELP, form_option, option, say, with_options
from advisor.cli.options import LIMITS_AND_COST, click_options, question_options
from advisor.domain.nouns import Advice, AdvisorError
from advisor.domain.shell import shell_word
from advisor.knowledge import store as knowledge
from advisor.render.deploy.settings import KEYS, read_settings
from advisor.render.forms import FORMS, STARTS
from advisor.render.layout import Paper
from advisor.render.notes import placeholder, reach
from advisor.render.objects import SCHEMAS, named_schema, text_of
from advisor.render.text import advice_text

_RECEIPTS = "Use the receipts in this folder, see `advisor receipt`."
machine_option = with_options(
    option(
        "machine", "Use the measurements of this machine, see `advisor calibrate`.", metavar="NAME"
    ),
    option("receipts", _RECEIPTS, click.Path(file_okay=False), metavar="FOLDER"),
)


@click.command(context_settings=HELP)
@question_options
@machine_option
@click_options(LIMITS_AND_COST, "users-within price")
@form_option("text", *FORMS, text="Output format.")
@option("explain", "Print all reasons, findings, memory, evidence and sources.", bool)
@option("set", f"Of the file: {', '.join(KEYS)}.", multiple=True, metavar="KEY=VALUE")
def recommend(form: str, explain: bool, **asked: Any) -> None:
    """Recommend speculative decoding on or off, with k, expected gain, reasons and launch command.

    The third answer, measure, comes with the A/B benchmark to run.
    """
    if explain and form != "text":
        raise click.UsageError("--explain is for --format text")
    settings = read_settings(asked.pop("set"))
    if settings and form not in STARTS:
        raise click.UsageError(f"--set needs --format {', '.join(STARTS)}")
    if answer := no_mtp_answer(asked):
        raise AdvisorError(answer)
    if within := asked.pop("within"):
        from advisor.advice.explore.within import objectives  # start-up: only where it is asked

        asked |= objectives(within)
    price = asked.pop("price")
    if form in ("text", "json") and not explain:
        written = _over_range(asked, price, form)
        if written is not None:
            return write(written)
    write(render_form(_with_objectives(asked, price).replace(settings=settings), form, explain))


def _over_range(asked: dict[str, Any], price: str | None, form: str) -> str | None:
    """The answer for a range of loads; None for one, or where nothing can draft."""
    if (chosen := policy_for(asked)) is None:
        return None
    from advisor.advice.explore import within  # start-up: only for a range
    from advisor.render.explore import json_out, text

    if price is not None:
        chosen = chosen.replace(sweep=within.complete(chosen.sweep, {}, within.rate_of(price)))
    return (
        text_of(json_out.POLICY.json(chosen))
        if form == "json"
        else text.policy_text(chosen, paper())
    )


def _with_objectives(asked: dict[str, Any], price: str | None) -> Advice:
    """The answer with the users within its objectives, and with what tokens cost."""
    if price is asked["max_tpot_ms"] is asked["max_ttft_ms"] is None:
        return advice_for(asked)
    from advisor.advice.explore import within  # start-up: only with objectives

    advice = within.with_users(advice_for(asked))
    return advice if price is None else within.with_costs(advice, within.rate_of(price))


@click.command()
@question_options
@machine_option
def compose(**asked: Any) -> None:
    """Print the recommended launch as a complete docker-compose.yml."""
    answer = no_mtp_answer(asked)
    if answer:
        raise AdvisorError(answer)
    write(render_form(advice_for(asked), "compose"))


@click.command()
@click.argument("name", type=click.Choice(tuple(SCHEMAS)))
def schema(name: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a command's JSON, or of a hardware or model file."""
    write(text_of(named_schema(name)))


def render_form(advice: Advice, form: str, explain: bool = False) -> str:
    """The advice in one form; what a pipe must not pick up goes to standard error."""
    if form == "text":
        return advice_text(advice, paper(), source_of=knowledge.source_of, explain=explain)
    text = FORMS[form].write(advice)  # first, so that a refusal stands alone
    if form == "flags":
        if env := [f"{name}={shell_word(value)}" for name, value in advice.launch.env.items()]:
            say("set first: " + " ".join(env), err=True)
        say(f"the server is {reach(advice)}", err=True)
    if form != "json" and (name := placeholder(advice)):
        word = "".join(ch if ch.isprintable() else " " for ch in name)
        say(f"replace {word}: no public checkpoint of this quantisation is known here", err=True)
    return text


def write(text: str) -> None:
    """Print an answer, in colour where that is wanted."""
    say(text, end="", color=wants_color())


MIN_WIDTH = 30  # below it words no longer fit


def page_width() -> int:
    """The width of COLUMNS, else the terminal's, at most 100; 80 when piped without one."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return 80
    from shutil import get_terminal_size

    return max(min(get_terminal_size().columns, 100), MIN_WIDTH)


def wants_color() -> bool:
    """Colour only on a terminal that knows it and without NO_COLOR (https://no-color.org)."""
    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def paper() -> Paper:
    """What texts are written on: the terminal, or a pipe of this encoding."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    return Paper(page_width(), wants_color(), unicode)
