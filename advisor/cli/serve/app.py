"""The server: pages, their parts and the API behind one guard.

A page of another site can make a browser send requests here, also under a name of its own that it
points here (DNS rebinding): the Host must be one of ours, the Origin where there is one the Host
itself, and a cross-site request may only be a visit of a page.
"""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, get_type_hints

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from advisor.cli.base import version
from advisor.cli.serve import answers, api, pages
from advisor.cli.serve.controls import controls
from advisor.cli.serve.html import ASSETS, asset_bytes
from advisor.cli.serve.question import NAMES, InvalidField, field_error, own_words, question_from
from advisor.cli.serve.sheets import pages as sheet_pages
from advisor.domain.nouns import AdvisorError, UnknownFact

FILES = ("/api/results", "/api/ab", "/part/results", "/results")  # paths that take files
THREADS = answers.MOST_WAITING + 24  # those that wait for an answer, and those that need not


async def asset(request: Request) -> Response:
    """Style, script or icon: kept by browsers, asked about again after a while."""
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404)
    content = asset_bytes(name)
    head = {"etag": f'"{sha256(content).hexdigest()[:32]}"', "cache-control": "max-age=300"}
    if head["etag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=head)
    return Response(content, headers=head, media_type=ASSETS[name])


@asynccontextmanager
async def _lifespan(_app: FastAPI) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    sys.setswitchinterval(0.0005)  # s: what is computed makes room for what is only sent
    yield


def warm() -> None:
    """Load what an answer and its page need, so that the first question is as quick as the next."""
    try:
        question = question_from({"hw": "h100"})
        controls({})
        answers.advice(question)
        answers.curve(question)
    except AdvisorError:
        pass  # facts of the user's own that do not fit: the first question will say so


def create_app(hosts: Iterable[str] = ()) -> ASGIApp:
    """The application; `hosts` are names beside the loopback's under which it may be reached."""
    app = FastAPI(
        title="advisor",
        version=version(),
        description="The command line's JSON: speculative decoding on or off, which k, and why.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
        lifespan=_lifespan,
        # a variable of the environment must not make it report to another host
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.add_route("/static/{name}", asset, methods=["GET", "HEAD"], include_in_schema=False)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.include_router(sheet_pages.router)
    app.add_exception_handler(AdvisorError, _refuse)
    app.add_exception_handler(answers.Busy, _put_off)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_address)
    app.add_exception_handler(Exception, _defect)
    return Guard(app, (*LOOPBACK, *hosts), FILES)


async def _refuse(request: Request, error: Exception) -> Response:
    """A page has one status for all; the API one for each reason that its description gives."""
    status = 404 if isinstance(error, UnknownFact) else 409
    field = isinstance(error, InvalidField) or not request.url.path.startswith("/api/")
    return _problem(request, str(error), 400 if field else status)


async def _put_off(request: Request, error: Exception) -> Response:
    busy = _problem(request, str(error), 503)
    busy.headers["retry-after"] = str(answers.Busy.seconds)
    return busy


async def _invalid(request: Request, error: Exception) -> Response:
    """A bad field of the API: the first part of its place says where it stood, not which it is."""
    assert isinstance(error, RequestValidationError)
    hints = get_type_hints(request.scope["endpoint"]).values()
    kind = next((x for x in hints if isinstance(x, type) and issubclass(x, BaseModel)), None)
    errors = [{**one, "loc": one["loc"][1:]} for one in error.errors()]
    if errors[0]["type"] == "json_invalid" or not errors[0]["loc"]:
        return _problem(request, "the body is no JSON object: send one, as application/json")
    return _problem(request, str(field_error(errors, kind)))


async def _no_address(request: Request, error: Exception) -> Response:
    """No such address, or not by this method; a form that cannot be read."""
    assert isinstance(error, HTTPException)
    texts = {404: "there is nothing at this address", 405: "this address has another method"}
    refused = _problem(request, texts.get(error.status_code, error.detail), error.status_code)
    refused.headers.update(error.headers or {})  # the methods that an address has
    return refused


async def _defect(request: Request, error: Exception) -> Response:
    return _problem(request, "a defect of the advisor: this question was not answered", 500)


def _problem(request: Request, text: str, status: int = 400) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": own_words(text, NAMES)}, status)
    return pages.problem(request, text, status)


Message = MutableMapping[str, Any]
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
    """ASGI middleware for requests under `hosts` (no port); `files`: paths that take files."""

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
            await _answer_refusal(send, scope["path"], *refusal)
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

        try:
            await self.app(scope, bounded, with_headers)
        except ClientDisconnect:  # how a form that is read sees that its body was cut off
            if not bounded.exceeded:
                raise
        if bounded.exceeded:
            why = f"more than the {limit >> 20} MiB that are read"
            await _answer_refusal(send, scope["path"], 413, why)

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


async def _answer_refusal(send: Send, path: str, status: int, why: str) -> None:
    of_api = path.startswith("/api/")
    body = (json.dumps({"error": why}) if of_api else f"{why}\n").encode()
    head = [
        (b"content-type", b"application/json" if of_api else b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*head, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
