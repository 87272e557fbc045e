"""The key of a server that a command asks: an option, or a variable of the environment."""

from __future__ import annotations

import click

from advisor.engines.traits import API_KEYS


def _sendable(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        raise click.BadParameter("holds a character that no HTTP header can hold")
    return value


key_option = click.option(
    "--api-key",
    metavar="KEY",
    envvar=list(API_KEYS),
    callback=_sendable,
    help="Key of the server, sent to it alone and never shown  [default: of "
    f"{', else '.join(API_KEYS)}]",
)
