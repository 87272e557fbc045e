"""Tables in which people compare draft lengths or settings: Markdown, CSV or TSV with a row an arm
(`| k | tok/s | accept |`), or a column an arm.

Taken only where no client's own reader takes the text, and only the rows that say whether tokens
were drafted: by a k, or by a name ("baseline", "MTP k=3"). What a table does not say stays unknown:
model, engine, load. A speed per stream ("decode tok/s") is no throughput of the server.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import FileLayout, Row
from advisor.readers.results.run import Acceptance, BenchmarkRun
from advisor.readers.results.tables import bare_cell, plain_cell

FORMAT = "comparison-table"
MOST_ROWS, MOST_COLUMNS, MOST_LINE = 500, 60, 4000
TIMES = ("ttft", "tpot", "itl")
MOST_DRAFTS = 64  # of a step; a larger number is no k
NAME, OTHER = "name", ""
_PER_S = r"(?:tok(?:en)?s?|t) ?(?:/|per )(?:s|sec|second)"
_MEAN = r"(?:mean |avg |(median |p50 ))?"
# field -> what its column is called, in lower case without what stands in brackets
_TITLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("k", (r"#?(?:k|gamma|γ)", r"(?:mtp|spec|draft)[ -]?(?:k|n)", r"(?:spec |draft )*n[ -]?max",
           r"(?:num )?(?:speculative|spec|draft) tokens")),
    ("length", (r"(?:mean )?accept(?:ed|ance)? len(?:gth)?", r"a\.? ?len", r"al|mal|tau|τ",
                r"(?:tok(?:en)?s?|emitted) ?(?:/|per ) ?(?:step|round|verify|iteration|cycle)")),
    ("rate", (r"(?:draft |avg |mean )*accept(?:ed|ance)?(?: ?rate|%)?", r"acc(?:\.|%)?", r"rate")),
    ("each", (rf"(?:decode|generation|gen|single[- ]stream|user) (?:speed|tps|throughput|{_PER_S})",
              rf"(?:{_PER_S}|tps)(?: ?/ ?| per )(?:user|stream|request)", r"eval rate")),
    ("speed", (r"(?:total output |output |out |aggregate |agg |overall |mean |avg |median )*"
               rf"(?:{_PER_S}|tps|(?:token )?throughput(?: {_PER_S})?)",)),
    ("ttft", (rf"{_MEAN}(?:ttft|time to first token)",)),
    ("tpot", (rf"{_MEAN}(?:tpot|time per output token|ms ?(?:/|per )tok(?:en)?)",)),
    ("itl", (rf"{_MEAN}(?:itl|inter-?token latency)",)),
    ("concurrency", (r"(?:max )?conc(?:urrency|urrent)?\.?", r"streams|users|clients|slots|b|bs|c",
                     r"batch(?: size)?")),
    ("prompt", (r"(?:ctx|context|input|prompt)(?: len(?:gth)?| tokens)?", r"isl")),
    ("answer", (r"(?:output|gen|generated) (?:len(?:gth)?|tokens)", r"osl")),
)  # fmt: skip
_FIELDS = tuple((name, re.compile("|".join(f"(?:{t})" for t in texts))) for name, texts in _TITLES)
SPEEDS = frozenset(("speed", "each", "tpot mean", "tpot p50"))
_UNIT = re.compile(r"[\(\[]([^)\]]{0,30})[\)\]]")
_PLAIN = re.compile(
    r"\b(?:base(?:line)?|no[ -](?:spec\w*|mtp|draft\w*)|without|vanilla|plain|none|off|disabled|"
    r"auto-?regressive|ar|non-spec\w*)\b"
)
_METHODS = {"mtp": "mtp", "nextn": "mtp", "eagle3": "eagle3", "eagle-3": "eagle3", "eagle": "eagle",
            "dflash": "dflash", "dspark": "dspark", "ngram": "ngram",
            "n-gram": "ngram"}  # fmt: skip
_DRAFTS = re.compile(rf"\b({'|'.join(_METHODS)}|draft[ -]?model|spec\w*|draft\w*)(?=\b|[-_\d])")
_K = re.compile(
    r"(?:\b(?:k|n|num_speculative_tokens|spec(?:ulative)?[ _-]tokens|n[ _-]?max|draft[ _-]?tokens)"
    r"\s*[=: ]\s*|\b(?:mtp|nextn|eagle-?3|dflash)[ _-]?(?:k\s?=?\s?)?|\bk)(\d{1,2})\b"
)
_VALUE = re.compile(r"[~≈]?([0-9]+(?:\.[0-9]+)?)\s*(k\b)?\s*(%|ms|s|x|×|tok(?:en)?s?/s|t/s|tps)?")
_RULE = re.compile(r"[|: -]+")
Cells = list[str]


class TableArm(NamedTuple):
    """One row or column: what it is called, and its values by field, times in ms."""

    name: str
    k: int | None
    drafts: bool | None
    values: dict[str, tuple[float, ...]]  # several are repeats
    sd: float | None  # of the speed


def matches(doc: Document) -> bool:
    """Whether a table of the text compares drafts with each other or with none."""
    return not doc.values and next(_arms(doc.text), None) is not None


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per arm and repeat. Raises Unreadable where no arm says what it drafted."""
    runs = LAYOUT.runs(doc, [row for arm in _arms(doc.text) for row in _repeats(arm)])
    if not runs:
        raise Unreadable(f"{doc.name}: no row of the table says how many tokens were drafted")
    return runs


def _arms(text: str) -> Iterator[TableArm]:
    """The arms of all tables that are known to draft or not."""
    for rows in _tables(text):
        arms = [arm for arm in _rows_of(rows) or _columns_of(rows) if arm.drafts is not None]
        if any(arm.drafts for arm in arms):
            yield from arms


def _tables(text: str) -> Iterator[list[Cells]]:
    """The tables of a text, each with its header first."""
    lines = text.splitlines()
    if "|" in text:
        yield from _pipe_tables(lines)
    for number, line in enumerate(lines[:MOST_ROWS]):
        for mark in (",", "\t", ";") if "|" not in line and len(line) < MOST_LINE else ():
            head = [cell.strip().strip('"') for cell in line.split(mark)]
            if 2 <= len(head) <= MOST_COLUMNS and {_field(title)[0] for title in head} & SPEEDS:
                rows = csv.reader(lines[number + 1 : number + MOST_ROWS], delimiter=mark)
                kept = [row for row in rows if len(row) == len(head)]
                yield [head, *([plain_cell(cell, mark) for cell in row] for row in kept)]
                return


def _pipe_tables(lines: Sequence[str]) -> Iterator[list[Cells]]:
    table: list[Cells] = []
    for line in [*lines, ""]:
        bare = line.strip(" \t>")
        cells = _cells(bare) if bare.count("|") > 1 and len(bare) < MOST_LINE else []
        if cells and "-" in bare and _RULE.fullmatch(bare):
            continue
        if cells and (not table or len(cells) == len(table[0])) and len(table) < MOST_ROWS:
            table.append(cells)
            continue
        if len(table) > 1:
            yield table
        table = [cells] if cells else []


def _cells(line: str) -> Cells:
    bare = line.removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in bare.split("|")][: MOST_COLUMNS + 1]


def _field(title: str) -> tuple[str, float]:
    """What a column or row holds, and the factor of its times to ms; NAME where it is no value."""
    low = bare_cell(title).lower().replace("_", " ").strip(" :")
    unit = _UNIT.search(low)
    inside = unit[1].strip() if unit else ""
    plain = " ".join(_UNIT.sub(" ", low).replace("mean/std", " ").split())
    for name, pattern in _FIELDS:
        match = pattern.fullmatch(plain)
        if match or (name == "speed" and pattern.fullmatch(f"{plain} {inside}")):
            statistic = (" p50" if match and match[1] else " mean") if name in TIMES else ""
            return name + statistic, 1e3 if inside in ("s", "sec", "seconds") else 1.0
    return NAME, 1.0


def _rows_of(rows: Sequence[Cells]) -> list[TableArm]:
    """The arms of a table with a row each; none where its header has no speed. What an arm is
    called stands before its values; notes behind them are no name.
    """
    fields = [_field(title) for title in rows[0]]
    if not {name for name, _ in fields} & SPEEDS:
        return []
    first = next(i for i, (name, _) in enumerate(fields) if name != NAME)
    for i, (name, _) in enumerate(fields):
        if name == NAME and i > first:
            fields[i] = (OTHER, 1.0)
    deviations = ["mean/std" in title.lower() for title in rows[0]]
    return [_arm(row, fields, deviations) for row in rows[1:]]


def _columns_of(rows: Sequence[Cells]) -> list[TableArm]:
    """The arms of a table with a column each; none where no row is a speed."""
    labels = [_field(row[0]) for row in rows[1:]]
    if not {name for name, _ in labels} & SPEEDS:
        return []
    fields = [(NAME, 1.0), *((OTHER if name == NAME else name, scale) for name, scale in labels)]
    return [
        _arm([title, *(row[at] for row in rows[1:])], fields, [False] * len(fields))
        for at, title in enumerate(rows[0][1:], 1)
    ]


def _arm(
    cells: Sequence[str], fields: Sequence[tuple[str, float]], deviations: Sequence[bool]
) -> TableArm:
    values: dict[str, tuple[float, ...]] = {}
    names = []
    k_cell = sd = None
    for cell, (field, scale), deviates in zip(cells, fields, deviations, strict=False):
        text = bare_cell(cell)
        numbers = _values(text)
        if field == NAME and not numbers:
            names.append(text)
        elif field == "k":
            k_cell = text
        elif field not in (NAME, OTHER) and field not in values and numbers:
            if (deviates and len(numbers) == 2) or "±" in text:
                sd, numbers = numbers[-1] if field == "speed" else sd, numbers[:1]
            percent = "%" in text and field == "rate"
            values[field] = tuple(v * scale / (100 if percent else 1) for v in numbers)
    name = " ".join(filter(None, names))
    return TableArm(name[:80], *drafts_of(name, k_cell), values, sd)


def _values(text: str) -> tuple[float, ...]:
    """The numbers of a cell: one, one and its deviation, or repeats ("116.9 / 120.7"); what stands
    in brackets, and ratios, are none.
    """
    parts = re.split(r"\s*(?:/(?!s)|±|\+/-)\s*", _UNIT.sub(" ", text).strip().rstrip("%").strip())
    matches = [_VALUE.fullmatch(part.strip()) for part in parts]
    if not matches or not all(matches):
        return ()
    numbers = [one for one in matches if one is not None and one[3] not in ("x", "×")]
    return tuple(float(one[1]) * (1e3 if one[2] else 1.0) for one in numbers)


def drafts_of(name: str, k_cell: str | None = None) -> tuple[int | None, bool | None]:
    """k and whether an arm drafted, from its name and the cell of its k where it has one; None for
    what they do not say.
    """
    low = name.lower()
    if k_cell is not None and re.fullmatch(r"\d{1,2}", k_cell):
        return (int(k_cell), int(k_cell) > 0) if int(k_cell) <= MOST_DRAFTS else (None, None)
    if k_cell is not None and (_PLAIN.search(k_cell.lower()) or not (k_cell or name)):
        return 0, False
    if k_cell is None and (k := _K.search(low)):
        return int(k[1]), int(k[1]) > 0
    return (0, False) if _PLAIN.search(low) else (None, True if _DRAFTS.search(low) else None)


def _repeats(arm: TableArm) -> Iterator[Row]:
    """The values of each repeat; what is stated once is that of all."""
    count = max((len(arm.values.get(name, ())) for name in SPEEDS), default=0)
    word = _DRAFTS.search(arm.name.lower())
    label = f"k={arm.k}" if not arm.name and arm.k is not None else arm.name
    for i in range(count):
        row: dict[str, Any] = {
            name: numbers[i] if len(numbers) == count else sum(numbers) / len(numbers)
            for name, numbers in arm.values.items()
        }
        if "each" in row and not row.keys() & {"tpot mean", "tpot p50"} and row["each"]:
            row["tpot mean"] = 1e3 / row["each"]
        method = "none" if arm.drafts is False else _METHODS.get(word[1]) if word else None
        part = f"{label}, run {i + 1}" if count > 1 else label
        yield row | {"k": arm.k, "method": method, "drafts": arm.drafts, "sd": arm.sd, "part": part}


def _finish(run: BenchmarkRun, row: Row) -> Row:
    notes = ["a table as people write it: what it does not say is not known"]
    if "each" in row and "speed" not in row and run.concurrency in (None, 1):
        notes.append("the speed is of one stream after its first token")
    return {"part": row["part"], "notes": tuple(notes), "acceptance": _acceptance(run.k, row)}


def _acceptance(k: int | None, row: Row) -> Acceptance | None:
    """Of an arm that drafted; a "rate" above 1 is a length where it can be one, else in percent."""
    length, rate = row.get("length"), row.get("rate")
    if not row["drafts"]:
        return None
    if rate is not None and rate > 1:  # in percent without its sign, or a length
        is_length = k is not None and rate <= k + 1 and length is None
        length, rate = (rate, None) if is_length else (length, rate / 100)
    length = length if length is not None and 1 <= length <= (k or MOST_DRAFTS) + 1 else None
    rate = rate if rate is not None and 0 <= rate <= 1 else None
    stated = length is not None or rate is not None
    return Acceptance(length=length, rate=rate) if stated else None


LAYOUT = FileLayout(
    format=FORMAT,
    client="table",
    fields={
        "k": "k", "method": "method", "concurrency": "concurrency", "input_tokens": "prompt",
        "output_tokens": "answer", "output_tok_s": "speed", "request_tok_s": "each",
        "output_tok_s_sd": "sd",
    },
    times={f"{name}_ms": f"{name} {{}}" for name in TIMES},
    words={"mean": "mean", "p50": "p50"},
    finish=_finish,
)  # fmt: skip
