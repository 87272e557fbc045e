"""`advisor sweep`: curves of gain against load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.advice.explore.axes import parse_axis
from advisor.advice.explore.sweep import sweep as run_sweep
from advisor.advice.explore.values import Sweep, Value
from advisor.advice.explore.within import objectives, users_within
from advisor.advice.questions import question
from advisor.cli.compare import objective_options, rate_of
from advisor.cli.lazy import HELP
from advisor.cli.options import question_options
from advisor.cli.output import say
from advisor.cli.recommend import machine_option, page_width, takes_unicode, wants_color, write
from advisor.domain.nouns import AdvisorError
from advisor.render.sweep.json_out import sweep_csv, sweep_json_text
from advisor.render.sweep.text import sweep_text


@click.command(context_settings=HELP)
@question_options
@machine_option
@click.option(
    "--vary",
    "varied",
    multiple=True,
    default=("concurrency=1..128",),
    show_default=True,
    metavar="NAME=VALUES",
    help="Field and its values, e.g. concurrency=1..128, k=0..4, ctx=512,8192; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "csv", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the plot: FILE.svg, FILE.png or a self-contained FILE.html.",
)
@objective_options
def sweep(
    varied: tuple[str, ...],
    form: str,
    plot: Path | None,
    within: str | None,
    price: str | None,
    watts: float | None,
    **asked: Any,
) -> None:
    """Show the gain over the load, one curve per k.

    Includes where speculation stops paying off, published measurements, and the best k per load
    in the engine's own format.
    """
    vary: dict[str, tuple[Value, ...]] = {}
    for name, values in (parse_axis(text) for text in varied):
        vary[name] = (*vary.get(name, ()), *values)
    request, machine = question(asked)
    found = run_sweep(request, vary, machine=machine)
    if within is not None:
        seen = users_within(found.request, objectives(within), found.ks)
        found = found.model_copy(update={"within": seen})
    rate = rate_of(price, watts)
    if plot is not None:
        _save(plot, found)
    if form == "text":
        style = (page_width(), wants_color())
        write(sweep_text(found, *style, unicode=takes_unicode(), rate=rate))
    else:
        write(sweep_json_text(found) if form == "json" else sweep_csv(found))


def _save(place: Path, found: Sweep) -> None:
    """Write the picture and name it on standard error, so that the answer can be piped."""
    from advisor.render.sweep.plot import picture_bytes  # start-up: matplotlib

    picture = picture_bytes(found, place)
    try:
        place.write_bytes(picture)
    except OSError as error:
        raise AdvisorError(f"cannot write {place}: {error.strerror or error}") from error
    say(f"wrote {place}", err=True)
