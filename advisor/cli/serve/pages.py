"""The pages and the parts of them that the script loads; a page's address is its state."""

from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from advisor import rules as rulebook
from advisor.advice.own_runs.machine import names as machine_names
from advisor.cli.serve import answers
from advisor.cli.serve.controls import TITLES, controls
from advisor.cli.serve.curve import curve_view
from advisor.cli.serve.html import render
from advisor.cli.serve.launch import LaunchQuestion, answer
from advisor.cli.serve.question import NAMES, check_fields, field_of, once, own_words, question_from
from advisor.cli.serve.views import answer_view
from advisor.domain.nouns import AdvisorError

router = APIRouter(include_in_schema=False)
EXAMPLES = (
    ("hw=gb10&concurrency=4", "DGX Spark", "Qwen3.6-35B-A3B, 4 requests at once"),
    ("hw=rtx3090&gpus=2&model=qwen3.6-27b", "2 × RTX 3090", "Qwen3.6-27B, one user"),
    ("hw=rtx5090&model=qwen3.6-27b&engine=llama-server", "RTX 5090", "Qwen3.6-27B, llama-server"),
    ("hw=h100-sxm&concurrency=64&ctx=8192", "H100", "Qwen3.6-35B-A3B, 64 requests, 8K prompts"),
    ("hw=strix-halo&engine=llama-server", "Strix Halo", "Qwen3.6-35B-A3B, llama-server"),
    ("hw=h200&gpus=8&model=deepseek-v3.2&concurrency=32", "8 × H200", "DeepSeek-V3.2, 32 requests"),
)


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A template as an answer that is never kept: facts and files may change."""
    return HTMLResponse(render(name, **values), status, {"cache-control": "no-store"})


def problem(request: Request, text: str, status: int = 400) -> Response:
    """A sentence on a page, or as a part of one."""
    name = "_error.html" if request.url.path.startswith("/part/") else "problem.html"
    return page(name, status, error=own_words(text, TITLES), wrong="")


def question_query(given: Mapping[str, str]) -> str:
    """What of an address belongs to the question, as the links to the other tabs keep it."""
    return urlencode({name: given[name] for name in NAMES if given.get(name)})


def read_parameters(request: Request) -> tuple[dict[str, str], str]:
    """(the question's parameters, form of the launch). Raises InvalidField for one given twice."""
    seen = once(request.query_params.multi_items())
    return seen, seen.pop("form", "")


def answer_fields(asked: Mapping[str, str], form: str, what_if: bool = True) -> dict[str, Any]:
    """What the answer's template shows; a question that cannot be answered has an error instead."""
    shown: dict[str, Any] = {"advice": None, "error": "", "wrong": "", "view": None}
    examples = [(f"/?{query}", name, load) for query, name, load in EXAMPLES]
    shown |= {"carried": question_query(asked), "examples": examples}
    if not any(asked.values()):
        return shown
    try:
        question = check_fields(LaunchQuestion, asked)
        if not question.hw and not question.machine:
            return shown
        advice, plain = answer(question, what_if), question.plain()
        view = answer_view(advice, question, form)
    except AdvisorError as error:
        return shown | {"error": own_words(str(error), TITLES), "wrong": field_of(error)}
    return shown | {
        "advice": advice,
        "view": view,
        "curve": None,
        "curve_part": f"/part/curve?{plain.url()}",
        "curve_page": f"/curve?{plain.url()}",
        "changes_part": "" if what_if else f"/part/changes?{plain.url()}",
        "form_url": lambda key: f"/?{question.url(form=key)}",
        "served": True,
    }


@router.get("/")
def start(request: Request) -> HTMLResponse:
    """The question and its answer."""
    asked, form = read_parameters(request)
    write = _start.__wrapped__ if asked.get("machine") else _start  # its file may have changed
    return write(tuple(asked.items()), form, (date.today(), *machine_names()))


@lru_cache(maxsize=answers.KEPT)
def _start(asked: tuple[tuple[str, str], ...], form: str, _beside: object) -> HTMLResponse:
    """The page of a question, written once for what it shows `beside`: the day, as it says how old
    the facts are, and the machines that are saved.
    """
    parameters = dict(asked)
    shown = answer_fields(parameters, form)
    return page(
        "answer.html",
        400 if shown["error"] else 200,
        tab="answer",
        fields=controls(parameters, shown["wrong"]),
        title=shown["view"]["headline"] if shown["view"] else "Speculative decoding",
        **shown,
    )


@router.get("/part/answer")
def answer_part(request: Request) -> HTMLResponse:
    """The answer alone, at once; the script asks for the curve and for what would change it."""
    asked, form = read_parameters(request)
    shown = answer_fields(asked, form, what_if=False)
    return page("_answer_or_start.html", 400 if shown["error"] else 200, **shown)


@router.get("/part/changes")
def changes_part(request: Request) -> HTMLResponse:
    """What would change the answer."""
    advice = answers.advice(question_from(read_parameters(request)[0]))
    return page("_changes.html", would_change=advice.would_change)


@router.get("/part/curve")
def curve_part(request: Request) -> HTMLResponse:
    """The curve alone."""
    question = question_from(read_parameters(request)[0])
    return page("_curve.html", curve=curve_view(answers.curve(question), question.concurrency))


@router.get("/curve")
def curve_page(request: Request) -> HTMLResponse:
    """The curve on a page of its own, for a browser without scripts."""
    question = question_from(read_parameters(request)[0])
    return page(
        "curve.html",
        tab="answer",
        curve=curve_view(answers.curve(question), question.concurrency),
        error="",
        back=f"/?{question.url()}",
    )


@router.get("/rules/{code}")
def rule_page(code: str) -> HTMLResponse:
    """One rule, as `advisor explain` prints it."""
    text = rulebook.explain(code[:80])
    return page("rule.html", title=text.partition("\n")[0], text=text)
