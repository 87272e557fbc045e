"""The key of a server that a command asks: an option, a header, or the environment."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from advisor.cli.base import option
from advisor.engines.traits import API_KEYS


def _sendable(_context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    name, mark, word = (value or "").rpartition(": ")
    is_header = option.name == "header"
    if value and is_header and not (mark and name.replace("-", "").isalnum()):
        raise click.BadParameter("is not NAME: VALUE")
    word = word if is_header else value or ""
    if value and not (value.isascii() and value.isprintable() and (is_header or " " not in word)):
        raise click.BadParameter("holds a character that no HTTP header can hold")
    return value


def _addresses(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    from advisor.readers.server import checked_url  # start-up: not for the help

    return tuple(checked_url(value.rstrip("/").removesuffix("/metrics")) for value in values)


metrics_option = option(
    "metrics",
    "A replica behind a router, whose /metrics is read; repeat it, they are summed.",
    metavar="URL",
    multiple=True,
    callback=_addresses,
)


def key_option(command: Callable[..., Any]) -> Any:
    """Give a command --api-key and --header; it takes either as `api_key`."""

    @wraps(command)
    def with_key(*args: Any, api_key: str | None, header: str | None, **options: Any) -> Any:
        return command(*args, api_key=header or api_key, **options)

    text = "Key of the server, sent to it alone and never shown  [default: of "
    text += f"{', else '.join(API_KEYS)}]"
    header = option(
        "header",
        "Instead of a key: a header as a gateway asks for it, 'X-Api-Key: KEY'.",
        metavar="NAME:VALUE",
        callback=_sendable,
    )
    key = option("api-key", text, metavar="KEY", envvar=list(API_KEYS), callback=_sendable)
    return key(header(with_key))
