"""A CSV of rows in, the same rows with predictions out: one row per row, in order, in bounded memory."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from advisor import predictor
from advisor.types import AdvisorError

BATCH = 4096
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


class Done(NamedTuple):
    rows: int
    errors: int


def predict_rows(source: Path, target: Path) -> Done:
    """Predict every row of `source` into `target`; extra columns pass through, prediction columns are appended (or replaced).

    Raises AdvisorError where the input has no header or is not UTF-8 text, or where the output cannot be written.
    """
    if source.resolve() == target.resolve():
        raise AdvisorError("--out is the input itself; write to another file.")
    try:
        with (
            source.open(newline="", encoding="utf-8-sig") as handle,
            target.open("w", newline="", encoding="utf-8") as out,
        ):
            return _stream(handle, out)
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{source.name} is not UTF-8 text; save it as UTF-8 CSV.") from error
    except csv.Error as error:
        raise AdvisorError(f"{source.name} is not a readable CSV ({error}).") from error
    except OSError as error:
        raise AdvisorError(f"cannot read {source.name} or write {target.name}: {error.strerror}.") from error


def _stream(handle: TextIO, out: TextIO) -> Done:
    reader = csv.reader(handle)
    header = next(reader, None)
    if not header:
        raise AdvisorError("the input is empty; it needs a header line with the column names.")
    names = [name.strip() for name in header]
    kept = [i for i, name in enumerate(names) if name not in predictor.FIELDS]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(header[i] for i in kept), *predictor.FIELDS])
    rows = errors = 0
    for batch in _batches(reader):
        texts = [dict(zip(names, [*row, *[""] * (len(names) - len(row))], strict=False)) for row in batch]
        found = predictor.predict_dicts(texts)
        for row, made in zip(batch, found, strict=True):
            cells = [row[i] if i < len(row) else "" for i in kept]
            writer.writerow([*cells, *("" if made[name] is None else made[name] for name in predictor.FIELDS)])
            errors += made["error"] is not None
        rows += len(batch)
    return Done(rows, errors)


def _batches(reader: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    batch: list[list[str]] = []
    for row in reader:
        if not row:
            continue  # a blank line is no row
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
