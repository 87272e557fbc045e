"""Cells of a measurement table: numbers, shares, yes or no, release numbers; columns of words; and
what a row says beside its columns, put into columns of its own.

Free text names the thinking mode and the backend. And an `output_tok_s` at a long prompt that is
just streams x `request_tok_s` contains no prefill: such a row is about decode speed, whatever its
column is called.
"""

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.domain.records import Record
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine
from advisor.perf.arrays import Floats, Ints
from advisor.perf.regimes.setting import Column

NAN = float("nan")
Columns = Mapping[str, Sequence[Any] | Column]  # of a table, by name; of text
_SPARSE = 8  # codes a row, up to which a table of them is quicker than sorting

MOST_DRAFTED = sourced(
    256, "tokens", "Four times the longest measured draft (64, lookups); more is a slip", "chosen"
)

# What people write into a cell that they have no number for
UNKNOWN = {"", "?", "-", "n/a", "na", "none", "null", "unknown", "auto", "default", "nan"}
_TRUE, _FALSE = {"1", "1.0", "on", "true", "yes"}, {"0", "0.0", "off", "false", "no"}
LONG_PROMPT = sourced(
    4096, "tokens", "own choice: below, both readings of a row's tok/s agree", "chosen"
)


def number(text: object) -> float:
    """A finite float from a cell, else NaN."""
    try:
        value = float(str(text).strip())
    except ValueError:
        return NAN
    return value if math.isfinite(value) else NAN


class CellReading(Record):
    """How a cell becomes a number, NaN where it says none, and what it should say."""

    wanted: str
    read: Callable[[object], float]

    def __call__(self, text: object) -> float:
        """The number of a cell, NaN where it is none of the wanted."""
        return self.read(text)


def _within(wanted: str, fits: Callable[[float], bool]) -> CellReading:
    return CellReading(wanted, lambda text: value if fits(value := number(text)) else NAN)


def _read_boolean(text: object) -> float:
    word = str(text).strip().lower()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else NAN


positive = _within("a number above 0", lambda value: value > 0)
not_negative = _within("a number of at least 0", lambda value: value >= 0)
at_least_one = _within("a number of at least 1", lambda value: value >= 1)
fraction = _within("a number from 0 to 1", lambda value: 0 <= value <= 1)
draft_tokens = _within(
    f"a whole number from 0 to {MOST_DRAFTED}",
    lambda value: 0 <= value <= MOST_DRAFTED and value == round(value),
)
boolean = CellReading("on or off", _read_boolean)

_FIRST_RELEASES, _LATER_RELEASES = sourced(
    (10560.0, 10850.0),
    "llama.cpp build",
    "Builds of the 0.1, 0.2 and later tagged releases",
    "assumed",
)


def version_number(engine: str, text: str) -> float:
    """A sortable number from a version text: 0.25.1 -> 2501, b9860 -> 9860, NaN if it does not say.

    llama.cpp counts builds, and since August 2026 releases too: 0.2 is taken as b10560, later ones
    as b10850.
    """
    release = re.match(r"[v~]?(\d{1,9})\.(\d{1,9})(?!\d)(?:\.(\d{1,9})(?!\d))?", text.strip())
    if release and not gguf_engine(engine):
        major, minor, patch = (int(part or 0) for part in release.groups())
        return float((major * 100 + minor) * 100 + patch)
    if built := re.search(r"\bb(\d{3,6})\b", text):
        return float(built[1])
    if release and int(release[1]) == 0:
        return _FIRST_RELEASES if int(release[2]) <= 2 else _LATER_RELEASES
    return NAN


def normal(text: object) -> str:
    """A cell's word: trimmed, in small letters."""
    return str(text or "").strip().lower()


def group_same(values: Sequence[Any], keys: Sequence[Hashable] | None = None) -> Column:
    """Values of which many are the same, by their keys or by themselves."""
    keys = values if keys is None else keys
    # a column often says one thing throughout, which is found out many times faster
    if len(keys) and keys.count(keys[0]) == len(keys):
        return Column(values[:1], np.zeros(len(keys), dtype=np.int64))
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    of_key = {} if keys is values else dict(zip(reversed(keys), reversed(values), strict=True))
    return Column([of_key.get(key, key) for key in place], codes)


def read_words(columns: Columns, name: str, count: int) -> Column:
    """A column of a table as text, read once where it comes as such; empty where there is none
    (N,).
    """
    cells = columns.get(name)
    if isinstance(cells, Column):
        return cells
    if not cells:
        return Column([""], np.zeros(count, dtype=np.int64))
    column = group_same(cells)
    return Column(["" if cell is None else str(cell) for cell in column.distinct], column.codes)


def together(columns: Sequence[Column], read: Callable[..., float]) -> Floats:
    """`read` of the words of several columns, once per distinct combination (N,)."""
    first, which = distinct_rows([column.codes for column in columns])
    made = [read(*(c.distinct[c.codes[i]] for c in columns)) for i in first.tolist()]
    return np.array(made, dtype=np.float64)[which]


def distinct_rows(columns: Sequence[npt.NDArray[Any]]) -> tuple[Ints, Ints]:
    """Where each distinct combination of several columns (N,) stands first (D,), and which of them
    each row has (N,). Columns are numbers, or codes from 0 on; NaN is one value. np.unique takes
    several times as long for rows.
    """
    joined, most = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns if len(joined) else ():
        codes = column
        if column.dtype.kind == "f":
            if (column == column[0]).all() or np.isnan(column).all():
                continue
            codes = np.unique(column, return_inverse=True)[1]
        width = int(codes.max()) + 1
        if most * width > _SPARSE * len(joined):
            first, joined = _number(joined, most)
            most = len(first)
        joined, most = joined * width + codes, most * width
    return _number(joined, most)


def _number(codes: Ints, most: int) -> tuple[Ints, Ints]:
    """Where each distinct code below `most` stands first (D,), and which of them each is (N,)."""
    if most > _SPARSE * len(codes):
        _, where, which = np.unique(codes, return_index=True, return_inverse=True)
        return where, which
    first = np.full(most, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    here = first >= 0
    return first[here], (np.cumsum(here) - 1)[codes]


# Columns that are read or written here
READ = (
    "notes", "thinking", "spec_extra", "speedup_metric", "output_tok_s", "request_tok_s",
    "concurrency", "input_tokens",
)  # fmt: skip

_BACKENDS = ("vulkan", "rocm", "hip")

_SAME = sourced(
    0.03, "share", "Gap up to which output tok/s is streams x request tok/s: replicates", "measured"
)

_NO_PREFILL = ("pd disaggregation", "disaggregated prefill")


def row_text(row: Mapping[str, str]) -> dict[str, str]:
    """A copy of the row with thinking mode, backend and real metric where they are read."""
    raw = dict(row)
    notes = (raw.get("notes") or "").lower()
    if not (raw.get("thinking") or "").strip():
        off = ("nonthinking", "non-thinking", "thinking off", "no thinking")
        if "thinking" in notes:
            raw["thinking"] = "0" if any(word in notes for word in off) else "1"
    extra = raw.get("spec_extra") or ""
    words = [word for word in _BACKENDS if word in notes and word not in extra.lower()]
    if words:
        raw["spec_extra"] = f"{extra} {words[0]}".strip()
    if (raw.get("speedup_metric") or "").strip().lower() == "output_tok_s" and decode_only(raw):
        raw["speedup_metric"] = "request_tok_s"
    return raw


def decode_only(row: Mapping[str, str]) -> bool:
    """Whether output tok/s has no prefill in it: said so, or streams times a stream's speed."""
    if any(word in (row.get("notes") or "").lower() for word in _NO_PREFILL):
        return True
    try:
        total, each, streams = (
            float(row.get(name) or "") for name in ("output_tok_s", "request_tok_s", "concurrency")
        )
    except ValueError:
        return False
    prompt = row.get("input_tokens") or "0"
    # for short prompts both readings agree
    long_prompt = prompt.strip().isdigit() and int(prompt) >= LONG_PROMPT
    return long_prompt and each * streams > 0 and abs(total / (each * streams) - 1) <= _SAME
