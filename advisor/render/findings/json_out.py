"""A report as JSON, and the JSON Schema that it follows."""

from collections.abc import Callable
from functools import partial
from typing import Any

from advisor.domain.nouns import Engine, Estimate, Finding, Method, Skipped
from advisor.domain.printable import cut, printable_lines
from advisor.lint.report import CheckedLaunch, FileReport, Report
from advisor.lint.validate import fence
from advisor.render.json_out import CODE
from advisor.render.objects import DIALECT, Schema, Shape, list_of, object_of, or_null, schema_of

MAX_TEXT = 10_000  # characters of one text


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain data: files, findings, skipped, launches."""
    from advisor.lint import compare  # start-up: only for this format

    batch = fence(partial(compare.estimate_together, report.launches))
    later = {} if isinstance(batch, str) else batch  # each alone, where one fails
    turns = ((one, later.get(number)) for number, one in enumerate(report.launches))
    estimates = [fence(partial(compare.drafting_estimate, *turn)) for turn in turns]
    told_of = zip(report.launches, estimates, strict=True)
    failed = [Skipped("estimate", (x,), one.launch.file) for one, x in told_of if type(x) is str]
    told: dict[str, Any] = redact_data(
        {
            "files": map(_FILE.json, report.files),
            "findings": map(_FINDING.json, report.findings),
            "skipped": map(_SKIPPED.json, [*report.skipped, *failed]),
            "launches": map(_launch, report.launches, estimates),
        },
        report,
    )
    return told


def redact_data(data: Any, report: Report) -> Any:
    """Plain data without the secrets of the files, and without what a terminal would obey."""
    return _redact(data, report.cleaner())


def _redact(data: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return printable_lines(cut(clean(data), MAX_TEXT))
    if isinstance(data, dict):
        return {_redact(key, clean): _redact(value, clean) for key, value in data.items()}
    return [_redact(item, clean) for item in data] if isinstance(data, list | tuple | map) else data


_TEXT, _COUNT = schema_of(str), schema_of(int)
_FIX = {"text": _TEXT, "safe": schema_of(bool), "applicable": schema_of(bool)}


def _fix(finding: Finding) -> dict[str, Any] | None:
    fix = finding.fix
    return (fix and {"text": fix.text, "safe": fix.safe, "applicable": bool(fix.edits)}) or None


_FINDING = Shape(
    Finding,
    "finding",
    "code slug severity message file line column engine flag fix sources conflicts",
    values={"fix": _fix},
    kinds={
        "code": CODE,
        "fix": or_null(object_of(_FIX, ["text", "safe"])),
        "sources": list_of(_TEXT) | {"minItems": 1},
    },
    listed=False,
    optional="slug conflicts",
)
_NOT_CHECKED = object_of({"line": _COUNT, "reason": _TEXT}, ["line", "reason"])
_FILE = Shape(
    FileReport,
    "file",
    "file form launches notes error not_checked ignored",
    values={
        "not_checked": lambda one: [{"line": x.line, "reason": x.reason} for x in one.not_checked],
        "ignored": lambda one: one.suppressed,
    },
    kinds={"not_checked": list_of(_NOT_CHECKED), "ignored": _COUNT},
    listed=False,
    optional="form notes not_checked ignored",
)
_SKIPPED = Shape(Skipped, "skipped", "code needs file", listed=False, optional="file")

_OF_LAUNCH = (
    "file", "line", "form", "engine", "engine_version", "version_text", "version_pinned", "fork",
    "model", "notes",
)  # fmt: skip


def _launch(one: CheckedLaunch, estimate: Estimate | str | None) -> dict[str, Any]:
    told: dict[str, Any] = {name: getattr(one.launch, name) for name in _OF_LAUNCH}
    model, quant = one.facts.model, one.facts.quant
    plan = one.plan.model_dump() | ({"method": None, "k": None} if one.speculates is None else {})
    told |= {"llm": model and model.id, "quant": quant and quant.id, "plan": plan}
    if isinstance(estimate, Estimate):
        told["estimate"] = estimate.model_dump(exclude={"terms"})
    if one.change is not None:
        told["recommend"] = one.change.as_dict()
    return told


def validate_schema() -> Schema:
    """The JSON Schema of `advisor validate --format json`; keys may be added."""
    text, count = _TEXT, _COUNT
    maybe, texts = or_null(text), list_of(text)
    plan = {"engine": text, "method": or_null(schema_of(Method)), "k": or_null(count)}
    launch = {
        "engine": schema_of(Engine),
        **dict.fromkeys(("engine_version", "version_text", "fork", "model", "llm", "quant"), maybe),
        "version_pinned": schema_of(bool),
        "file": text,
        "line": count,
        "form": text,
        "plan": object_of(plan, list(plan)),
        "notes": texts,
        "estimate": {"type": "object"},
        "recommend": {"type": "object"},
    }
    lists = {
        "files": _FILE.schema(),
        "findings": _FINDING.schema(),
        "skipped": _SKIPPED.schema(),
        "launches": object_of(launch, ["engine", "engine_version", "model", "plan"]),
    }
    body = object_of({key: list_of(items) for key, items in lists.items()}, list(lists))
    return {"$schema": DIALECT, "title": "advisor validate --format json", **body}
