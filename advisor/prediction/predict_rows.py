"""A CSV of rows in, the same rows with predictions out: one row per row, in order, in bounded
memory.

The result is written beside its place and moved there when it is complete, so that a failure leaves
an earlier one alone.
"""

import csv
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from advisor.domain.files import MAX_LINE, lines_safely, open_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import csv_cell, printable
from advisor.domain.sourced import sourced
from advisor.domain.spelling import nearest_word
from advisor.knowledge import store as knowledge
from advisor.prediction import predict_table

BATCH = 32768  # rows read at once  # pragma: no mutate
SHOWN_NAMES = sourced(5, "names", "own choice: as much as a terminal shows at a glance", "chosen")
LONGEST, MOST_COLUMNS = sourced((40, 20), "letters, columns", "slips looked for", "chosen")
UNKNOWN = "unknown"  # hardware of which nothing is known
STANDARD_OUTPUT = Path("/dev/stdout")
MODEL_COLUMNS = ("model", "total_params_b")
_DELIMITERS = {";": "';'", "\t": "a tab", "|": "'|'"}
csv.field_size_limit(MAX_LINE)


class RowCount(NamedTuple):
    """How many rows were predicted, and how many of them have an error."""

    rows: int
    errors: int
    first: str | None = None  # the first row's error, of those with one
    strange: tuple[str, ...] = ()  # hardware that nobody knows, misspelt columns


def predict_rows(
    source: Path, target: Path, columns: predict_table.PredictColumns | None = None
) -> RowCount:
    """Predict every row of `source` into `target`; extra columns pass through, prediction columns
    are appended (or replaced). `columns` predicts a table's columns.

    Raises AdvisorError where the input has no usable header or is not UTF-8 text, or where the
    output cannot be written; a file at `target` is then as it was.
    """
    try:
        if target.is_file() and source.samefile(target):
            raise AdvisorError("--out is the input itself; write to another file.")
        with (
            open_safely(source) as stream,
            TextIOWrapper(stream, encoding="utf-8-sig", newline="") as handle,
        ):
            reader = csv.reader(lines_safely(handle, printable(source.name)))
            # blank lines before it are passed over
            header = TableHeader(next((row for row in reader if row), []))
            return _write(
                target,
                lambda out: _stream(reader, header, out, columns or predict_table.predict_columns),
            )
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{source.name} is not UTF-8 text; save it as UTF-8 CSV.") from error
    except csv.Error as error:
        raise AdvisorError(f"{source.name} is not a readable CSV ({error}).") from error
    except BrokenPipeError:  # nobody reads any more
        raise
    except OSError as error:
        what = f"read {source.name}" if error.filename == str(source) else f"write {target.name}"
        raise AdvisorError(f"cannot {what}: {error.strerror}.") from error


def is_stream(target: Path) -> bool:
    """Whether a target is written to as it stands: a pipe, a device or standard output."""
    return any(
        target.absolute().is_relative_to(name)
        for name in ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc")
    ) or (target.exists() and not target.is_file())


def _write(target: Path, fill: Callable[[TextIO], RowCount]) -> RowCount:
    """Let `fill` write the target: a stream directly, a file elsewhere, moved when complete."""
    if target == STANDARD_OUTPUT:
        return _write_standard_output(fill)
    # a link stays, what it leads to is replaced
    place = target if is_stream(target) else target.resolve()
    old = place.exists()
    if is_stream(target) or (old and not os.access(place.parent, os.W_OK)):
        with place.open("w", newline="", encoding="utf-8") as out:
            return fill(out)
    if old and not os.access(place, os.W_OK):
        raise AdvisorError(f"{target.name} is write-protected; name another file with --out.")
    part = place.with_name(f".advisor-{os.urandom(6).hex()}.part")
    try:
        with part.open("x", newline="", encoding="utf-8") as out:
            done = fill(out)
        if old:
            part.chmod(stat.S_IMODE(place.stat().st_mode))
        part.replace(place)
    except BaseException:  # an interrupt as well
        part.unlink(missing_ok=True)
        raise
    return done


def _write_standard_output(fill: Callable[[TextIO], RowCount]) -> RowCount:
    """To standard output as it is open: opening its device anew would empty an appended file."""
    try:
        number = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # not a file: a caller's own stream
        return fill(sys.stdout)
    sys.stdout.flush()
    with os.fdopen(number, "w", newline="", encoding="utf-8") as out:
        return fill(out)


class TableHeader:
    """The first line: which cell is which column, in any case; the exact name goes first."""

    def __init__(self, cells: list[str]) -> None:
        if not cells:
            raise AdvisorError("the input is empty; it needs a header line with the column names.")
        names = [cell.strip() for cell in cells]
        self.width = len(names)
        self.columns: dict[str, int] = {}
        for i, name in enumerate(names):
            if name == name.lower() or name.lower() not in self.columns:
                self.columns[name.lower()] = i
        self.columns = predict_table.with_same(self.columns)
        _check(cells, self.columns)
        self.kept = [i for i, name in enumerate(names) if name.lower() not in predict_table.FIELDS]
        self.line = [*(csv_cell(cells[i]) for i in self.kept), *predict_table.FIELDS]

    def turn(self, batch: list[list[str]]) -> list[tuple[str, ...]]:
        """The columns of a batch; what a short row lacks is empty."""
        found = list(islice(zip_longest(*batch, fillvalue=""), self.width))
        return found + [("",) * len(batch)] * (self.width - len(found))


def _check(cells: list[str], columns: dict[str, int]) -> None:
    """Raise AdvisorError where columns are missing without which no row can be predicted."""
    models = " or ".join(MODEL_COLUMNS)
    lacking = "" if any(name in columns for name in MODEL_COLUMNS) else models
    lacking = lacking or ("" if "spec_method" in columns else "spec_method")
    if not lacking:
        return
    other = next(
        (word for mark, word in _DELIMITERS.items() if len(cells) == 1 and mark in cells[0]), ""
    )
    why = f"it looks separated by {other}" if other else f"spec_method and {models} are needed"
    why = "it looks like JSON" if cells[0].lstrip().startswith(("{", "[")) else why
    raise AdvisorError(
        f"the header has no column {lacking} ({why}); name the columns in the first line, "
        f"separated by commas."
    )


def _stream(
    reader: Iterator[list[str]],
    header: TableHeader,
    out: TextIO,
    columns: predict_table.PredictColumns,
) -> RowCount:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header.line)
    rows = errors = 0
    first: str | None = None
    known = (*predict_table.READ_HERE, *predict_table.FIELDS)
    new = [name for name in header.columns if name not in known and len(name) <= LONGEST]
    near = {name: nearest_word(name, known, "setting") for name in new[:MOST_COLUMNS]}
    say = "column {} is not read: is {} meant?".format
    strange = {a: say(printable(a), b) for a, b in near.items() if b and b not in header.columns}
    for batch in _batches(reader):
        cells = header.turn(batch)
        found = columns({name: cells[i] for name, i in header.columns.items()}, len(batch))
        kept = [_safe(cells[i]) for i in header.kept]
        made = [_safe(found[name]) for name in predict_table.FIELDS]  # None stays empty
        writer.writerows(zip(*kept, *made, strict=True))
        wrong = [error for error in found["error"] if error is not None]
        errors += len(wrong)
        first = first or next(iter(wrong), None)
        rows += len(batch)
        hardware = cells[header.columns["hardware"]] if "hardware" in header.columns else ("",)
        for name in {*hardware} - {*strange}:
            if len(strange) < SHOWN_NAMES and (wrong_name := _strange(name)):
                strange[name] = wrong_name
    return RowCount(rows, errors, first, tuple(strange.values()))


def _strange(name: str) -> str | None:
    """Why a name says no hardware; None where it says one or the cell is empty."""
    try:
        knowledge.hardware(name.strip() or UNKNOWN)
    except AdvisorError as error:
        return f"{printable(str(error))}; its rows are predicted as unknown hardware"
    return None


def _safe(column: Sequence[Any]) -> Iterator[Any]:
    """A column's cells as written, each spelling looked at once; errors may quote them."""
    written = {value: csv_cell(value) for value in {*column} if isinstance(value, str)}
    return map(written.get, column, column) if written else iter(column)


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
