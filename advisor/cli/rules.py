"""`advisor explain CODE` and `advisor rules`: the rulebook, offline."""

from __future__ import annotations

import click

from advisor import rules as rulebook
from advisor.cli.options import complete_names
from advisor.cli.output import say
from advisor.rules.checking import select_rows
from advisor.rules.registry import load_row


@click.command()
@click.argument("code", shell_complete=complete_names("rule"))
def explain(code: str) -> None:
    """Explain one rule (by code or slug): reason, examples, sources."""
    say(rulebook.explain(code))


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "md"]), default="text", show_default=True
)
@click.option(
    "--select",
    multiple=True,
    metavar="CODE",
    help="A code (SD201), a family (SD2) or a slug; repeatable.",
)
def rules(form: str, select: tuple[str, ...]) -> None:
    """List the rules that validate and recommend share."""
    from advisor.rules import texts  # start-up: only this command

    found = [load_row(row) for row in select_rows(select, None)]
    if form == "json":
        import json

        say(json.dumps([texts.as_dict(r) for r in found], indent=2))
    else:
        say(texts.overview(found) if form == "md" else texts.listing(found))
