"""The public table of A/B runs with a card a row: `| Card | Baseline | With flag | n-max |`."""

import re
from collections.abc import Iterator

from advisor.readers.results.document import Document
from advisor.readers.results.fields import plain_number
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency
from advisor.readers.results.tables import tables_under

FORMAT = "card-table"
_HEAD = re.compile(r"^ *\| *Card *\| *Baseline *\| *With [^|\n]{1,20}\| *n-max *\|.*$", re.M | re.I)


def matches(doc: Document) -> bool:
    """Whether the text has such a table."""
    return not doc.values and _HEAD.search(doc.text) is not None


def read(doc: Document) -> list[BenchmarkRun]:
    """Two runs a row, without speculation and with it."""
    rows = (row for _, table in tables_under(doc.text, _HEAD) for row in table)
    return [run for number, row in enumerate(rows, 1) for run in _pair(doc, number, row)]


def _pair(doc: Document, number: int, row: dict[str, str]) -> Iterator[BenchmarkRun]:
    named = {name.lower(): cell.strip() for name, cell in row.items()}
    card, off, on, k = list(named.values())[:4]
    speeds, drafts = [plain_number(off), plain_number(on)], plain_number(k)
    if not drafts or not all(speeds):
        return
    rate = plain_number(named.get("acceptance", ""))
    accepted = Acceptance(rate=rate) if rate is not None and rate <= 1 else None
    for side, speed in zip(("off", "on"), speeds, strict=True):
        yield BenchmarkRun(
            file=doc.name, format=FORMAT, sha256=doc.sha256, client="table",
            part=f"row {number}, {side}", hardware=card, k=round(drafts) if side == "on" else 0,
            method="none" if side == "off" else None, request_tok_s=speed,
            tpot_ms=Latency(mean=1e3 / speed) if speed else None,
            acceptance=accepted if side == "on" else None,
            notes=("a table as people write it: what it does not say is not known",),
        )  # fmt: skip
