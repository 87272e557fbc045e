"""What every request passes first: Host and Origin, size, and the headers of every answer.

A page of another site can make a browser send requests to this machine, also under a name of its
own that it points here (DNS rebinding). So the Host must be one of ours, the Origin where there is
one must be the Host itself, and a cross-site request may only be a visit of a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
FORM_BYTES = 2 * 2**20  # a pasted configuration
FILES_BYTES = 48 * 2**20  # benchmark files, all together
URL_BYTES = 32 * 2**10
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"x-dns-prefetch-control", b"off"),
)


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app : ASGI application
    hosts : names under which the server may be reached, without a port
    files : starts of the paths that take files, and so larger bodies
    """

    def __init__(
        self, app: App, hosts: Iterable[str] = LOOPBACK, files: tuple[str, ...] = ()
    ) -> None:
        self.app, self.hosts, self.files = app, frozenset(map(str.lower, hosts)), files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with a bounded body and the headers added."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no web sockets
        refusal = self.refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        limit = FILES_BYTES if scope["path"].startswith(self.files) else FORM_BYTES
        bounded = _BoundedBody(receive, limit)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if bounded.exceeded:
                    return  # the answer of an application that saw its body cut off
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in HEADERS if name not in given),
                ]
            if not bounded.exceeded:
                await send(message)

        await self.app(scope, bounded, with_headers)
        if bounded.exceeded:
            await _refuse(send, 413, f"more than the {limit >> 20} MiB that are read")

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """(status, why) for a request that is not ours, None for one that is."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or without_port(hosts[0]) not in self.hosts:
            return 421, "this server answers under its own name only; see --allow-host"
        origins = headers.get(b"origin", [])
        if origins and origins != [f"{scope.get('scheme', 'http')}://{hosts[0]}"]:
            return 403, "requests of other sites are not answered"
        site = headers.get(b"sec-fetch-site", ["none"])
        visit = scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == ["navigate"]
        if site[0] == "cross-site" and not visit:
            return 403, "requests of other sites are not answered"
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > URL_BYTES:
            return 414, f"the address is longer than {URL_BYTES >> 10} KiB"
        limit = FILES_BYTES if scope["path"].startswith(self.files) else FORM_BYTES
        length = headers.get(b"content-length", ["0"])[0]
        if length.isdigit() and int(length) > limit:
            return 413, f"more than the {limit >> 20} MiB that are read"
        return None


def without_port(host: str) -> str:
    """The name in a Host header."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


class _BoundedBody:
    """A body that ends with an error where it is larger than it may be."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.receive, self.left, self.exceeded = receive, limit, False

    async def __call__(self) -> Message:
        message = await self.receive()
        if message["type"] == "http.request":
            self.left -= len(message.get("body", b""))
            if self.left < 0:
                self.exceeded = True
                return {"type": "http.disconnect"}
        return message


async def _refuse(send: Send, status: int, why: str) -> None:
    body = f"{why}\n".encode()
    head = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*head, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
