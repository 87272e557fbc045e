"""Why runs of one point differ: how fast the host's cores were while the points of the eighth run were timed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from advisor.bench.markdown import table
from advisor.bench.rows import Measured

SLOW_MS = 0.9  # between the two speeds of the loop: 0.65 and 1.2 to 1.4 ms
COLUMNS = (("ttft_ms", "TTFT"), ("output_tok_s", "output tok/s"), ("tpot_ms", "TPOT"), ("decode_step_p50_ms", "decode step"))


def watched(everything: Iterable[Measured]) -> list[Measured]:
    """The points whose host was watched in full (the shares of its cores are known on Linux only)."""
    return [row for row in everything if row.get("host_loop_ms") and row.get("host_busy") is not None]


def host_text(everything: Sequence[Measured]) -> str:
    """How fast the loop ran, how busy the cores were, and what both have to do with the spread of a cell's runs."""
    found = watched(everything)
    loops = np.array([row["host_loop_ms"] for row in found])
    slow = loops > SLOW_MS
    told = (
        f"The same loop of Python took {np.median(loops[~slow]):.2f} ms before {np.sum(~slow)} of the {len(found)} points and "
        f"{np.median(loops[slow]):.2f} ms before {np.sum(slow)}, with "
        f"{100 * np.mean([row['host_busy'] for row in found]):.0f} % of all cores busy and at most "
        f"{100 * max(row['host_stolen'] for row in found):.2f} % of their time stolen."
    )
    spread = _log_spread(found)
    lines = [
        [name, f"{100 * spread[column].std():.1f}", f"{np.corrcoef(spread['host_loop_ms'], spread[column])[0, 1]:+.2f}"]
        for column, name in COLUMNS
    ]
    return told + "\n\n" + table(("figure", "spread (sd) around the cell's mean, %", "correlation with the loop"), lines)


def _log_spread(found: Sequence[Measured]) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Log of each figure less its mean over the runs of the same cell and k, of cells with two or more runs."""
    cells: dict[tuple[int, str], list[Measured]] = {}
    for row in found:
        cells.setdefault((row["k"], row["key"]), []).append(row)
    several = [runs for runs in cells.values() if len(runs) > 1]
    out = {}
    for column in ("host_loop_ms", *(name for name, _ in COLUMNS)):
        logs = [np.log([row[column] for row in runs]) for runs in several]
        out[column] = np.concatenate([each - each.mean() for each in logs])
    return out
