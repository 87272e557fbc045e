"""Engines that we cannot launch: a plain answer, with what it costs and what to run instead."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from advisor.domain.paths import read_data


@cache
def _table() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(read_data("knowledge/engines/other_engines.json"))
    return data


def row(name: str) -> dict[str, Any] | None:
    """What is known of an engine by name, e.g. ollama; None if the engine is not in the table."""
    key = "".join(ch for ch in name.lower() if ch.isalnum())
    found: dict[str, Any] | None = _table()["engines"].get(_table()["aliases"].get(key, key))
    return found


def answer(name: str) -> str | None:
    """The answer for an engine by name; None if the engine is not in the table."""
    known = row(name)
    if known is None:
        return None
    said = " ".join(known[part] for part in ("state", "cost", "instead") if part in known)
    return f"{said} ({', '.join(known['sources'])})"
