"""Every folder of examples/ still does what it shows. After a wanted change: `python
tests/update_examples.py`.
"""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from update_examples import EXAMPLES, expected_exit, folders, printed_file, run

REGENERATE = "if the change is wanted: python tests/update_examples.py"


LONG = ("own-runs", "ab-h200", "add-hardware")  # a dozen commands each


@pytest.mark.parametrize(
    "folder",
    [pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in LONG else [])
     for path in folders()],
)  # fmt: skip
def test_example(folder: Path) -> None:
    outcome = run(folder)
    assert outcome.code == expected_exit(folder), outcome.errors
    assert "Traceback" not in outcome.errors
    shown = printed_file(folder)
    assert same(outcome.printed, shown.read_text(encoding="utf-8"), shown.suffix), (
        f"{shown.name} differs; {REGENERATE}"
    )
    for name, text in outcome.files.items():
        kept = (folder / f"expected-{name}").read_text(encoding="utf-8")
        assert same(text, kept, Path(name).suffix), f"{name} differs; {REGENERATE}"


def test_every_folder_of_examples_is_a_test_and_in_the_list() -> None:
    names = {path.name for path in folders()}
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == names
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"[{name}]({name}/)" not in listed] == []


def same(new: str, old: str, suffix: str) -> bool:
    """Equal but for the last digits of numbers in JSON and CSV: numerical libraries differ."""
    if suffix == ".json":
        return near(json.loads(new), json.loads(old))
    if suffix == ".csv":
        rows = [list(csv.reader(io.StringIO(text))) for text in (new, old)]
        return near(*[[[number(cell) for cell in row] for row in table] for table in rows])
    return new == old


def number(cell: str) -> float | str:
    return float(cell) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", cell) else cell


def near(new: Any, old: Any) -> bool:
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(near(new[key], old[key]) for key in new)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(near(a, b) for a, b in zip(new, old, strict=True))
    if isinstance(new, float) or isinstance(old, float):
        return (
            type(new) in (int, float)
            and type(old) in (int, float)
            and new == pytest.approx(old, rel=1e-4, abs=1e-6)
        )
    return bool(new == old)
