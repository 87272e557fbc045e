"""The command line's JSON over HTTP, described by OpenAPI at /api/openapi.json.

What cannot be answered has its sentence in `error`, and the status says where to look: 400 at the
description of a field, 404 at a name, 409 at what was asked as a whole.
"""

from functools import partial
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from advisor import rules as rulebook
from advisor.cli.serve.controls import KNOWN, known_names
from advisor.cli.serve.launch import LaunchQuestion, answer, answer_json, file_text
from advisor.cli.serve.question import InvalidField, once
from advisor.cli.serve.sheets import questions as sheets
from advisor.cli.serve.sheets import uploads
from advisor.render.explore.compare import comparison_json, why_not_json
from advisor.render.explore.json_out import sweep_json
from advisor.render.explore.plan import mix_plan_json
from advisor.render.forms import FORMS
from advisor.render.objects import inline, named_schema, object_of
from advisor.render.own_runs import ab_json, runs_json

_ERROR = object_of({"error": {"type": "string"}}, ["error"])
_SAYS_WHY = {"content": {"application/json": {"schema": _ERROR}}}
_REFUSED: dict[int | str, Any] = {
    400: {"description": "A field is not as described; `error` says why", **_SAYS_WHY},
    404: {"description": "A name is not known: hardware, model, release, rule", **_SAYS_WHY},
    409: {"description": "All is as described, and yet there is no answer", **_SAYS_WHY},
    "4XX": {"description": "The request is not read: too long, by another site", **_SAYS_WHY},
    503: {"description": "Too many questions wait: ask again after `Retry-After`", **_SAYS_WHY},
}


def _once(request: Request) -> None:
    once(request.query_params.multi_items(), lists=("vary", "names", "acceptance"))


router = APIRouter(prefix="/api", responses=_REFUSED, dependencies=[Depends(_once)])


def _responses(command: str = "", **more: Any) -> dict[int | str, Any]:
    """The answer for OpenAPI: what a command prints, and more properties; or any object."""
    schema: Any = inline(named_schema(command)) if command else {"type": "object"}
    schema |= {"properties": schema["properties"] | more} if more else {}
    return {200: {"description": "The answer", "content": {"application/json": {"schema": schema}}}}


_ENERGY = {"type": "array", "items": {"type": ["number", "null"]}, "description": "with watts"}


_KINDS = [
    one[200]["content"]["application/json"]["schema"]
    for one in (_responses("recommend", kwh_per_million=_ENERGY), _responses("policy"))
]
_ONE_OR_RANGE: dict[int | str, Any] = {
    200: {
        "description": "The answer; that of a range the second",
        "content": {"application/json": {"schema": {"anyOf": _KINDS}}},
    }
}


@router.get("/recommend", responses=_ONE_OR_RANGE)
def recommend(asked: Annotated[LaunchQuestion, Query()]) -> JSONResponse:
    """What `advisor recommend --format json` prints."""
    return JSONResponse(answer_json(asked))


@router.get("/launch/{form}", response_class=PlainTextResponse)
def launch(
    form: Literal[tuple(FORMS)],  # type: ignore[valid-type]
    asked: Annotated[LaunchQuestion, Query()],
) -> PlainTextResponse:
    """The launch in one form."""
    return PlainTextResponse(file_text(answer(asked), form, asked))


@router.get("/compare", responses=_responses("compare"))
def compare(asked: Annotated[sheets.Sides, Query()]) -> JSONResponse:
    """What `advisor compare --format json` prints."""
    return JSONResponse(comparison_json(*sheets.compare_choices(asked)))


@router.get("/why-not", responses=_responses("why-not"))
def why_not(asked: Annotated[sheets.Doubt, Query()]) -> JSONResponse:
    """What `advisor why-not --format json` prints."""
    return JSONResponse(why_not_json(sheets.explain_why_not(asked)))


@router.get("/sweep", responses=_responses("sweep"))
def sweep(asked: Annotated[sheets.Variation, Query()]) -> JSONResponse:
    """What `advisor sweep --format json` prints."""
    return JSONResponse(sweep_json(sheets.swept_for(asked)))


@router.post("/validate", responses=_responses("validate", diff={"type": "string"}))
def validate(pasted: sheets.PastedText) -> JSONResponse:
    """What `advisor validate --format json` prints of a text, and the diff of the safe fixes."""
    return JSONResponse(sheets.report_with_diff(sheets.checkup(pasted)))


@router.post("/plan", responses=_responses("plan"))
def plan(mixed: sheets.MixForm) -> JSONResponse:
    """What `advisor plan --format json` prints of a mix."""
    return JSONResponse(mix_plan_json(sheets.make_plan(mixed)))


@router.get("/known/{kind}")
def list_names(kind: Literal[KNOWN], match: str = "") -> JSONResponse:  # type: ignore[valid-type]
    """Ids and names of hardware, models, engines or quantisations; `match`: words of them."""
    return JSONResponse(known_names(kind, match))


@router.get("/explain/{code}", response_class=PlainTextResponse)
def explain(code: Annotated[str, Path(examples=["SD201"])]) -> PlainTextResponse:
    """What `advisor explain CODE` prints."""
    return PlainTextResponse(rulebook.explain(code[:80]) + "\n")


def _files(*names: str, more: type[uploads.RunOptions] | None = None) -> dict[str, Any]:
    """OpenAPI of a form with files."""
    file = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
    file["maxItems"] = uploads.MOST_FILES // len(names)
    fields = more.model_json_schema()["properties"] if more is not None else {}
    fields = {name: {**field, **field.pop("anyOf")[0]} for name, field in fields.items()}  # no null
    needed = [name for name in names if name != "launch"]
    schema = object_of({**dict.fromkeys(names, file), **fields}, needed)
    content = {"multipart/form-data": {"schema": schema | {"additionalProperties": False}}}
    return {"requestBody": {"required": True, "content": content}}


@router.post("/results", openapi_extra=_files("files"), responses=_responses("results"))
async def results(request: Request) -> Response:
    """What `advisor results --format json` prints of the files sent."""
    runs = await run_sync(uploads.runs_in, (await uploads.form_of(request)).of("files"))
    if not runs:
        raise InvalidField("no file was sent: send benchmark files in the field 'files'", "files")
    return JSONResponse(runs_json(runs))


@router.post(
    "/ab",
    openapi_extra=_files("off", "on", "launch", more=uploads.RunOptions),
    responses=_responses("ab"),
)
async def ab(request: Request) -> Response:
    """What `advisor ab --format json` prints of the files sent."""
    form = await uploads.form_of(request)
    judge = partial(uploads.verdict, form.of("off"), form.of("on"), form.of("launch"), form.words)
    return JSONResponse(ab_json(await run_sync(judge)))
