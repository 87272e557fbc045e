"""A report as JSON, and the JSON Schema that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.domain.nouns import METHODS, Finding
from advisor.domain.printable import cut, printable_lines

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


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def validate_schema() -> dict[str, Any]:
    """The JSON Schema of `advisor validate --format json`."""
    text, number, maybe = {"type": "string"}, {"type": "integer"}, {"type": ["string", "null"]}
    texts = {"type": "array", "items": text}
    severity = {"enum": ["error", "warning", "info"]}
    fix = {
        "anyOf": [
            {"type": "null"},
            _object(
                {"text": text, "safe": {"type": "boolean"}, "applicable": {"type": "boolean"}},
                ["text", "safe"],
            ),
        ]
    }
    finding = _object(
        {
            "code": {"type": "string", "pattern": "^SD[0-9]{3}$"},
            "slug": text,
            "severity": severity,
            "message": text,
            "file": text,
            "line": {"type": "integer", "minimum": 0},
            "column": {"type": "integer", "minimum": 0},
            "engine": maybe,
            "flag": maybe,
            "fix": fix,
            "sources": {**texts, "minItems": 1},
            "conflicts": texts,
        },
        [
            "code",
            "severity",
            "message",
            "file",
            "line",
            "column",
            "engine",
            "flag",
            "fix",
            "sources",
        ],
    )
    file = _object(
        {
            "file": text,
            "form": text,
            "launches": number,
            "notes": texts,
            "error": maybe,
            "not_checked": {
                "type": "array",
                "items": _object({"line": number, "reason": text}, ["line", "reason"]),
            },
            "ignored": number,
        },
        ["file", "launches", "error"],
    )
    plan = _object(
        {"engine": text, "method": {"enum": list(METHODS)}, "k": {"type": "integer", "minimum": 0}},
        ["engine", "method", "k"],
    )
    launch = _object(
        {
            "engine": {"enum": ["vllm", "sglang", "llama-server", "ik_llama.cpp"]},
            "engine_version": maybe,
            "version_text": maybe,
            "version_pinned": {"type": "boolean"},
            "fork": maybe,
            "model": maybe,
            "llm": maybe,
            "quant": maybe,
            "file": text,
            "line": number,
            "form": text,
            "plan": plan,
            "notes": texts,
            "estimate": {"type": "object"},
            "recommend": {"type": "object"},
        },
        ["engine", "engine_version", "model", "plan"],
    )
    skipped = _object({"code": text, "needs": texts, "file": text}, ["code", "needs"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "advisor validate --format json",
        **_object(
            {
                "files": {"type": "array", "items": file},
                "findings": {"type": "array", "items": finding},
                "skipped": {"type": "array", "items": skipped},
                "launches": {"type": "array", "items": launch},
            },
            ["files", "findings", "skipped", "launches"],
        ),
    }
