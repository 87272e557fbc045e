"""A pasted configuration: what the rules say of it, and the fixes as a diff.

The text is read as `advisor validate` reads standard input, under a name that only helps to see its
form: no file is opened.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

from advisor.cli.serve.question import FormFields
from advisor.domain.nouns import LIMITS, AdvisorError, Workload
from advisor.knowledge.detect import detect
from advisor.lint.apply_fixes import apply_rounds
from advisor.lint.fixes import redacted_diff
from advisor.lint.report import Report, no_launch_message
from advisor.lint.validate import validate
from advisor.readers.secrets import learn_from_text

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
