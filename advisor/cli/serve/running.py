"""Start an application on an address of this machine, and say where it is."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Iterable
from ipaddress import ip_address

import click
import uvicorn
from starlette.types import ASGIApp

from advisor.domain.nouns import AdvisorError


def names(host: str, more: Iterable[str]) -> tuple[str, ...]:
    """The names under which a server at an address is reached, beside those of the loopback.

    Raises AdvisorError where it listens on every address and no name is told: a server that
    answers under any name can be reached by pages of other sites.
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


def run(app: ASGIApp, host: str, port: int, path: str = "/", opens: bool = False) -> None:
    """Serve until Ctrl-C. Raises AdvisorError where the address cannot be had."""
    listener = listen(host, port)
    found = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{found}{path}"
    click.echo(f"{address}   (Ctrl-C ends it)", err=True)
    if not is_local(host):
        click.echo("Anyone who reaches this address can ask; there is no login.", err=True)
    if opens:
        webbrowser.open(address)
    config = uvicorn.Config(
        app,
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
