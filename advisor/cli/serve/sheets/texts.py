"""Texts that are pasted: a configuration with what the rules say of it and the fixes as a diff, or
a mix of workloads with its plan.

A configuration is read as `advisor validate` reads standard input, under a name that only helps to
see its form: no file is opened.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

from advisor.advice.explore.layouts import ClassResult, Layout, MixPlan
from advisor.advice.explore.mix import MOST_BYTES, read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.cli.serve.question import FormFields
from advisor.domain.nouns import LIMITS, AdvisorError, Interval, Workload
from advisor.knowledge.detect import detect
from advisor.lint.apply_fixes import apply_rounds
from advisor.lint.fixes import redacted_diff
from advisor.lint.report import Report, no_launch_message
from advisor.lint.validate import validate
from advisor.readers.secrets import learn_from_text
from advisor.render.explore.plan import server_words
from advisor.render.explore.plan_folder import FORMS, folder
from advisor.render.layout import number

TEXT_CHARACTERS = 500_000


def _within(name: str, text: str) -> Any:
    low, high = LIMITS[name]
    return Field(None, ge=low, le=high, description=text)


class PastedText(FormFields):
    """A configuration and what it cannot tell itself: the options of `advisor validate`."""

    text: str = Field(max_length=TEXT_CHARACTERS, description="The configuration, any form")
    name: str = Field(
        "-", max_length=200, description="What its file is called, e.g. docker-compose.yml"
    )
    hw: str | None = Field(None, max_length=200, description="Hardware that runs it")
    gpus: int | None = _within("gpus", "Number of devices")
    concurrency: int | None = _within("concurrency", "Requests at once")
    ctx: int | None = Field(None, ge=1, le=10_000_000, description="Prompt tokens per request")
    output_tokens: int | None = _within("output_tokens", "Answer tokens per request")
    workload: Workload | None = Field(None, description="Kind of text")
    engine_version: str | None = Field(
        None, max_length=200, description="The release that runs, whatever the text says"
    )
    select: tuple[str, ...] = Field((), max_length=100, description="Only these codes or families")
    ignore: tuple[str, ...] = Field((), max_length=100, description="Leave out these")


class Checkup(NamedTuple):
    """The report, the diff of the safe and of all fixes, the fixed text where it may be shown."""

    report: Report
    safe_diff: str
    all_diff: str
    fixed: str
    secret: bool


def validate_options(pasted: PastedText) -> dict[str, Any]:
    """What is told beside the text, as `validate` takes it."""
    wanted = {
        name: value
        for name in type(pasted).model_fields
        if name not in ("text", "name") and (value := getattr(pasted, name))
    }
    if str(wanted.get("hw", "")).lower() == "auto":
        found, gpus = detect()
        wanted = {"gpus": gpus, **wanted, "hw": found.id}
    return wanted


def validate_text(pasted: PastedText) -> Report:
    """What `advisor validate` reports. Raises AdvisorError where nothing is there to judge."""
    complete = bool(pasted.hw and pasted.concurrency and pasted.ctx)
    report = validate(
        text=pasted.text, name=file_name(pasted), changes=complete, **validate_options(pasted)
    )
    if problem := no_launch_message(report):
        raise AdvisorError(problem)
    return report


def file_name(pasted: PastedText) -> str:
    """The last part of the name: it is shown and says the form, it is never opened."""
    last = pasted.name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(ch if ch.isprintable() else "?" for ch in last) or "-"


def checkup(pasted: PastedText) -> Checkup:
    """The report with its fixes."""
    report = validate_text(pasted)
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


EXAMPLE = """\
# One machine: chat, and now and then long documents.
hardware: gb10
model: qwen3.6-35b-a3b
classes:
  - name: chat
    concurrency: 4
    prompt: 2048
    output: 256
    workload: chat
    goal: tpot
  - name: documents
    concurrency: 4
    prompt: 8192
    output: 256
    workload: rag
    goal: throughput
"""


class MixForm(FormFields):
    """A mix, and what its files are written for."""

    text: str = Field(
        max_length=MOST_BYTES, description="The mix as YAML, as `advisor plan` reads it"
    )
    form: str = Field("compose", max_length=40, description=f"One of {', '.join(FORMS)}")


def make_plan(mixed: MixForm) -> MixPlan:
    """What `advisor plan` answers. Raises AdvisorError in one sentence."""
    if mixed.form not in FORMS:
        raise AdvisorError(f"form: '{mixed.form}' is none of {', '.join(FORMS)}")
    return plan_mix(read_mix(mixed.text))


def mix_view(made: MixPlan, form: str) -> dict[str, Any]:
    """What the sheet of a mix shows, the chosen layout first."""
    order = [made.best, *(one for one in made.layouts if one is not made.best)]
    try:
        files, refused = folder(made, form), ""
    except AdvisorError as error:
        files, refused = {}, str(error)
    return {
        "headline": f"Run {made.best.title}",
        "tone": "off" if made.best.kind == "off" else "on",
        "why": made.why,
        "layouts": [_layout(one, one is made.best) for one in order],
        "files": list(files.items()),
        "refused": refused,
    }


def _layout(one: Layout, chosen: bool) -> dict[str, Any]:
    chance = f", {one.p_gain * 100:.0f} % likely a gain" if one.p_gain is not None else ""
    return {
        "title": one.title[:1].upper() + one.title[1:],
        "chosen": chosen,
        "refusal": one.refusal or "",
        "gain": _span(one.gain) if one.gain is not None else "",
        "chance": chance,
        "classes": [_class(seen) for seen in one.results],
        "servers": [server_words(server) for server in one.instances],
    }


def _span(gain: Interval) -> str:
    parts = [f"{(value - 1) * 100:+.0f}" for value in (gain.p50, gain.p10, gain.p90)]
    return f"{parts[0]} % ({parts[1]} to {parts[2]} %)"


def _class(seen: ClassResult) -> dict[str, str]:
    kept = seen.p_objective
    return {
        "name": seen.name,
        "load": number(seen.concurrency),
        "gain": f"{(seen.gain.p50 - 1) * 100:+.0f} %",
        "speed": number(seen.output_tok_s),
        "tpot": number(seen.tpot_ms),
        "ttft": number(seen.ttft_ms),
        "objective": "–" if kept is None else f"kept {kept * 100:.0f} %",
    }
