"""What a step-cost sweep and its workers agree on: lines of the log, rows, what is left."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.lab.bench.machine import Meter

IMPORTED = "IMPORTED"  # the log line that says that vLLM is imported
BOOT = "BOOT "  # starts the log line that says the engine serves
WARM = "WARM "  # and the one that says that every shape ran once
LEAST_PROMPTS = 12  # per timed point: with fewer, one stray compilation decides the figure
JITTER = 0.5  # output lengths drawn from osl * (1 +- JITTER): equal lengths lock the arms into step
Data = dict[str, Any]  # a job, a point or a row as JSON
Todo = list[tuple[str, Data]]  # label of the turn, point


def note(*words: object) -> None:
    """A line for the log, which the sweep reads."""
    print(*words, file=sys.stderr, flush=True)


def finished_keys(path: Path, label: str) -> set[str]:
    """Keys of the points that the output already holds for this label."""
    lines = path.read_text().splitlines() if path.exists() else ()
    rows = (json.loads(line) for line in lines if line.strip())
    return {row["key"] for row in rows if row.get("label") == label}


def turn_label(label: str, turn: int) -> str:
    """The label of a start's rows when its points are taken for the `turn`-th time."""
    return label if turn == 1 else f"{label}-again{turn}"


def missing_points(job: Data, out: Path) -> Todo:
    """What the output lacks: every point once before any is taken again."""
    labels = [turn_label(job["label"], turn) for turn in range(1, job["turns"] + 1)]
    seen = {label: finished_keys(out, label) for label in labels}
    return [(label, p) for label in labels for p in job["points"] if p["key"] not in seen[label]]


def await_file(file: Path | None) -> None:
    """Wait until the file exists; exits with the process that would have made it."""
    parent = os.getppid()
    while file is not None and not file.exists():
        if os.getppid() != parent:
            sys.exit(4)
        time.sleep(0.1)


def take(
    todo: Todo, out: Path, deadline: float, base: Data, meter: Meter, run: Callable[[Data], Data]
) -> int:
    """Append a row for every point that is left before the deadline; 3 when it cut the list short.
    `run` gives a point's row, with the span (s) that it holds for.
    """
    for label, point in todo:
        if time.time() > deadline:
            note("DEADLINE before", point["key"])
            return 3
        row = run(point)
        rate = row["decode_tok_s" if "decode_tok_s" in row else "output_tok_s"]
        begin, end = row.pop("span")
        row |= meter.figures(begin, end, rate)
        with out.open("a") as sink:
            sink.write(json.dumps({**base, **point, **row, "label": label}) + "\n")
    return 0
