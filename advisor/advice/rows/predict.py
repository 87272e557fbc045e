"""Rows of a table that ask: a row with a result or a source was run by somebody, and what it leaves
blank is not known; one without is a question, with the defaults and the plan of `recommend`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from advisor.advice.rows.limits import with_limits
from advisor.advice.rows.words import Columns, RowWords, is_blank
from advisor.perf.encoding.cells import read_words
from advisor.prediction import predict_rows as tables
from advisor.prediction import predict_table

MOST_ROWS = 2**17  # worked out at once
# What tells that a row was run
RESULTS = (
    "run_id", "source_id", "speedup", "output_tok_s", "request_tok_s", "tpot_ms", "ttft_ms",
)  # fmt: skip


def predict(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predicted speed-ups for rows with the columns of the measurement table (`speedup_metric`
    blank: output_tok_s); one result per row, in order. Raises AdvisorError for what is no list of
    mappings.
    """
    return predict_table.predict_dicts(rows, predict_columns)


def predict_rows(source: Path, target: Path) -> tables.RowCount:
    """Predict every row of `source` into `target`; extra columns pass through, prediction columns
    are appended (or replaced). Raises AdvisorError as `tables.predict_rows` does.
    """
    return tables.predict_rows(source, target, predict_columns)


def predict_columns(columns: Columns, count: int) -> dict[str, list[Any]]:
    """The predictions as columns, for a table's columns of `count` cells; a long table part by
    part, in bounded memory.
    """
    made: dict[str, list[Any]] = {name: [] for name in predict_table.FIELDS}
    for start in range(0, count, MOST_ROWS):
        part = {name: cells[start : start + MOST_ROWS] for name, cells in columns.items()}
        for name, values in _predict_part(part, min(MOST_ROWS, count - start)).items():
            made[name] += values
    return made


def _predict_part(columns: Columns, count: int) -> dict[str, list[Any]]:
    asks = np.ones(count, dtype=bool)
    for name in RESULTS:
        asks &= is_blank(read_words(columns, name, count))
    if not asks.any():
        return predict_table.predict_columns(columns, count)
    with np.errstate(all="ignore"):
        rows = RowWords(columns, count, asks).complete()
    limit = partial(with_limits, asks=asks)
    return predict_table.predict_columns(rows.columns, count, complete=limit)
