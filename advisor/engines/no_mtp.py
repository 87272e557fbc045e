"""Engines that we cannot launch: a plain answer, with what it costs and what to run instead."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from advisor.paths import knowledge_dir


@cache
def _table() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((knowledge_dir() / "engines" / "other_engines.json").read_bytes())
    return data


def answer(name: str) -> str | None:
    """The answer for an engine by name, e.g. ollama; None if the engine is not in the table."""
    key = "".join(ch for ch in name.lower() if ch.isalnum())
    row = _table()["engines"].get(_table()["aliases"].get(key, key))
    if row is None:
        return None
    return f"{row['state']} {row['cost']} {row['instead']} ({', '.join(row['sources'])})"
