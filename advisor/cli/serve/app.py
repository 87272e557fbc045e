"""The server: pages, their parts and the API behind one guard.

It opens no file that a request names, asks no other host, and answers only under its own name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from advisor.cli.serve import answers, api, pages
from advisor.cli.serve.controls import controls
from advisor.cli.serve.guard import LOOPBACK, Guard
from advisor.cli.serve.html import version
from advisor.cli.serve.question import Question, question_from, sentence_of
from advisor.cli.serve.sheets import choice_pages
from advisor.cli.serve.sheets import pages as sheet_pages
from advisor.domain.nouns import AdvisorError

FILES = ("/api/results", "/api/ab", "/part/results", "/results")  # paths that take files
THREADS = 4  # answers are computed one at a time; the others wait or are known already


class Assets(StaticFiles):
    """Style, script and icon: kept by browsers, asked about again after a while."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file with how long it may be kept."""
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "max-age=300"
        return response


@asynccontextmanager
async def _lifespan(_app: FastAPI) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def warm() -> None:
    """Load what an answer and its page need, so that the first question is as quick as the next."""
    try:
        question = question_from({"hw": "h100"})
        controls(question, answers.advice(question))
        answers.curve(question)
    except AdvisorError:
        pass  # facts of the user's own that do not fit: the first question will say so


def create_app(hosts: Iterable[str] = ()) -> ASGIApp:
    """The application.

    Parameters
    ----------
    hosts : iterable of str
        Names beside those of the loopback under which it may be reached.
    """
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
    app.mount(
        "/static", Assets(directory=str(files("advisor.cli.serve") / "static")), name="static"
    )
    app.include_router(api.router)
    app.include_router(pages.router)
    app.include_router(sheet_pages.router)
    app.include_router(choice_pages.router)
    app.add_exception_handler(AdvisorError, _refuse)
    app.add_exception_handler(RequestValidationError, _invalid)
    return Guard(app, (*LOOPBACK, *hosts), FILES)


async def _refuse(request: Request, error: Exception) -> Response:
    return _problem(request, str(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _problem(request, sentence_of(error.errors(), Question))


def _problem(request: Request, text: str) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": text}, 400)
    return pages.problem(request, text)
