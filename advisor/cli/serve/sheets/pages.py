"""The pages that take a text, files or choices: a pasted configuration, benchmark results, a mix,
two or three choices side by side; and the API's own page.

The forms of choices use addresses, so that every state of that sheet can be shared.
"""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse

from advisor.cli.serve.api import router as api_router
from advisor.cli.serve.pages import page, read_parameters
from advisor.cli.serve.question import Question, check_fields
from advisor.cli.serve.sheets import uploads
from advisor.cli.serve.sheets.questions import (
    EXAMPLE,
    Doubt,
    MixForm,
    PastedText,
    Sides,
    checkup,
    compare_choices,
    explain_why_not,
    make_plan,
    mix_view,
    sides_view,
)
from advisor.cli.serve.sheets.views import check_view, results_view, sheet_fields
from advisor.domain.nouns import AdvisorError
from advisor.render.explore.plan_folder import FORMS

router = APIRouter(include_in_schema=False)

CHECK_FIELDS = ("hw", "gpus", "concurrency", "ctx", "output_tokens", "workload", "engine_version")

AB_FIELDS = ("hw", "model", "gpus", "k", "workload", "engine_version", "machine")


def _check_page(given: dict[str, str], **shown: Any) -> HTMLResponse:
    fields = sheet_fields(given, CHECK_FIELDS)
    told = {"text": given.get("text", ""), "name": given.get("name", "")}
    status = 400 if shown.get("error") else 200
    values = {"checked": None, "error": "", **shown}
    return page("check.html", status, tab="check", given=told, fields=fields, **values)


def _check_view(given: dict[str, str]) -> dict[str, Any]:
    """What the template of a checked text shows, or the sentence why it cannot be checked."""
    told = {**given, "text": given.get("text", "").replace("\r\n", "\n")}
    try:
        return {"checked": check_view(checkup(check_fields(PastedText, told))), "error": ""}
    except AdvisorError as error:
        return {"checked": None, "error": str(error)}


@router.get("/check")
def check(request: Request) -> HTMLResponse:
    """The empty sheet, or what the address tells: `text` may be part of it."""
    given = dict(request.query_params)
    return _check_page(given, **(_check_view(given) if given.get("text", "").strip() else {}))


@router.post("/check")
async def post_check(request: Request) -> HTMLResponse:
    """The sheet with its findings, without a script."""
    words = (await uploads.form_of(request)).words
    return _check_page(words, **(await run_sync(_check_view, words)))


@router.post("/part/check")
async def check_part(request: Request) -> HTMLResponse:
    """The findings alone."""
    shown = await run_sync(_check_view, (await uploads.form_of(request)).words)
    return page("_check.html", 400 if shown["error"] else 200, **shown)


def _results_view(form: uploads.Form) -> dict[str, Any]:
    """What the template of results shows, or the sentence why they cannot be read."""
    try:
        off, on, launch = form.of("off"), form.of("on"), form.of("launch")
        words = dict(form.words)
        name = words.pop("machine", "").strip()
        runs = uploads.runs_in([*off, *on])
        if not runs:
            raise AdvisorError("no file was chosen: choose the benchmark's output")
        report = uploads.verdict(off, on, launch, words) if off and on else None
        added = uploads.add_uploaded_runs(name, off, on, launch, words) if name else None
        return {**results_view(runs, report, added), "error": ""}
    except AdvisorError as error:
        return {"runs": [], "ab": None, "added": None, "error": str(error)}


def _results_page(given: dict[str, str], **shown: Any) -> HTMLResponse:
    values = {"runs": [], "ab": None, "added": None, "error": "", **shown}
    fields = sheet_fields(given, AB_FIELDS)
    return page(
        "results.html", 400 if values["error"] else 200, tab="results", fields=fields, **values
    )


@router.get("/results")
def results(request: Request) -> HTMLResponse:
    """The empty sheet; the options of the address are filled in."""
    return _results_page(dict(request.query_params))


@router.post("/results")
async def post_results(request: Request) -> HTMLResponse:
    """The sheet with what the files hold, without a script."""
    form = await uploads.form_of(request)
    return _results_page(form.words, **(await run_sync(_results_view, form)))


@router.post("/part/results")
async def results_part(request: Request) -> HTMLResponse:
    """What the files hold alone."""
    shown = await run_sync(_results_view, await uploads.form_of(request))
    return page("_results.html", 400 if shown["error"] else 200, **shown)


def _mix_view(given: dict[str, str]) -> dict[str, Any]:
    """What the template of a mix shows, or the sentence why it cannot be planned."""
    try:
        mixed = check_fields(MixForm, given)
        return {"plan": mix_view(make_plan(mixed), mixed.form), "error": ""}
    except AdvisorError as error:
        return {"plan": None, "error": str(error)}


def _mix_page(given: dict[str, str], **shown: Any) -> HTMLResponse:
    told = {"text": given.get("text", EXAMPLE), "form": given.get("form", "compose")}
    values = {"plan": None, "error": "", **shown}
    forms = [(name, name) for name in FORMS]
    status = 400 if values["error"] else 200
    return page("mix.html", status, tab="mix", given=told, forms=forms, **values)


@router.get("/mix")
def mix(request: Request) -> HTMLResponse:
    """The sheet with an example, or what the address tells."""
    given = dict(request.query_params)
    return _mix_page(given, **(_mix_view(given) if given.get("text", "").strip() else {}))


@router.post("/mix")
async def post_mix(request: Request) -> HTMLResponse:
    """The sheet with its plan, without a script."""
    words = (await uploads.form_of(request)).words
    return _mix_page(words, **(await run_sync(_mix_view, words)))


@router.post("/part/mix")
async def mix_part(request: Request) -> HTMLResponse:
    """The plan alone."""
    shown = await run_sync(_mix_view, (await uploads.form_of(request)).words)
    return page("_mix.html", 400 if shown["error"] else 200, **shown)


@router.get("/api")
def api_page(request: Request) -> HTMLResponse:
    """What the API has, in words; its full description is OpenAPI."""
    routes = [
        (
            ", ".join(sorted(route.methods or ())),
            route.path,
            (route.endpoint.__doc__ or "").split("\n")[0],
        )
        for route in api_router.routes
        if isinstance(route, APIRoute)
    ]
    base = f"http://{request.headers.get('host', '127.0.0.1')}"
    curl = "\n".join(
        (
            f"curl '{base}/api/recommend?hw=gb10&concurrency=16'",
            f"curl '{base}/api/sweep?hw=gb10&vary=concurrency=1..64'",
            f"curl '{base}/api/launch/compose?hw=gb10' > docker-compose.yml",
            f"curl {base}/api/ab -F off=@off.json -F on=@on.json -F hw=gb10",
        )
    )
    return page("api.html", tab="api", routes=routes, curl=curl)


FIELDS = ("hw", "model", "concurrency", "ctx", "output_tokens", "workload")

EXTRA = ("names", "users_within", "price", "watts", "what")


def _of(kind: type[Question], told: dict[str, str]) -> dict[str, str]:
    """Without what the sheet has for the other button alone."""
    return {
        key: value for key, value in told.items() if key not in EXTRA or key in kind.model_fields
    }


def _sheet(told: dict[str, str], **shown: Any) -> HTMLResponse:
    values = {"sides": None, "doubt": None, "error": "", **shown}
    return page(
        "compare.html",
        400 if values["error"] else 200,
        tab="compare",
        told={name: told.get(name, "") for name in EXTRA},
        fields=sheet_fields(told, FIELDS),
        **values,
    )


@router.get("/compare")
def sides(request: Request) -> HTMLResponse:
    """The empty sheet, or the choices of the address side by side."""
    told = read_parameters(request)[0]
    if not told.get("names", "").strip():
        return _sheet(told)
    try:
        return _sheet(
            told, sides=sides_view(*compare_choices(check_fields(Sides, _of(Sides, told))))
        )
    except AdvisorError as error:
        return _sheet(told, error=str(error))


@router.get("/why-not")
def doubt(request: Request) -> HTMLResponse:
    """Why the answer is not what the address names."""
    told = read_parameters(request)[0]
    try:
        return _sheet(told, doubt=explain_why_not(check_fields(Doubt, _of(Doubt, told))))
    except AdvisorError as error:
        return _sheet(told, error=str(error))
