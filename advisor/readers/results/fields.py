"""The engine of the clients' JSON: a client is a `FileLayout`, which declares where each field
stands and in what unit. A place is keys joined by " > "; of several the first with a value counts;
"{}" stands for the client's word of a statistic.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    EngineName,
    Kind,
    Latency,
    Number,
    finite,
    per_request,
)

Place = str | tuple[str, ...]
Row = Mapping[str, Any]
TEXTS = frozenset(
    ("client_version", "date", "engine_version", "model", "method", "hardware", "dataset")
)
COUNTS = frozenset(("k", "slots", "seed", "requests", "failed", "repeats"))
# unit -> factor to ms; percent to a share
UNITS = {
    "s": 1e3, "sec": 1e3, "s/token": 1e3, "ms": 1.0, "ms/token": 1.0, "us": 1e-3, "ns": 1e-6,
    "%": 0.01, "percent": 0.01,
}  # fmt: skip
BY_MEANS = "TPOT from the means of latency, TTFT and tokens: "
_NUMBERS = TypeAdapter(dict[str, Number])
_LISTS = TypeAdapter(dict[str, list[float]])


@dataclass(frozen=True)
class FileLayout:
    """How one client writes a run: its marks, the places of its fields, what always holds."""

    format: str
    client: str
    fields: Mapping[str, Place]
    marks: tuple[str, ...] = ()  # places that each load of its JSON has
    lacks: tuple[str, ...] = ()  # and has not
    loads: Callable[[dict[str, Any]], Iterable[Row]] | None = (
        None  # of an object; itself where None
    )
    word: str = "run"  # what a load is called
    totals: Mapping[str, Place] = field(default_factory=dict)  # over all requests
    times: Mapping[str, Place] = field(default_factory=dict)
    words: Mapping[str, Place] = field(default_factory=dict)  # statistic -> the client's word
    acceptance: Mapping[str, Place] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)  # field -> factor to the run's unit
    ms: float = 1.0  # factor of the times to ms
    engine: EngineName | None = None
    kind: Kind = "serving"
    notes: tuple[str, ...] = ()
    needs: str = ""  # a field without which nothing was measured
    each: Callable[[Row], Row] | None = None  # the times of each request, ms
    # the fields that follow from several; None where a load is no run
    finish: Callable[[BenchmarkRun, Row], Mapping[str, Any] | None] | None = None

    def matches(self, doc: Document) -> bool:
        """Whether all objects of the document hold loads of this client."""
        by_object = [list(self.loads(row)) if self.loads else [row] for row in doc.objects]
        return bool(by_object) and all(
            rows and all(map(self._is_marked, rows)) for rows in by_object
        )

    def _is_marked(self, row: Row) -> bool:
        has = all(has_place(row, mark) for mark in self.marks)
        return has and not any(has_place(row, mark) for mark in self.lacks)

    def read(self, doc: Document) -> list[BenchmarkRun]:
        """One run a load. Raises Unreadable or ValidationError."""
        rows = doc.objects
        loads = [load for row in rows for load in self.loads(row)] if self.loads else rows
        return self.runs(doc, loads)

    def runs(self, doc: Document, rows: Iterable[Row], word: str = "") -> list[BenchmarkRun]:
        """One run a row, as `read`."""
        runs = []
        for part, row in parts_of(rows, word or self.word):
            run = self._run(doc, row, part)
            update = self.finish(run, row) if self.finish else {}
            if update is None:
                continue
            run = run.model_copy(update=update)
            if self.needs and not getattr(run, self.needs):
                place = _each(self.fields.get(self.needs, self.needs))[0]
                raise Unreadable(f"{doc.name}: {self.format}: no {place} is stated; cut off?")
            runs.append(run)
        return runs

    def _run(self, doc: Document, row: Row, part: str) -> BenchmarkRun:
        fields: dict[str, Any] = {}
        values = self.each(row) if self.each else {}
        for name, place in self.fields.items():
            fields[name] = text_at(row, place) if name in TEXTS else self.number(row, name)
        for name, place in self.totals.items():
            if fields.get(name) is None:
                fields[name] = per_request(number_at(row, place), fields.get("requests"))
        for name in self.times:
            fields[name] = self.time(row, name, values.get(name, ()))
        if self.acceptance:
            fields["acceptance"] = self.acceptance_of(doc, row)
        return BenchmarkRun(
            file=doc.name, sha256=doc.sha256, format=self.format, client=self.client, part=part,
            kind=self.kind, engine=self.engine, notes=self.notes, **fields,
        )  # fmt: skip

    def number(self, row: Row, name: str) -> float | None:
        """A field's number in the run's unit."""
        value = number_at(row, self.fields[name], self.scale.get(name, 1.0))
        return round(value) if value is not None and name in COUNTS else value

    def time(self, row: Row, name: str, values: Iterable[float] = ()) -> Latency | None:
        """A time, ms: its statistics as stated, else those of the values."""
        stated: dict[str, Any] = {}
        for statistic, words in self.words.items():
            places = tuple(
                place.format(word) for place in _each(self.times[name]) for word in _each(words)
            )
            value = number_at(row, places, self.ms * self.scale.get(name, 1.0))
            if value is not None:
                stated[statistic] = value
        measured = Latency.of(values)
        if not stated:
            return measured
        return Latency.from_statistics(**stated, values=measured.values if measured else ())

    def acceptance_of(self, doc: Document, row: Row) -> Acceptance | None:
        """What was accepted of the drafts, None where untold. Raises Unreadable above 1."""
        stated: dict[str, Any] = {
            name: number_at(row, place, self.scale.get(name, 1.0))
            for name, place in self.acceptance.items()
            if name != "by_position"
        }
        if (stated.get("rate") or 0.0) > 1:
            places = _each(self.acceptance["rate"])
            place = next(place for place in places if number_at(row, place) is not None)
            raise Unreadable(
                f"{doc.name}: {place} is {stated['rate']:.0%}: no more tokens can be accepted than "
                "were drafted"
            )
        if stated.get("length") is None and stated.get("rate") is None:
            return None
        rates = value_at(row, self.acceptance.get("by_position", ()))
        return Acceptance(**stated, by_position=rates or ())


def _each(place: Place) -> tuple[str, ...]:
    return (place,) if isinstance(place, str) else place


def value_at(row: Any, place: Place) -> Any:
    """The first value at one of the places; None where none is set."""
    for keys in _each(place):
        value = row
        for key in keys.split(" > "):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and value != "":
            return value
    return None


def has_place(row: Any, place: str) -> bool:
    """Whether there is a value at a place, if only a null."""
    *above, last = place.split(" > ")
    parent = value_at(row, " > ".join(above)) if above else row
    return isinstance(parent, Mapping) and last in parent


def number_at(row: Any, place: Place, scale: float = 1.0) -> float | None:
    """The first number at one of the places. Raises ValidationError, which names the place."""
    for keys in _each(place):
        value = finite(value_at(row, keys))
        if value is not None and not isinstance(value, bool):
            (number,) = _NUMBERS.validate_python({keys: value}).values()
            return None if number is None else number * scale
    return None


def text_at(row: Any, place: Place) -> str | None:
    """A name at one of the places."""
    value = value_at(row, place)
    return str(value) if isinstance(value, str | int | float) and value != "" else None


def part_at(row: Any, *places: str) -> dict[str, Any]:
    """The mapping at the first of the places that has one; else an empty one."""
    values = (value_at(row, place) for place in places)
    return next((value for value in values if isinstance(value, dict)), {})


def list_at(row: Any, place: Place, kind: Any = dict) -> list[Any]:
    """The items of a list that are of a kind; none where there is no list."""
    value = value_at(row, place)
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def floats_at(row: Any, place: str, scale: float = 1.0) -> list[float]:
    """The numbers of a list, by a factor; none where there is no list. Raises ValidationError."""
    values = _LISTS.validate_python({place: value_at(row, place) or []})[place]
    return [value * scale for value in values]


def in_our_unit(metric: Row, unit: str, default: float = 1.0) -> dict[str, Any]:
    """A metric's statistics in ms or as a share, by the unit that stands under the name `unit`."""
    factor = UNITS.get(str(metric.get(unit, "")).lower(), default)
    return {
        name: value * factor
        if isinstance(value, int | float) and not isinstance(value, bool)
        else value
        for name, value in metric.items()
    }


def mean_after_first(run: BenchmarkRun) -> Latency | None:
    """The time per token after the first from the means; None where one is missing."""
    whole, first = (time.mean if time else None for time in (run.e2e_ms, run.ttft_ms))
    tokens = run.output_tokens
    if not whole or not first or not tokens or tokens <= 1 or whole <= first:
        return None
    return Latency.from_statistics(mean=(whole - first) / (tokens - 1))


def parts_of(rows: Iterable[Any], word: str = "run") -> Iterator[tuple[str, Any]]:
    """Each row with the name of its part, empty where it is the only one."""
    rows = list(rows)
    for number, row in enumerate(rows, 1):
        yield f"{word} {number}" if len(rows) > 1 else "", row


def plain_number(text: Any) -> float | None:
    """A printed number without commas between thousands; None where it is none."""
    match = re.fullmatch(r"-?[0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][+-]?\d+)?", str(text).strip())
    return float(match[0].replace(",", "")) if match else None
