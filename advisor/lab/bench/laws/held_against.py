"""Predictions that were written down before a sweep, held against what was measured.

`python -m advisor.lab.bench.laws.held_against PREDICTIONS.json FOLDER...` prints, for each engine
and arm, the cells, the median error of the step and its bias, and how often the sign of the gain
in decode speed was right. FOLDER holds the raw points of a sweep with its about.yaml; points that
it sets apart are left out.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from advisor.lab.bench.laws.step_law import Point, step_ms
from advisor.lab.bench.row_files import read_about, read_rows
from advisor.lab.bench.rows import campaign, reason_of

NEAR = 0.03  # gains nearer to 1 than this say nothing: what two runs of a cell differ by


class Cell(NamedTuple):
    """One measured point beside its prediction; steps in ms."""

    point: Point
    step: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured step, less 1."""
        return self.predicted / self.step - 1


class Account(NamedTuple):
    """Errors of one engine and arm: shares, and signs where both arms of a load were measured."""

    name: str
    cells: int
    median: float
    bias: float
    signs_right: int
    signs: int


def cells(points: Iterable[Point], predicted: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Points with the prediction of their label, load and sampling.

    A label may have one more word than the predicted one: the machine it was taken again on.

    Parameters
    ----------
    points : Iterable[Point]
        Measured points of one or more sweeps.
    predicted : Sequence[Mapping[str, Any]]
        The cells of a file that `advisor.lab.bench.preregister` wrote.

    Returns
    -------
    list[Cell]
        In the order of the points; points without a prediction are left out.
    """
    known = {(c["label"], *_load(c["key"])): float(c["decode_step_ms"]) for c in predicted}
    found = []
    for point in points:
        label = str(point["label"])
        for name in (label, label.rpartition("-")[0]):
            told = known.get((name, *_load(point["key"])))
            if told is not None and step_ms(point):
                found.append(Cell(point, step_ms(point), told))
                break
    return found


def _load(key: str) -> tuple[str, ...]:
    """Requests, prompt tokens and what follows the output length of a key."""
    requests, prompt, _, *rest = key.split(":")
    return requests, prompt, *rest


def account(name: str, found: Sequence[Cell]) -> list[Account]:
    """The errors of plain steps and of cycles.

    Parameters
    ----------
    name : str
        Of the engine.
    found : Sequence[Cell]
        Its cells, both arms.

    Returns
    -------
    list[Account]
        One for each arm that has cells.
    """
    plain = {_place(cell): cell for cell in found if not cell.point["k"]}
    signs = [
        (_gain(cell, plain[_place(cell)], True) > 1) == (gain > 1)
        for cell in found
        if cell.point["k"] and _place(cell) in plain
        for gain in [_gain(cell, plain[_place(cell)], False)]
        if abs(gain - 1) > NEAR
    ]
    made = []
    for title, drafts in (("plain step", False), ("cycle", True)):
        errors = [cell.error for cell in found if bool(cell.point["k"]) == drafts]
        if errors:
            made.append(
                Account(
                    f"{name}, {title}",
                    len(errors),
                    statistics.median(abs(error) for error in errors),
                    statistics.median(errors),
                    sum(signs) if drafts else 0,
                    len(signs) if drafts else 0,
                )
            )
    return made


def _place(cell: Cell) -> tuple[str, ...]:
    return campaign(cell.point["label"]), *_load(cell.point["key"])


def _gain(cell: Cell, plain: Cell, predicted: bool) -> float:
    """Decode speed with drafts over that without."""
    point = cell.point
    if predicted:
        return float((1 + sum(point["rates"][: point["k"]])) * plain.predicted / cell.predicted)
    return float(point["acceptance_length"] * plain.step / cell.step)


def trusted_points(folder: Path) -> list[Point]:
    """The points of a folder that its about.yaml does not set apart."""
    about = read_about(folder, {})
    rows = read_rows(folder)
    return [row for row in rows if reason_of(row, about) is None and row.get("decode_steps")]


def main(argv: Sequence[str]) -> int:
    """Print the errors of a file of predictions; exit status 2 without arguments."""
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    predicted = json.loads(Path(argv[0]).read_text(encoding="utf-8"))["cells"]
    for folder in map(Path, argv[1:]):
        found = cells(trusted_points(folder), predicted)
        for one in account(folder.name, found):
            signs = f"  on or off right {one.signs_right} of {one.signs}" if one.signs else ""
            print(
                f"{one.name:45} {one.cells:3} cells  median {100 * one.median:3.0f} %  "
                f"bias {100 * one.bias:+4.0f} %{signs}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
