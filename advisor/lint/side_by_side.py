"""Launch files side by side: what they start, what differs, what is expected of each.

What it does not know: files that start several servers are compared by their first; the others are
counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from advisor.domain.nouns import AdvisorError, Estimate, Plan
from advisor.lint.compare import estimate_of
from advisor.lint.report import CheckedLaunch, Report
from advisor.lint.validate import validate

MOST = 3
_FIELDS = tuple(name for name in Plan.model_fields if name not in ("extra", "env", "port", "host"))


class FileArm(NamedTuple):
    """One file's first launch. `others` counts the further ones."""

    label: str
    judged: CheckedLaunch
    estimate: Estimate | None  # None where hardware, model or load are not known
    codes: tuple[str, ...]  # of the findings on the file
    others: int


class Difference(NamedTuple):
    """One setting with its value in each file; None is the engine's default."""

    name: str
    values: tuple[str | None, ...]


class SideBySide(NamedTuple):
    """Files and the settings in which they differ."""

    arms: tuple[FileArm, ...]
    differences: tuple[Difference, ...]


def side_by_side(paths: Sequence[str], **given: Any) -> SideBySide:
    """Compare two or three files, `given` what `validate` is told of them. Raises AdvisorError for
    one that starts no server.
    """
    if not 2 <= len(paths) <= MOST:
        raise AdvisorError(f"compare takes two or three files, not {len(paths)}")
    arms = [_arm(path, validate(path, **given)) for path in paths]
    return SideBySide(tuple(arms), tuple(_differences(arms)))


def _arm(path: str, report: Report) -> FileArm:
    if not report.launches:
        raise AdvisorError(f"{path}: no launch of vLLM, SGLang or llama-server was found")
    first = report.launches[0]
    codes = tuple(sorted({finding.code for finding in report.findings}))
    label = "standard input" if path == "-" else path
    return FileArm(label, first, estimate_of(first), codes, len(report.launches) - 1)


def _differences(arms: Sequence[FileArm]) -> list[Difference]:
    """The meaning first, then flags that have no noun."""
    out = []
    for name in _FIELDS:
        values = tuple(_text(getattr(arm.judged.plan, name)) for arm in arms)
        if len(set(values)) > 1:
            out.append(Difference(name, values))
    flags = [dict(arm.judged.plan.extra) for arm in arms]
    for name in sorted({name for table in flags for name in table}):
        values = tuple((table[name] or "on") if name in table else None for table in flags)
        if len(set(values)) > 1:
            out.append(Difference(name, values))
    return out


def _text(value: object) -> str | None:
    if value is None or value == ():
        return None
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
