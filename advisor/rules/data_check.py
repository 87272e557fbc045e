"""The rules' data against its schema, knowledge/rules/schema.json: `python -m advisor.rules.build`
and the tests call it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = "schema.json"


def problems(folder: Path) -> list[str]:
    """One sentence a fault of the data files in `folder`; empty where there is none."""
    from jsonschema import Draft202012Validator  # needed where rules are built alone

    schema = json.loads((folder / SCHEMA).read_text(encoding="utf-8"))
    found: list[str] = []
    tables: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        if path.name == SCHEMA:
            continue
        try:
            tables[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            found.append(f"{path.name} is not JSON: {error}")
    for fault in Draft202012Validator(schema).iter_errors(tables):
        deepest = max((fault, *(fault.context or ())), key=lambda e: len(e.absolute_path))
        where = ".".join(str(part) for part in deepest.absolute_path)
        found.append(f"{where}: {deepest.message[:200]}")
    return found
