"""A folder of step-cost rows: its JSON lines and what its `about.yaml` says of the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import served_rows

ABOUT = "about.yaml"
STEP_COST_PREFIX = (
    "h200-"  # together with "bench-": sources that rule SD505 takes for random weights
)
Measured = dict[str, Any]


def read_rows(folder: Path) -> list[Measured]:
    """All measured points of a folder. A line without a `key` holds what the later lines of its
    label share. Raises AdvisorError where a line is no JSON or there are no points.
    """
    rows: list[Measured] = []
    for path in sorted(folder.glob("*.jsonl")):
        shared: dict[str, Measured] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise AdvisorError(
                    f"{path.name}:{number} is not JSON; delete the broken line and import again."
                ) from error
            if "key" not in row:
                shared[row["label"]] = row
                continue
            rows.append(served_rows.in_columns({**shared.get(row["label"], {}), **row}))
    if not rows:
        raise AdvisorError(
            f"{folder} holds no measured points (*.jsonl of `advisor bench step-cost`)."
        )
    return rows


def read_about(folder: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """about.yaml of a folder with the command line's changes. Raises AdvisorError where the id or
    the hardware is missing.
    """
    import yaml

    path = folder / ABOUT
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    about: dict[str, Any] = {
        **(found or {}),
        **{name: value for name, value in changes.items() if value},
    }
    for name in ("id", "hardware", "date"):
        if not about.get(name):
            raise AdvisorError(
                f"`{name}` is not known: put it into {ABOUT} in {folder}, or give --{name}."
            )
    if not str(about["id"]).startswith((STEP_COST_PREFIX, "bench-")):
        raise AdvisorError(
            "ids of step-cost sources start with `bench-`: rule SD505 knows them by that."
        )
    return about
