"""The pages that take a text, files or choices, and the API's own page."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from advisor.advice.own_runs.ab_test import AbReport
from advisor.cli.serve.controls import FIRST, NEXT, TITLES, fields
from advisor.cli.serve.pages import page, question_query, read_parameters
from advisor.cli.serve.question import (
    FieldError,
    Question,
    check_fields,
    field_of,
    fields_of,
    own_words,
)
from advisor.cli.serve.sheets import questions as sheets
from advisor.cli.serve.sheets import uploads
from advisor.cli.serve.sheets.questions import Checkup
from advisor.cli.serve.views import findings
from advisor.domain.nouns import AdvisorError
from advisor.readers.results.run import BenchmarkRun
from advisor.render.findings.text import describe_launch, skipped_lines, summary
from advisor.render.own_runs import runs_text

router = APIRouter(include_in_schema=False)
CHECK_FIELDS = ("hw", "gpus", "concurrency", "ctx", "output_tokens", "workload", "engine_version")
MACHINE = ("hw", "gpus", "model", "quant", "engine")
CLASS = ("name", "concurrency", "prompt", "output", "workload", "goal", "tpot", "ttft")
ROWS = (1, 2, 3)  # of the form; `advisor plan` takes more
LOAD = ("concurrency", "ctx", "output_tokens", "workload")  # of the question, as CLASS has it
START = {
    f"{name}_{number}": value
    for number, row in (
        (1, "chat 4 2048 256 chat tpot"),
        (2, "documents 4 8192 256 rag throughput"),
    )
    for name, value in zip(CLASS, row.split(), strict=False)
}
AB_FIELDS = ("hw", "model", "gpus", "k", "workload", "engine_version")


class _Sheet(NamedTuple):
    """A sheet at /NAME, its answer at /part/NAME; `empty`: what is shown without an answer."""

    name: str
    answer: Callable[[uploads.Form], dict[str, Any]]  # raises AdvisorError
    empty: dict[str, Any]
    controls: Callable[[dict[str, str], str], dict[str, Any]]  # words, the field that is wrong
    asks: tuple[str, ...] = ()  # fields of an address that ask for an answer

    def show(self, form: uploads.Form) -> dict[str, Any]:
        """The answer, or the sentence why there is none."""
        try:
            return {**self.empty, **self.answer(form), "error": "", "wrong": ""}
        except AdvisorError as error:
            return {**self.empty, "error": own_words(str(error), TITLES), "wrong": field_of(error)}

    def page(self, words: dict[str, str], shown: dict[str, Any]) -> HTMLResponse:
        """The whole sheet."""
        shown |= self.controls(words, shown.get("wrong", ""))
        shown |= {"carried": question_query(words), "tab": self.name}
        return page(f"{self.name}.html", 400 if shown["error"] else 200, **shown)


def _serve(sheet: _Sheet) -> None:
    def visit(request: Request) -> HTMLResponse:  # empty, or with what the address asks
        words = dict(request.query_params)
        asked = any(words.get(name, "").strip() for name in sheet.asks)
        form = uploads.Form(words, {})
        return sheet.page(words, sheet.show(form) if asked else {**sheet.empty, "error": ""})

    async def post(request: Request) -> HTMLResponse:  # without a script
        form = await uploads.form_of(request)
        return sheet.page(form.words, await run_sync(sheet.show, form))

    async def part(request: Request) -> HTMLResponse:
        shown = await run_sync(sheet.show, await uploads.form_of(request))
        return page(f"_{sheet.name}.html", 400 if shown["error"] else 200, **shown)

    router.get(f"/{sheet.name}")(visit)
    router.post(f"/{sheet.name}")(post)
    router.post(f"/part/{sheet.name}")(part)


def _check(form: uploads.Form) -> dict[str, Any]:
    words = {**form.words, "text": form.words.get("text", "").replace("\r\n", "\n")}
    return {"checked": check_view(sheets.checkup(check_fields(sheets.PastedText, words)))}


def _results(form: uploads.Form) -> dict[str, Any]:
    off, on, launch = form.of("off"), form.of("on"), form.of("launch")
    runs = uploads.runs_in([*off, *on])
    if not runs:
        raise AdvisorError("no file was chosen: choose the benchmark's output")
    return results_view(runs, uploads.verdict(off, on, launch, form.words) if off and on else None)


def _mix(form: uploads.Form) -> dict[str, Any]:
    words = form.words
    told: dict[str, Any] = {name: words[name] for name in MACHINE if name in words}
    told["classes"] = [row for number in ROWS if (row := _class(words, number))]
    return sheets.mix_view(sheets.make_plan(check_fields(sheets.MixForm, told)))


def _class(words: dict[str, str], number: int) -> dict[str, Any] | None:
    """A row of the form as a class; None where it is empty. Raises FieldError."""
    row = {name: words.get(f"{name}_{number}", "") for name in CLASS}
    if not any(value.strip() for value in row.values()):
        return None
    try:
        return check_fields(sheets.MixClass, row).as_mix()
    except FieldError as error:
        raise FieldError(f"class {number}: {error}", f"{error.field}_{number}") from None


def _check_controls(words: dict[str, str], wrong: str) -> dict[str, Any]:
    given = {"text": words.get("text", ""), "name": words.get("name", "")}
    made = fields(words, CHECK_FIELDS, sheets.PastedText, wrong, "not stated")
    return {"given": given, "fields": made}


def _results_controls(words: dict[str, str], wrong: str) -> dict[str, Any]:
    return {"fields": fields(words, AB_FIELDS, uploads.RunOptions, wrong, "as the files state")}


def _mix_controls(words: dict[str, str], wrong: str) -> dict[str, Any]:
    if not any(words.get(f"name_{number}") for number in ROWS):  # the question's load to start from
        asked = {f"{x}_1": words[y] for x, y in zip(CLASS[1:], LOAD, strict=False) if words.get(y)}
        words = words | START | asked
    rows = []
    for number in ROWS:
        row = {name: words.get(f"{name}_{number}", "") for name in CLASS}
        bad = wrong.removesuffix(f"_{number}") if wrong.endswith(f"_{number}") else ""
        made = fields(row, CLASS, sheets.MixClass, bad)
        rows.append([field | {"name": f"{field['name']}_{number}"} for field in made])
    return {"fields": fields(words, MACHINE, wrong=wrong, sheet=""), "rows": rows}


_NO_RUNS: dict[str, Any] = {"runs": [], "ab": None}
_serve(_Sheet("check", _check, {"checked": None}, _check_controls, ("text",)))
_serve(_Sheet("results", _results, _NO_RUNS, _results_controls))
_serve(_Sheet("mix", _mix, {"plan": None}, _mix_controls, ("name_1",)))

Asked = TypeVar("Asked", bound=Question)
FIELDS = (*FIRST, *NEXT, "workload")
CHOICES = ("first", "second", "third")  # of the form; an address may have them as names
EXTRA = ("names", "users_within", "price", "watts", "what")


def _options(kind: type[Asked], told: dict[str, str]) -> Asked:
    """The options, without what the sheet has for the other button alone."""
    known = {key: told[key] for key in told if key not in EXTRA or key in fields_of(kind)}
    return check_fields(kind, known)


def _sheet(told: dict[str, str], answer: Callable[[], dict[str, Any]] = dict) -> HTMLResponse:
    values: dict[str, Any] = {"sides": None, "doubt": None, "error": ""}
    try:
        values |= answer()
    except AdvisorError as error:
        values |= {"error": own_words(str(error), TITLES), "wrong": field_of(error)}
    names = [*(name.strip() for name in told.get("names", "").split(",")), "", "", ""]
    told = {**told, **dict(zip(CHOICES, names, strict=False))}
    return page(
        "compare.html",
        400 if values["error"] else 200,
        tab="compare",
        told={name: told.get(name, "") for name in (*EXTRA, *CHOICES)},
        hidden=parse_qsl(question_query(told)),
        fields=fields(told, FIELDS, sheet=""),
        carried=question_query(told),
        **values,
    )


@router.get("/compare")
def sides(request: Request) -> HTMLResponse:
    """The empty sheet, or the choices of the address side by side."""
    told = read_parameters(request)[0]
    chosen = [told.pop(name, "").strip() for name in CHOICES]
    if any(chosen):
        told["names"] = ", ".join(filter(None, chosen))
    limits = [f"{x}={told[f'max_{x}_ms']}ms" for x in ("tpot", "ttft") if told.get(f"max_{x}_ms")]
    if limits and "users_within" not in told:
        told["users_within"] = ",".join(limits)
    if not told.get("names", "").strip():
        return _sheet(told)

    def answer() -> dict[str, Any]:
        return {"sides": sheets.sides_view(*sheets.compare_choices(_options(sheets.Sides, told)))}

    return _sheet(told, answer)


@router.get("/why-not")
def doubt(request: Request) -> HTMLResponse:
    """Why the answer is not what the address names."""
    told = read_parameters(request)[0]
    return _sheet(told, lambda: {"doubt": sheets.explain_why_not(_options(sheets.Doubt, told))})


MOST_LINES = 5_000  # of a text that are shown with its findings


def check_view(found: Checkup) -> dict[str, Any]:
    """What the sheet of a checked configuration shows; secrets are taken out of all of it."""
    report = found.report
    clean = report.cleaner()
    (read,) = report.reads
    said = summary(report)
    told = findings(report.findings)
    marks: dict[int, str] = {}
    for one in told:
        marks.setdefault(one.line, one.severity)  # the worst first
    lines = clean(read.source.text).splitlines()[:MOST_LINES]
    return {
        "summary": said[:1].upper() + said[1:],
        "secret": found.secret,
        "findings": told,
        "launches": [
            {
                "text": clean(describe_launch(one)),
                "notes": [clean(note) for note in one.launch.notes],
                "changes": [clean(line) for line in one.change.lines] if one.change else [],
            }
            for one in report.launches
        ],
        "skipped": skipped_lines(report),
        "notes": [clean(note) for one in report.files for note in one.notes],
        "safe_diff": diff_lines(found.safe_diff),
        "all_diff": diff_lines(found.all_diff),
        "fixed": found.fixed,
        "lines": [(n, line, marks.get(n, "")) for n, line in enumerate(lines, 1)],
    }


def diff_lines(diff: str) -> list[tuple[str, str]]:
    """(kind, line) of a unified diff."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    return [
        ("at" if line.startswith(("+++", "---")) else kinds.get(line[:1], "same"), line)
        for line in diff.splitlines()
    ]


def results_view(runs: Sequence[BenchmarkRun], report: AbReport | None) -> dict[str, Any]:
    """What the sheet of benchmark files shows."""
    texts = [[line.strip() for line in runs_text([run], 100_000).splitlines()] for run in runs]
    word = report.verdict.lower() if report is not None else ""
    good = word.startswith(("faster", "turn", "keep"))
    return {
        "runs": [{"head": head, "lines": list(filter(None, rest))} for head, *rest in texts],
        "ab": report,
        "tone": "on" if good else "off" if "slow" in word else "",
    }
