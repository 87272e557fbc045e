"""Rows of a table -> predicted speed-ups and decisions, one result a row, in order.

A table is handed over by column: many rows repeat their words, and what is read once is read fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.perf import arrays, encode_rows
from advisor.perf.row_text import READ, row_text
from advisor.prediction import predict
from advisor.prediction.decision import DECISIONS, decide
from advisor.prediction.intervals import Predicted
from advisor.prediction.model import Model

Floats = npt.NDArray[np.float64]

DEFAULT_METRIC = "output_tok_s"  # of a row that names none
NUMBERS = ("speedup_p10", "speedup_p50", "speedup_p90", "p_gain")
FIELDS = (*NUMBERS, "decision", "basis", "error")
DIGITS = 4
_ENDLESS = "the row's numbers lead to no finite prediction"
_TTFT = arrays.METRICS.index("ttft")


def decisions(found: Predicted, metric: npt.NDArray[np.int16]) -> npt.NDArray[np.int8]:
    """On, off or measure for each of N predictions, by the rule of every command: indices into
    DECISIONS (N,).
    """
    first = (metric == _TTFT) & (found.p10 <= 1.0) & (found.p90 >= 1.0)
    return decide(found.p50, found.p_gain, first, found.closeness)


def predict_columns(
    columns: Mapping[str, Sequence[Any]], count: int, model: Model | None = None
) -> dict[str, list[Any]]:
    """The FIELDS as columns, for a table's columns of `count` cells; None where there is no value.
    Never raises for a row.
    """
    points, errors = encode_rows.from_columns(_with_text(columns, count), count)
    with np.errstate(all="ignore"):
        found = predict.predict_points(points, model)
    numbers = [np.asarray(getattr(found, name.removeprefix("speedup_"))) for name in NUMBERS]
    endless = ~np.isfinite(np.stack(numbers)).all(axis=0)
    for i in np.flatnonzero(endless).tolist():
        errors[i] = errors[i] or _ENDLESS
    made: dict[str, list[Any]] = {
        name: np.round(values, DIGITS).tolist()
        for name, values in zip(NUMBERS, numbers, strict=True)
    }
    made["decision"] = np.array(DECISIONS)[decisions(found, points.metric)].tolist()
    made["basis"] = np.array(predict.BASES)[found.basis].tolist()
    for i, error in enumerate(errors):
        if error is not None:
            for values in made.values():
                values[i] = None
    return {**made, "error": errors}


def _with_text(columns: Mapping[str, Sequence[Any]], count: int) -> Mapping[str, Sequence[Any]]:
    """The columns with what the free text of a row says put where it is read."""
    if not {"notes", "output_tok_s"} & set(columns):
        return columns
    names = [name for name in READ if name in columns]
    cells = [["" if cell is None else str(cell) for cell in columns[name]] for name in names]
    rows = [row_text(dict(zip(names, row, strict=True))) for row in zip(*cells, strict=True)]
    told = {name: [row.get(name) for row in rows] for name in READ}
    return {**columns, **told}


def predict_dicts(
    rows: Sequence[Mapping[str, Any]], model: Model | None = None
) -> list[dict[str, Any]]:
    """The FIELDS for rows with the columns of the measured runs, one result a row, in order. Never
    raises for a row.
    """
    if not rows:
        return []
    names = {str(name) for row in rows for name in row}
    columns = {name: [_cell(row.get(name)) for row in rows] for name in names}
    found = predict_columns(columns, len(rows), model)
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _cell(value: Any) -> str:
    return "" if value is None or str(value) == "nan" else str(value)
