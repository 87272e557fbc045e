"""Rows of rule data and names for a message: what needs no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table


def rows(name: str, key: str) -> tuple[Mapping[str, Any], ...]:
    """A list of rows of knowledge/rules/<name>.json, each with its own sources."""
    return tuple(table(name)[key])


def hardware_name(case: Case) -> str:
    """Return the hardware's name for a message."""
    hw = case.facts.hardware
    return (hw.name or hw.id) if hw else "this hardware"


def model_name(case: Case) -> str:
    """Return the model's name for a message."""
    model = case.facts.model
    return (model.name or model.id) if model else "this model"
