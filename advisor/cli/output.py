"""What every command prints goes through here: nothing that came from a file reaches the terminal
as a control sequence.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import printable_lines


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print lines of text without colour; what the output's encoding lacks becomes an escape."""
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    told = printable_lines(f"{text}{end}").encode(encoding, "backslashreplace").decode(encoding)
    click.echo(told, nl=False, err=err)


def write_files(files: Mapping[str, str], place: Path) -> None:
    """Write files into a folder that is new or empty, and name them. Raises AdvisorError where it
    holds something.
    """
    if place.exists() and any(place.iterdir()):
        raise AdvisorError(f"{place} is not empty: nothing was written")
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
        say(place / name)
