"""Markdown tables of the bench report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A markdown table; floats with one decimal."""
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in lines:
        out.append("| " + " | ".join(f"{v:.1f}" if isinstance(v, float) else str(v) for v in line) + " |")
    return "\n".join(out)
