"""What the sheets ask and answer: a pasted configuration, read as `advisor validate` reads standard
input (no file is opened), a mix of workloads, choices side by side or against the answer.
"""

import json
import re
from math import prod
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from advisor.advice.explore.axes import parse_axis
from advisor.advice.explore.compare import Comparison, compare, kind_of
from advisor.advice.explore.mix import MOST_CLASSES, read_mix
from advisor.advice.explore.mix_plan import MixPlan, plan_mix
from advisor.advice.explore.sweep import sweep as run_sweep
from advisor.advice.explore.values import Rate, Sweep
from advisor.advice.explore.why_not import WhyNot, why_not
from advisor.advice.explore.within import complete
from advisor.advice.questions import advice_for
from advisor.advice.questions import question as request_of
from advisor.advice.spoken import split_count
from advisor.advice.wording import span, whole_percent
from advisor.cli.options import CHECKED, QUESTION, written_count, written_tokens
from advisor.cli.serve.answers import turn
from advisor.cli.serve.question import Name, NeededName, PricedQuestion, Question, about, form_base
from advisor.domain.nouns import AdvisorError, DraftMethod, Plan
from advisor.knowledge.detect import detect
from advisor.lint.apply_fixes import apply_rounds
from advisor.lint.fixes import redacted_diff
from advisor.lint.report import Report, no_launch_message
from advisor.lint.validate import validate
from advisor.readers.secrets import learn_from_text
from advisor.render.explore.compare import comparison_rows, speeds
from advisor.render.explore.plan import plan_compose
from advisor.render.findings.json_out import report_json
from advisor.render.layout import number
from advisor.render.text_sections import METHOD_NAMES

_Text = Annotated[str, Field(pattern=r"\S", max_length=500_000)]


class PastedText(form_base(CHECKED.values())):  # type: ignore[misc]
    """A configuration and what it cannot tell itself: the options of `advisor validate`."""

    text: _Text = about("The configuration, any form", ..., examples=["vllm serve Qwen/Qwen3-8B"])
    name: Name | None = about("What its file is called, e.g. docker-compose.yml")
    select: tuple[str, ...] | None = about("Only these codes or families", max_length=100)
    ignore: tuple[str, ...] | None = about("Leave out these", max_length=100)


class Checkup(NamedTuple):
    """The report, the diff of the safe and of all fixes, the fixed text where it may be shown."""

    report: Report
    safe_diff: str
    all_diff: str
    fixed: str
    secret: bool


def validate_options(pasted: PastedText) -> dict[str, Any]:
    """What is told beside the text, as `validate` takes it."""
    wanted = {x: v for x, v in pasted if v and x not in ("text", "name")}
    if str(wanted.get("hw", "")).lower() == "auto":
        found, gpus = detect()
        wanted = {"gpus": gpus, **wanted, "hw": found.id}
    return wanted


def report_on(pasted: PastedText) -> Report:
    """What `advisor validate` reports; a name is shown and says the form, and is never opened.
    Raises AdvisorError where nothing is there to judge.
    """
    last = (pasted.name or "").replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(ch if ch.isprintable() else "?" for ch in last)
    complete = bool(pasted.hw and pasted.concurrency and pasted.ctx)
    report = validate(
        text=pasted.text, name=name or "-", changes=complete, **validate_options(pasted)
    )
    if problem := no_launch_message(report):
        raise AdvisorError(problem)
    return report


@turn()
def checkup(pasted: PastedText) -> Checkup:
    """The report with its fixes."""
    report = report_on(pasted)
    (read,) = report.reads
    wanted = validate_options(pasted)

    def again(text: str, name: str) -> Report:
        return validate(text=text, name=name, **wanted)

    safe = apply_rounds(read.source, report, again)
    every = apply_rounds(read.source, report, again, unsafe=True)
    learn_from_text(read.redactor, read.source.text)
    secret = read.redactor.clean(read.source.text) != read.source.text
    return Checkup(
        report,
        redacted_diff(safe, read.redactor),
        redacted_diff(every, read.redactor) if every.text != safe.text else "",
        "" if secret or safe.text == read.source.text else safe.text,
        secret,
    )


def report_with_diff(found: Checkup) -> dict[str, Any]:
    """The report as JSON, with the diff of the safe fixes."""
    return report_json(found.report) | {"diff": found.safe_diff}


_TIME = r"^\d+(\.\d+)? ?(ms|s)$"

_CLASS = (
    QUESTION["concurrency"]._replace(text="Requests at once", default=...),
    QUESTION["ctx"]._replace(flag="prompt", name="prompt"),
    QUESTION["output-tokens"]._replace(flag="output", name="output"),
    QUESTION["workload"],
    QUESTION["goal"],
)


class MixClass(form_base(_CLASS)):  # type: ignore[misc]
    """A class of requests as a row of the form has it."""

    name: str = about("Letters, digits and dashes", ..., max_length=32, pattern="^[a-z0-9-]+$")
    tpot: str | None = about("Objective: time per output token, 50ms", pattern=_TIME)
    ttft: str | None = about("Objective: time to the first token, 2s", pattern=_TIME)

    def as_mix(self) -> dict[str, Any]:
        """The class as a mix has it."""
        told: dict[str, Any] = self.model_dump(exclude_none=True)
        told["objective"] = {x: told.pop(x) for x in ("tpot", "ttft") if x in told}
        return told


_MACHINE = (
    QUESTION["hw"]._replace(default=...),
    *(QUESTION[flag] for flag in ("gpus", "model", "quant", "engine")),
)


_OF_CLASS = {"ctx": "prompt", "context": "prompt", "output_tokens": "output",
             "users": "concurrency", "requests": "concurrency"}  # as agents name them  # fmt: skip


class MixForm(form_base(_MACHINE)):  # type: ignore[misc]
    """Several workloads on one machine."""

    classes: tuple[dict[str, Any], ...] = about(
        "Each with concurrency, prompt and output in tokens, and if known name, "
        'workload, goal, objective: {"tpot": "60ms", "ttft": "2s"}',
        ...,
        min_length=1,
        max_length=MOST_CLASSES,
        examples=[[{"name": "chat", "concurrency": 8}]],
    )

    def mix(self) -> str:
        """The mix as YAML, of which JSON is a part."""
        name, count = split_count(self.hw)
        told = self.model_dump(include={"model", "quant", "engine"}, exclude_none=True)
        classes = []
        for i, one in enumerate(self.classes, 1):
            made = {_OF_CLASS.get(key, key): written_count(value) for key, value in one.items()}
            made |= {k: written_tokens(made[k]) for k in ("prompt", "output") if k in made}
            classes.append({"name": f"class-{i}"} | made)
        told |= {"hardware": name, "gpus": self.gpus or count or 1, "classes": classes}
        return json.dumps(told)


@turn()
def make_plan(mixed: MixForm) -> MixPlan:
    """What `advisor plan` answers. Raises AdvisorError in one sentence."""
    return plan_mix(read_mix(mixed.mix()))


def mix_view(made: MixPlan) -> dict[str, Any]:
    """What the sheet of a mix shows, the chosen layout first."""
    try:
        file, refused = plan_compose(made), ""
    except AdvisorError as error:
        file, refused = "", str(error)
    order = (made.best, *(one for one in made.layouts if one is not made.best))
    return {"plan": made, "layouts": order, "file": file, "refused": refused}


def _names(value: Any) -> Any:
    """`dgx spark, 2x 3090` or `gb10 h100` in one text, or several texts."""
    if isinstance(value, str):
        value = value[:2000].split("," if "," in value else None)
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        return value
    names = [name for one in value for name in one.split(",")]
    return [name.strip() for name in names if name.strip()]


_SIDES = Field(min_length=2, max_length=3)


class Sides(PricedQuestion):
    """The options of `compare`."""

    names: Annotated[tuple[NeededName, ...], _SIDES, BeforeValidator(_names)] = about(
        "Two or three of one kind: gb10,h100 or vllm@0.25.1,vllm@0.32.0",
        ...,
        examples=[["gb10", "h100"]],
    )


class Doubt(Question):
    """The options of `why-not`."""

    what: NeededName = about("on, off, k=4, or drafter: which of all", ..., examples=["k=4"])


@turn()
def compare_choices(asked: Sides) -> tuple[Comparison, Rate]:
    """What `advisor compare` answers. Raises AdvisorError in one sentence."""
    told = asked.as_options()
    if not asked.hw and kind_of(asked.names[0]) == "hardware":
        told["hw"] = asked.names[0]  # each name is its own
    return compare(request_of(told), asked.names, asked.limits() or None), asked.rate()


@turn()
def explain_why_not(asked: Doubt) -> WhyNot:
    """What `advisor why-not` answers. Raises AdvisorError in one sentence."""
    if not asked.hw and not asked.machine:
        raise AdvisorError("which hardware? choose one, or give hw")
    if asked.what.lower() == "drafter":
        return _drafters(asked)
    return why_not(request_of(asked.as_options()), asked.what)


def _drafters(asked: Question) -> WhyNot:
    """Each way of drafting as if it were asked for: what it gains, or why it cannot run."""
    gains: dict[Plan, tuple[float, str]] = {}
    lacking = []
    for method in get_args(DraftMethod):
        answer = advice_for(asked.as_options() | {"method": method}, what_if=False)
        plan, gain = answer.candidate, answer.gain
        if plan is None or gain is None:
            lacking += [row.text for row in answer.reasons[:1]]
            continue
        drafter = f" with {plan.draft_model}" if plan.draft_model else ""
        words = f"k = {plan.k}{drafter}: {whole_percent(gain.p50)} ({span(gain)})"
        name = METHOD_NAMES.get(method, method)
        gains.setdefault(plan, (gain.p50, f"{name}, {words}, alone: {answer.decision}"))
    rows = [words for _, words in sorted(gains.values(), reverse=True)]
    name = rows[0].partition(",")[0] if rows else ""
    head = f"{name} is expected to gain most" if rows else "no way to draft is known here"
    return WhyNot(asked="drafter", head=head, reasons=(*rows, *dict.fromkeys(lacking)))


def sides_view(found: Comparison, rate: Rate) -> dict[str, Any]:
    """What the sheet shows of choices: a table, and what makes the difference."""
    head, *rows = comparison_rows(found, rate)
    most = max((speed for arm in found.arms for speed in speeds(arm)), default=1.0)
    bars = [
        (name, how, number(speed), round(100 * speed / most, 1))
        for name, arm in zip(head[1:], found.arms, strict=True)
        for how, speed in zip(("without", "with"), speeds(arm), strict=False)
    ]
    return {"names": head[1:], "rows": rows, "differences": found.differences, "bars": bars}


MOST_LOADS = 400  # of a sweep that is asked of a server


def _axes(value: Any) -> Any:
    """Several axes in one text: "concurrency=1..64 k=0..4"."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        return value
    return [axis for one in texts for axis in re.split(r"[;\s]+(?=[a-z_]+=)", one[:2000].strip())]


Axis = Annotated[str, Field(max_length=2000)]

_VARY = Field(min_length=1, max_length=6)


class Variation(PricedQuestion):
    """A question and what varies in it."""

    vary: Annotated[tuple[Axis, ...], _VARY, BeforeValidator(_axes)] = about(
        "concurrency=1..128, k=0..4, ctx=512,8192; repeat it", ..., examples=[["k=0..4"]]
    )


def swept_for(asked: Variation) -> Sweep:
    """The sweep. Raises AdvisorError where it is larger than a server takes."""
    vary = dict(parse_axis(text) for text in asked.vary)
    loads = prod(len(values) for name, values in vary.items() if name != "k")
    if loads > MOST_LOADS:
        raise AdvisorError(f"{loads:,} loads are more than the {MOST_LOADS} of one request")
    request = request_of(asked.as_options())
    limits, rate = asked.limits(), asked.rate()
    with turn():
        return complete(run_sweep(request, vary), limits, rate)
