"""The measured runs: what a row is, how the files are read, and what makes a row or a group bad.

Under `knowledge/measurements/`: `runs/SOURCE.csv` (an arm a row), `acceptance/SOURCE.csv` (by draft
position), `sources/SOURCE.yaml` (who, when, how, hashes). Rows are superseded, never edited.
"""

import csv
import hashlib
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from advisor.domain.files import lines_safely, open_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import knowledge_dir
from advisor.domain.printable import printable
from advisor.domain.spelling import nearest
from advisor.knowledge import store as knowledge
from advisor.lab.measurements.columns import PositionAcceptance, Run

COLUMN_OF_METRIC = {
    "output_tok_s": "output_tok_s",
    "request_tok_s": "request_tok_s",
    "tpot": "tpot_ms",
    "ttft": "ttft_ms",
}
# columns that all arms of a group share
SAME = ("model", "hardware", "engine", "source_id", "concurrency", "gpu_count")
SPEEDUP_TOLERANCE = 0.015  # published ratios are rounded; a larger gap means a wrong pairing


class Problem(NamedTuple):
    """Why a row or file is rejected. `line`: 1 is the header, 0 the whole file."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class Row(NamedTuple):
    """A checked run and where it stands."""

    run: Run
    raw: dict[str, str]
    file: str
    line: int


Kind = TypeVar("Kind", bound=BaseModel)
MAX_CSV_BYTES = 512 * 2**20  # a table is held in memory


def measurements_dir() -> Path:
    """Return the folder of measured runs."""
    return knowledge_dir() / "measurements"


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_csv(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a CSV. Raises AdvisorError without a header, or UTF-8."""
    try:
        with (
            open_safely(path, MAX_CSV_BYTES) as stream,
            io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as handle,
        ):
            reader = csv.DictReader(
                lines_safely(handle, printable(path.name)),
                restkey="(beyond the header)",
                restval="",
            )
            if not reader.fieldnames:
                raise AdvisorError(
                    f"{path.name} is empty; it needs a header line with the column names."
                )
            for row in reader:
                yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{path.name} is not UTF-8 text; save it as UTF-8 CSV.") from error
    except csv.Error as error:
        raise AdvisorError(f"{path.name} is not a readable CSV ({error}).") from error


def source_files(folder: Path, part: str = "runs") -> list[Path]:
    """The CSV files of one part, in a fixed order."""
    return sorted((folder / part).glob("*.csv"))


def _parse(kind: type[Kind], raw: Mapping[str, str]) -> tuple[Kind | None, list[str]]:
    """A row's model, or None and the reasons against it."""
    try:
        return kind.model_validate(dict(raw)), []
    except ValidationError as error:
        return None, [
            "; ".join(
                f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e['input']!r})"
                for e in error.errors()
            )
        ]


def _unit_problems(run: Run) -> Iterator[str]:
    k, length, output, request = (
        run.k, run.acceptance_length, run.output_tok_s, run.request_tok_s,
    )  # fmt: skip
    if run.spec_method == "none" and k:
        yield f"k = {k} in a run without speculation"
    if k is not None and length is not None and length > k + 1.05:
        yield f"acceptance_length {length} is above k + 1 = {k + 1}"
    if k and length and run.acceptance_rate is not None:
        expected = 1 + k * run.acceptance_rate
        if abs(length / expected - 1) > 0.1:
            yield f"acceptance_length {length} is not 1 + k * acceptance_rate = {expected:.2f}"
    if run.speedup is not None and run.speedup_metric is None:
        yield "speedup without speedup_metric"
    if run.tpot_ms and request and not 0.2 < run.tpot_ms * request / 1000 < 5:
        yield f"tpot_ms {run.tpot_ms} and request_tok_s {request} disagree: wrong unit?"
    if run.tpot_ms and run.itl_p99_ms and run.itl_p99_ms < run.tpot_ms / 3:
        yield f"itl_p99_ms {run.itl_p99_ms} is far below tpot_ms {run.tpot_ms}: wrong unit?"
    slots = run.concurrency or 0
    if output and request and slots and output > 3 * slots * request:
        yield "output_tok_s is above 3 x concurrency x request_tok_s: wrong unit or wrong column?"
    if run.use == "train" and run.use_why == "":
        yield "use=train without use_why"


def ratio(arm: Run, off: Run, metric: str) -> float | None:
    """Speed-up of `arm` (above 1 is faster, times inverted), None where a value is missing."""
    on, base = (getattr(run, COLUMN_OF_METRIC[metric]) for run in (arm, off))
    if not on or not base:
        return None
    return float(base / on if metric in ("tpot", "ttft") else on / base)


def group_problems(rows: Sequence[Row]) -> list[Problem]:
    """Check a group's arms: one baseline, the same setting, a speed-up that the arms give."""
    plain = [row for row in rows if row.run.spec_method == "none"]
    if not plain:
        return []
    off = plain[0].run
    twice = f"group {off.group_id} has two baselines ({off.run_id})"
    out = [Problem(extra.file, extra.line, twice) for extra in plain[1:]]
    for row in (row for row in rows if row.run.spec_method != "none"):
        run = row.run
        reasons = [
            f"{name} differs from {off.run_id}, the group's run without speculation"
            for name in SAME
            if getattr(run, name) != getattr(off, name)
        ]
        metric = run.speedup_metric
        value = ratio(run, off, metric) if metric else None
        if value and run.speedup and abs(math.log(value / run.speedup)) > SPEEDUP_TOLERANCE:
            reasons.append(f"speedup {run.speedup} but the runs give {value:.4f} ({metric})")
        out += [Problem(row.file, row.line, reason) for reason in reasons]
    return out


class KnownIds(NamedTuple):
    """The ids that rows may use, where any is listed; `unknown...` always passes."""

    hardware: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


ANY_ID = KnownIds()


def known_ids() -> KnownIds:
    """The ids of the knowledge folder."""
    return KnownIds(frozenset(knowledge.hardware_ids()), frozenset(knowledge.llm_ids()))


def _id_problems(run: Run, known: KnownIds) -> Iterator[str]:
    for kind, name, ids in zip(
        ("hardware", "model"), (run.hardware, run.model), known, strict=True
    ):
        if ids and name not in ids and not name.startswith("unknown"):
            near = nearest(name, ids, "id", 2)
            yield f"unknown {kind} id {name!r}" + (f"; nearest: {', '.join(near)}" if near else "")


def read_table(
    path: Path, name: str, known: KnownIds, more: Callable[[Run, int], Iterable[str]]
) -> tuple[list[Row], list[Problem]]:
    """The good rows of one table of runs, and every problem of its rows; `more` says what else
    stands against the run of a line.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    for line, raw in read_csv(path):
        run, reasons = _parse(Run, raw)
        if run:
            reasons = [*_unit_problems(run), *_id_problems(run, known), *more(run, line)]
        problems += [Problem(name, line, each) for each in reasons]
        if run and not reasons:
            rows.append(Row(run, raw, name, line))
    return rows, problems


def read_runs(folder: Path, known: KnownIds = ANY_ID) -> tuple[list[Row], list[Problem]]:
    """All good runs of a measurements folder, and every problem of its rows and groups."""
    rows: list[Row] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for path in source_files(folder):
        name = f"runs/{path.name}"

        def more(run: Run, line: int, path: Path = path, name: str = name) -> Iterator[str]:
            if run.source_id != path.stem:
                yield f"source_id {run.source_id!r} in the file of {path.stem!r}"
            if run.run_id in seen:
                yield f"run_id {run.run_id!r} is already in {seen[run.run_id]}"
            seen[run.run_id] = f"{name}:{line}"

        table, bad = read_table(path, name, known, more)
        rows += table
        problems += bad
    for group in by_group(rows).values():
        problems += group_problems(group)
    return rows, problems


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by group id, in order."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row.run.group_id, []).append(row)
    return out


def read_acceptance(folder: Path) -> tuple[list[PositionAcceptance], list[Problem]]:
    """All acceptance rows, and every problem found in them."""
    rows: list[PositionAcceptance] = []
    problems: list[Problem] = []
    for path in source_files(folder, "acceptance"):
        name = f"acceptance/{path.name}"
        for line, raw in read_csv(path):
            row, reasons = _parse(PositionAcceptance, raw)
            if row and row.source_id != path.stem:
                reasons = [f"source_id {row.source_id!r} in the file of {path.stem!r}"]
            problems += [Problem(name, line, reason) for reason in reasons]
            rows += [row] if row else []
    return rows, problems
