"""`advisor serve`, `page` and `mcp`, for which there are the extras `serve` and `mcp`."""

import socket
import webbrowser
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click

from advisor.cli.base import HELP, import_extra, option, path_type, say
from advisor.domain.nouns import AdvisorError


@click.command(context_settings=HELP)
@option("port", "Port; 0 picks a free one.", click.IntRange(0, 65535), default=8765)
@option("host", "Address to listen on.", default="127.0.0.1")
@option(
    "allow-host hosts",
    "Another host name of this server, e.g. behind a proxy; repeatable.",
    multiple=True,
    metavar="NAME",
)
@option("open opens", "Open the page in the browser.", bool)
def serve(host: str, port: int, hosts: tuple[str, ...], opens: bool) -> None:
    """Serve the web page: recommendations, comparisons, checks, results; JSON API at /api.

    By default it is reachable from this machine only. It connects to no other host and stores
    nothing that is pasted or sent.
    """
    uvicorn = import_extra("serve", "uvicorn")
    app = import_extra("serve", "advisor.cli.serve.app")
    made = app.create_app(names(host, hosts))
    app.warm()
    run(made, uvicorn, host, port, opens)


@click.command(context_settings=HELP)
@option("out place", "A new or empty folder.", path_type("folder"), required=True)
@option("hw hardware", "Hardware, also '2x 3090'; default: the most common.", multiple=True)
@option("model models", "Models; default: the two most common.", multiple=True)
@option("quant quants", "Quantisations; default: the best that fits.", multiple=True)
def page(
    place: Path, hardware: tuple[str, ...], models: tuple[str, ...], quants: tuple[str, ...]
) -> None:
    """Write a static copy of the page with answers for common hardware and loads.

    Any web server can host it, and index.html also opens from a folder; nothing is loaded from
    elsewhere.
    """
    site = import_extra("serve", "advisor.cli.serve.site")
    if place.exists() and any(place.iterdir()):
        raise AdvisorError(f"{place} is not empty: nothing was written")
    for name, text in site.site(hardware, models, quants):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    say(f"open {place / 'index.html'}")


@click.command(context_settings=HELP)
def mcp() -> None:
    """Serve tools for agents (Model Context Protocol): recommend, validate, ab and others.

    They are served on standard input and output; docs/agents.md shows how to configure clients.
    """
    import_extra("mcp", "advisor.cli.serve.mcp_server").serve_stdio()


def names(host: str, more: Iterable[str]) -> tuple[str, ...]:
    """The names under which a server at an address is reached, beside the loopback's. Raises
    AdvisorError for every address without a name: pages of other sites could reach it.
    """
    given = tuple(name.strip().lower() for name in more if name.strip())
    try:
        address = ip_address(host)
    except ValueError:
        return (*given, host.lower())
    if address.is_unspecified and not given:
        raise AdvisorError(
            f"--host {host} is every address of this machine: say with --allow-host NAME under "
            "which name it is reached"
        )
    return (*given, f"[{address}]" if address.version == 6 else str(address))


def run(app: Any, uvicorn: Any, host: str, port: int, opens: bool) -> None:
    """Serve with uvicorn until Ctrl-C. Raises AdvisorError where the address cannot be had."""
    listener = listen(host, port)
    found = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{found}/"
    say(f"{address}   (Ctrl-C ends it)", err=True)
    if not is_local(host):
        say("Anyone who reaches this address can ask; there is no login.", err=True)
    if opens:
        webbrowser.open(address)
    config = uvicorn.Config(
        app,
        http=import_extra("serve", "advisor.cli.serve.patience").Patient,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=10,
        limit_concurrency=100,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises AdvisorError in one sentence."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, proto)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)  # who reads the address may connect at once
    except OSError as error:
        raise AdvisorError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): choose another --port"
        ) from None
    return made


def is_local(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
