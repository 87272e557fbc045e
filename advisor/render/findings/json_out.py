"""A report as JSON, and the JSON Schema that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.domain.nouns import Engine, Finding, Method, Severity
from advisor.domain.printable import cut, printable_lines
from advisor.render.json_out import CODE
from advisor.render.objects import DIALECT, Schema, list_of, object_of, or_null, schema_of

if TYPE_CHECKING:
    from advisor.lint.report import CheckedLaunch, FileReport, Report


MAX_TEXT = 10_000  # characters of one text


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain data: files, findings, skipped, launches."""
    told: dict[str, Any] = redact_data(
        {
            "files": [_file(one) for one in report.files],
            "findings": [finding_json(one) for one in report.findings],
            "skipped": [
                {"code": one.code, "needs": list(one.needs), "file": one.file}
                for one in report.skipped
            ],
            "launches": [_launch(one) for one in report.launches],
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
    if isinstance(data, list | tuple):
        return [_redact(item, clean) for item in data]
    return data


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding in the form of the `validate` JSON report."""
    fix = finding.fix
    return {
        "code": finding.code,
        "slug": finding.slug,
        "severity": finding.severity,
        "message": finding.message,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "engine": finding.engine,
        "flag": finding.flag,
        "fix": None
        if fix is None
        else {"text": fix.text, "safe": fix.safe, "applicable": bool(fix.edits)},
        "sources": list(finding.sources),
        "conflicts": list(finding.conflicts),
    }


def _file(one: FileReport) -> dict[str, Any]:
    return {
        "file": one.file,
        "form": one.form,
        "launches": one.launches,
        "notes": list(one.notes),
        "error": one.error,
        "not_checked": [{"line": x.line, "reason": x.reason} for x in one.not_checked],
        "ignored": one.suppressed,
    }


def _launch(one: CheckedLaunch) -> dict[str, Any]:
    launch = one.launch
    told: dict[str, Any] = {
        "file": launch.file,
        "line": launch.line,
        "form": launch.form,
        "engine": launch.engine,
        "engine_version": launch.engine_version,
        "version_text": launch.version_text,
        "version_pinned": launch.version_pinned,
        "fork": launch.fork,
        "model": launch.model,
        "llm": one.facts.model.id if one.facts.model else None,
        "quant": one.facts.quant.id if one.facts.quant else None,
        "plan": one.plan.model_dump(),
        "notes": list(launch.notes),
    }
    if (estimate := one.estimate) is not None:
        told["estimate"] = estimate.model_dump(exclude={"terms"})
    if one.change is not None:
        told["recommend"] = one.change.as_dict()
    return told


def validate_schema() -> Schema:
    """The JSON Schema of `advisor validate --format json`; keys may be added."""
    text, count = schema_of(str), schema_of(int)
    maybe, texts = or_null(text), list_of(text)
    fix = object_of(
        {"text": text, "safe": schema_of(bool), "applicable": schema_of(bool)}, ["text", "safe"]
    )
    finding = {
        "code": CODE,
        "slug": text,
        "severity": schema_of(Severity),
        "message": text,
        "file": text,
        "line": count,
        "column": count,
        "engine": maybe,
        "flag": maybe,
        "fix": or_null(fix),
        "sources": texts | {"minItems": 1},
        "conflicts": texts,
    }
    not_checked = object_of({"line": count, "reason": text}, ["line", "reason"])
    file = {
        "file": text,
        "form": text,
        "launches": count,
        "notes": texts,
        "error": maybe,
        "not_checked": list_of(not_checked),
        "ignored": count,
    }
    plan = {"engine": text, "method": schema_of(Method), "k": count}
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
    needed = [key for key in finding if key not in ("slug", "conflicts")]
    skipped = {"code": text, "needs": texts, "file": text}
    lists = {
        "files": object_of(file, ["file", "launches", "error"]),
        "findings": object_of(finding, needed),
        "skipped": object_of(skipped, ["code", "needs"]),
        "launches": object_of(launch, ["engine", "engine_version", "model", "plan"]),
    }
    body = object_of({key: list_of(items) for key, items in lists.items()}, list(lists))
    return {"$schema": DIALECT, "title": "advisor validate --format json", **body}
