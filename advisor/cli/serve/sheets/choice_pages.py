"""The sheet of choices: two or three side by side, and why the answer has another. Its forms use
addresses, so that every state of it can be shared.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from advisor.cli.serve.pages import page, read_parameters
from advisor.cli.serve.question import Question, check_fields
from advisor.cli.serve.sheets.choices import (
    Doubt,
    Sides,
    compare_choices,
    explain_why_not,
    sides_view,
)
from advisor.cli.serve.sheets.views import sheet_fields
from advisor.domain.nouns import AdvisorError

router = APIRouter(include_in_schema=False)
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
