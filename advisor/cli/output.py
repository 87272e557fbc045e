"""What every command prints goes through here: nothing that came from a file reaches the terminal
as a control sequence.
"""

from __future__ import annotations

import sys

import click

from advisor.domain.shown import shown_lines


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print lines of text without colour; what the output's encoding lacks becomes an escape."""
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    told = shown_lines(f"{text}{end}").encode(encoding, "backslashreplace").decode(encoding)
    click.echo(told, nl=False, err=err)
