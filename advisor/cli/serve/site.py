"""A static copy of the page, all addresses relative: answers for some hardware and loads."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from advisor.advice.spoken import split_count
from advisor.cli.serve import answers
from advisor.cli.serve.curve import curve_view
from advisor.cli.serve.html import ASSETS, asset_bytes, render
from advisor.cli.serve.launch import LaunchQuestion
from advisor.cli.serve.question import check_fields
from advisor.cli.serve.views import FORM_NAMES, answer_view, launch_forms, launch_text
from advisor.domain.nouns import Advice, AdvisorError
from advisor.knowledge import store as knowledge
from advisor.knowledge.age import today
from advisor.render.forms import FORMS

# one of each kind that people serve with: unified memory, consumer cards, workstations, centers
_HARDWARE = (
    "gb10 strix-halo rtx3090 rtx4090 rtx5090 rtx-pro-6000 l40s a100-80gb h100-sxm h200 b200 mi300x"
)
HARDWARE = (*_HARDWARE.split(), "2x rtx3090", "2x h100-sxm")
MODELS = ("qwen3.6-35b-a3b", "qwen3.6-27b")
LOADS = (1, 4, 16, 64)
POLICY = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:"


class Cell(NamedTuple):
    """One answer of the copy, or why there is none."""

    question: LaunchQuestion
    name: str  # of its file
    advice: Advice | None
    problem: str = ""


def site(
    hardware: Sequence[str] = (), models: Sequence[str] = (), quants: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """(path, text) of every file; hardware as typed ("2x 3090"), all names looked up first."""
    counted = [split_count(name) for name in hardware or HARDWARE]
    boxes = dict.fromkeys((knowledge.hardware(name).id, count or 1) for name, count in counted)
    llms = dict.fromkeys(knowledge.llm(name).id for name in models or MODELS)
    kinds = dict.fromkeys(knowledge.quant(name).id for name in quants) if quants else ("",)
    return _files(list(boxes), [(llm, kind) for llm in llms for kind in kinds])


def _files(
    boxes: Sequence[tuple[str, int]], models: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    for name in ASSETS:
        yield f"static/{name}", asset_bytes(name).decode("utf-8")
    tables = []
    for llm, quant in models:
        rows = []
        for box, gpus in boxes:
            cells = [_cell(box, gpus, llm, quant, load) for load in LOADS]
            count, name = f"{gpus} × " if gpus > 1 else "", knowledge.hardware(box).name or box
            rows.append((f"{count}{name}", [_entry(cell) for cell in cells]))
            for cell in cells:
                if cell.advice is not None:
                    yield f"answers/{cell.name}", _answer(cell, cells)
        tables.append((f"{knowledge.llm(llm).name or llm} {quant}".strip(), rows))
    yield "index.html", _page("site_index.html", "", tables=tables, loads=LOADS)


def _cell(box: str, gpus: int, llm: str, quant: str, load: int) -> Cell:
    count = {"gpus": gpus} if gpus > 1 else {}
    told = {"hw": box, "model": llm, "quant": quant, "concurrency": load, **count}
    question = check_fields(LaunchQuestion, told)
    machine = f"{gpus}x-{box}" if gpus > 1 else box
    name = "-".join(filter(None, (llm, quant, machine, f"{load}.html")))
    try:
        return Cell(question, name, answers.advice(question.plain()))
    except AdvisorError as error:
        return Cell(question, name, None, str(error))


def _entry(cell: Cell) -> dict[str, Any]:
    """One cell of the table: the decision in a word, the gain, the link."""
    advice = cell.advice
    if advice is None:
        return {"word": "does not run", "tone": "", "gain": "", "link": "", "why": cell.problem}
    drafts = advice.estimate if advice.candidate is not None else None
    gain = drafts.output_tok_s.speedup.p50 if drafts is not None else None
    k = f"k = {advice.plan.k}" if advice.decision == "on" else ""
    return {
        "word": {"on": k, "off": "off", "measure": "measure"}[advice.decision],
        "tone": {"on": "ok", "off": "", "measure": "warning"}[advice.decision],
        "gain": f"{gain:.2f}×" if gain is not None else "",
        "link": f"answers/{cell.name}",
        "why": "",
    }


def _curve(question: LaunchQuestion) -> dict[str, Any] | None:
    """The curve over load; None where no load can be estimated (experts in system memory)."""
    try:
        return curve_view(answers.curve(question.plain()), question.concurrency)
    except AdvisorError:
        return None


def _answer(cell: Cell, cells: Sequence[Cell]) -> str:
    question, advice = cell.question, cell.advice
    assert advice is not None  # pages are written of answers only
    view, files = answer_view(advice, question), {name: form.file for name, form in FORMS.items()}
    others = [(f"{one.question.concurrency}", one.name, one is cell) for one in cells if one.advice]
    return _page(
        "site_answer.html",
        "../",
        title=f"{view['headline']}: {view['setting'][0][1]}, {view['setting'][1][1]}",
        view=view,
        others=others,
        curve=_curve(question),
        every_form=[
            (key, FORM_NAMES[key], launch_text(advice, key, question), files.get(key, ""))
            for key in launch_forms(advice)
            if key != "json"
        ],
    )


def _page(name: str, root: str, **values: Any) -> str:
    tabs = (("answers", f"{root}index.html", "Answers"),)
    values |= {"root": root, "home": f"{root}index.html", "tabs": tabs, "tab": "answers"}
    return render(name, policy=POLICY, written=today(), **values)
