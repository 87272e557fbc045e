"""`advisor hardware`, `models`, `knowledge`, `explain` and `rules`: look at the facts and the
rulebook, check own fact files, rebuild the index.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from advisor import rules as rulebook
from advisor.cli.base import option, say
from advisor.cli.options import complete_names
from advisor.knowledge import store
from advisor.knowledge.build import check_file, write_index
from advisor.knowledge.listing import entry_text, hardware_listing, model_listing, weak_facts
from advisor.rules.checking import select_rows
from advisor.rules.registry import load_row


def _show(table: str, name: str) -> None:
    say(entry_text(store.hardware(name) if table == "hardware" else store.llm(name)))


def _validate(table: str, files: tuple[str, ...]) -> None:
    problems = [problem for name in files for problem in check_file(table, Path(name))]
    for parts in problems:
        say(": ".join(filter(None, parts)))
    if problems:
        sys.exit(2)
    for name in files:
        say(f"{name}: ok")


def _facts(
    name: str, table: str, listing: Callable[[], str], about: str, columns: str, shown: str
) -> click.Group:
    """The commands that list, show and validate the facts of one table."""
    group = click.Group(name, help=f"Known {about}: list, show, or validate your own file.")
    kind = table.removesuffix("s").replace("llm", "model")
    words = click.Argument(["name"], shell_complete=complete_names(kind))
    files = click.Argument(["files"], nargs=-1, required=True, type=click.Path())
    rows = (
        ("list", f"List the {about}: {columns}.", (), lambda: say(listing())),
        ("show", f"Show the facts of one {shown}.", (words,), partial(_show, table)),
        (
            "validate",
            f"Check your own {kind} files (YAML). Exit status 2 if one cannot be used.",
            (files,),
            partial(_validate, table),
        ),
    )
    for command, text, params, run in rows:
        group.add_command(click.Command(command, callback=run, params=[*params], help=text))
    return group


hardware = _facts(
    "hardware",
    "hardware",
    hardware_listing,
    "accelerators",
    "id, memory, bandwidth, architecture",
    "accelerator, each number with its source",
)
models = _facts(
    "models",
    "llms",
    model_listing,
    "models",
    "id, parameters, layers, MTP",
    "model, with its checkpoints",
)


@click.group()
def knowledge() -> None:
    """The fact files of this package."""


@knowledge.command("build")
@option("check", "Do not write; exit status 1 if the index is out of date.", bool)
def knowledge_build(check: bool) -> None:
    """Compile knowledge/*.yaml into knowledge/index.json."""
    path, same = write_index(check)
    if check and not same:
        say(f"{path.name} is out of date: run `advisor knowledge build`")
        sys.exit(1)
    say(f"{path.name} {'is up to date' if same else 'written'}")


@knowledge.command("check")
def knowledge_check() -> None:
    """List the numbers that are recalled or assumed, and how old the facts are."""
    say(weak_facts())


@click.command()
@click.argument("code", shell_complete=complete_names("rule"))
def explain(code: str) -> None:
    """Explain one rule (by code or slug): reason, examples, sources."""
    say(rulebook.explain(code))


@click.command()
@option(
    "select", "A code (SD201), a family (SD2) or a slug; repeatable.", multiple=True, metavar="CODE"
)
def rules(select: tuple[str, ...]) -> None:
    """List the rules that validate and recommend share."""
    from advisor.rules import texts  # start-up: only this command

    say(texts.listing(load_row(row) for row in select_rows(select, None)))
