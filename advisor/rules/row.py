"""What the index knows of a rule without importing it."""

from __future__ import annotations

from typing import NamedTuple

from advisor.domain.nouns import Severity


class Row(NamedTuple):
    """One rule: its code, name and what it asks for."""

    code: str
    slug: str
    severity: Severity
    engines: tuple[str, ...]  # empty: any engine
    needs: tuple[str, ...]
    speculative: bool  # only for plans that speculate
