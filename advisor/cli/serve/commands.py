"""`advisor serve`, `advisor page`, `advisor mcp`: started by the command line's table of commands.

The libraries that they need come with the extras `serve` and `mcp`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from advisor.domain.nouns import AdvisorError

HELP = {"help_option_names": ["-h", "--help"]}
PORT = click.IntRange(0, 65535)


def _needs(extra: str, module: str) -> Any:
    """A module of this room. Raises AdvisorError where its libraries are not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("advisor"):
            raise
        raise AdvisorError(
            f"{error.name} is not installed: pip install 'mtp-advisor[{extra}]'"
        ) from None


def _host_options(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option(
                "--allow-host",
                "hosts",
                multiple=True,
                metavar="NAME",
                help="Another host name of this server, e.g. behind a proxy; repeatable.",
            ),
            click.option(
                "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
            ),
            click.option(
                "--port",
                type=PORT,
                default=port,
                show_default=True,
                help="Port; 0 picks a free one.",
            ),
        ):
            command = option(command)
        return command

    return decorate


@click.command(context_settings=HELP)
@_host_options(8765)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
def serve(host: str, port: int, hosts: tuple[str, ...], opens: bool) -> None:
    """Serve the web page: recommendations, comparisons, checks, results; JSON API at /api.

    By default it is reachable from this machine only. It connects to no other host and stores
    nothing that is pasted or sent.
    """
    running = _needs("serve", "advisor.cli.serve.running")
    app = _needs("serve", "advisor.cli.serve.app")
    made = app.create_app(running.names(host, hosts))
    app.warm()
    running.run(made, host, port, opens=opens)


@click.command(context_settings=HELP)
@click.option(
    "--out",
    "place",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="A new or empty folder.",
)
@click.option("--hw", "hardware", multiple=True, help="Hardware; default: the most common.")
@click.option("--model", "models", multiple=True, help="Models; default: the two most common.")
def page(place: Path, hardware: tuple[str, ...], models: tuple[str, ...]) -> None:
    """Write a static copy of the page with answers for common hardware and loads.

    Any web server can host it, and index.html also opens from a folder; nothing is loaded from
    elsewhere.
    """
    site = _needs("serve", "advisor.cli.serve.site")
    if place.exists() and any(place.iterdir()):
        raise AdvisorError(f"{place} is not empty: nothing was written")
    count = site.write(place, hardware, models)
    click.echo(f"{count} files in {place}: open {place / 'index.html'}")


@click.command(context_settings=HELP)
@click.option("--http", is_flag=True, help="Streamable HTTP instead of standard input and output.")
@_host_options(8766)
def mcp(http: bool, host: str, port: int, hosts: tuple[str, ...]) -> None:
    """Serve tools for agents (Model Context Protocol): recommend, sweep, validate, explain, ab.

    docs/agents.md shows how to configure common clients.
    """
    tools = _needs("mcp", "advisor.cli.serve.tools")
    if not http:
        tools.server().run("stdio")
        return
    running = _needs("mcp", "advisor.cli.serve.running")
    app = tools.http_app(running.names(host, hosts))
    running.run(app, host, port, path="/mcp")
