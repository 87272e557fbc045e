"""Findings on what surrounds the command: they stand at the container's image."""

from __future__ import annotations

from advisor.domain.nouns import Case, Fix, Severity
from advisor.rules.registry import Hit


def around(case: Case, message: str, key: str, fix: str, severity: Severity | None = None) -> Hit:
    """A hit on a key of the container, at the line of its image."""
    container = case.launch.container
    return Hit(
        message,
        flag=key,
        line=container.image_line if container is not None else 0,
        severity=severity,
        fix=Fix(text=fix),
    )
