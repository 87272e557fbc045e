"""`advisor plan`: how to serve several workloads on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from advisor.advice.explore.layouts import Kind, MixPlan
from advisor.advice.explore.mix import MOST_BYTES, read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.cli.lazy import HELP
from advisor.cli.output import write_files
from advisor.cli.recommend import page_width, takes_unicode, wants_color, write
from advisor.domain.files import read_text_safely
from advisor.domain.nouns import AdvisorError
from advisor.render.plan.folder import FORMS, folder
from advisor.render.plan.json_out import mix_plan_json_text
from advisor.render.plan.text import plan_text


@click.command(context_settings=HELP)
@click.argument("mix", type=click.Path(allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--out",
    "place",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write servers, router, A/B scripts and reasons to a folder.",
)
@click.option(
    "--form",
    "deploy",
    type=click.Choice(FORMS),
    default="compose",
    show_default=True,
    help="Deployment format of --out; ray covers several machines.",
)
@click.option(
    "--layout",
    "kind",
    type=click.Choice(get_args(Kind)),
    help="Layout to write with --out  [default: the recommended one]",
)
def plan(mix: str, form: str, place: Path | None, deploy: str, kind: str | None) -> None:
    """Plan one or two servers, with or without speculation, for several workloads on one machine.

    MIX is a YAML file of request classes (docs/explore.md); - reads standard input.
    """
    made = plan_mix(read_mix(read_text_safely("/dev/stdin" if mix == "-" else mix, MOST_BYTES)))
    if place is None:
        if kind is not None:
            raise click.UsageError("--layout needs --out")
        write(
            mix_plan_json_text(made)
            if form == "json"
            else plan_text(made, page_width(), wants_color(), unicode=takes_unicode())
        )
        return
    write_files(folder(made, deploy, _index(made, kind)), place)


def _index(made: MixPlan, kind: str | None) -> int | None:
    """The best layout of a kind: the one with the highest gain of those that can be."""
    if kind is None:
        return None
    same = [i for i, one in enumerate(made.layouts) if one.kind == kind]
    gains = {i: gain.p50 for i in same if (gain := made.layouts[i].gain) is not None}
    if not same:
        raise AdvisorError(f"this mix has no layout of the kind {kind}")
    return max(gains, key=gains.__getitem__) if gains else same[0]
