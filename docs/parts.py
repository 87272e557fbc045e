"""What the generated parts of README.md and docs/ print; cog calls it.

`cog -I docs -r README.md docs/cli.md` writes them, `cog -I docs --check ...` only compares.
"""

from __future__ import annotations

import click
from click.testing import CliRunner

from advisor.cli.app import COMMANDS, cli

WIDTH = 80


def fence(text: str) -> str:
    """The text as a code block."""
    return f"\n```\n{text.rstrip()}\n```\n"


def output(*words: str, lines: int | None = None) -> str:
    """What `advisor WORDS` prints on a terminal of 80 columns, or its first lines."""
    env = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "ADVISOR_TODAY": "2026-11-28"}
    done = CliRunner(env=env).invoke(cli, list(words))
    if done.exit_code:
        raise SystemExit(f"advisor {' '.join(words)}: {done.output}")
    return fence("\n".join(done.output.splitlines()[:lines]))


def help_of(name: str | None = None) -> str:
    """The help of one command, or of the program."""
    with _context(cli, "advisor") as above:
        if name is None:
            return fence(cli.get_help(above))
        command = cli.get_command(above, name)
        if command is None:
            raise SystemExit(f"no command {name}")
        with _context(command, name, above) as own:
            return fence(command.get_help(own))


def all_help() -> str:
    """A section for each command."""
    return "".join(f"\n## advisor {name}\n{help_of(name)}" for name in COMMANDS)


def _context(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """A context of a fixed width, so that the help does not depend on the terminal."""
    return click.Context(
        command,
        parent,
        name,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
