"""Tables of equal columns for a terminal, cells wrapped within them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from advisor.advice.explore.values import Within
from advisor.render.layout import MIN_WIDTH, Paper, number

Rows = list[tuple[str, ...]]


def within_lines(within: Sequence[Within], paper: Paper) -> list[str]:
    """Users within the objectives, a line an arm."""
    rows: Rows = [("arm", "users", "P", "with 90 %")]
    for one in within:
        rows.append(
            (
                f"k={one.k}" if one.k else "none",
                number(one.likely) if one.likely else "0",
                f"{one.p:.2f}" if one.p is not None else "-",
                number(one.sure) if one.sure else "0",
            )
        )
    return columns(rows, paper)


def columns(rows: Rows, paper: Paper) -> list[str]:
    """Columns of equal width where they fit, cells wrapped within them."""
    count = len(rows[0])
    first = max(len(row[0]) for row in rows)
    room = max((paper.width - first - 2 * (count - 1)) // (count - 1), 12)
    widths = [min(max(len(row[i]) for row in rows), room) for i in range(1, count)]
    lines = []
    for row in rows:
        cells = [Paper(width=MIN_WIDTH).wrap(row[0])]
        cells += [_cut(cell, width) for cell, width in zip(row[1:], widths, strict=True)]
        for at in range(max(len(cell) for cell in cells)):
            parts = [cell[at] if at < len(cell) else "" for cell in cells]
            line = parts[0].ljust(first)
            line += "".join("  " + p.ljust(w) for p, w in zip(parts[1:], widths, strict=True))
            lines.append(line.rstrip())
    return lines


def _cut(text: str, width: int) -> list[str]:
    """A cell in lines of at most `width`; long words are cut, as nothing here is pasted."""
    return textwrap.wrap(text, width) or [""]
