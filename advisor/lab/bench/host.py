"""What the host did while a point was timed: eager prompt calls and small steps are bound by it,
not by the GPU.

Linux only for the shares (`/proc/stat`); elsewhere they are None. The loop works everywhere.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")
TURNS = 20_000  # of the loop: about 1 ms
TIMES = 9


class Jiffies(NamedTuple):
    """CPU time of all cores together since boot, in clock ticks."""

    busy: int  # spent by this machine's own processes
    stolen: int  # given to other virtual machines while this one wanted it
    all: int


def jiffies(text: str) -> Jiffies | None:
    """The first line of /proc/stat: user nice system idle iowait irq softirq steal ...; None where
    it is not that.
    """
    head = text.split("\n", 1)[0].split()
    if len(head) < 9 or head[0] != "cpu" or not all(word.isdigit() for word in head[1:9]):
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) for word in head[1:9])
    return Jiffies(
        user + nice + system + irq + softirq,
        steal,
        user + nice + system + idle + iowait + irq + softirq + steal,
    )


def now() -> Jiffies | None:
    """Return the processor times of this host, None where the system does not report them."""
    try:
        return jiffies(STAT.read_text())
    except OSError:
        return None


def shares(before: Jiffies | None, after: Jiffies | None) -> dict[str, float | None]:
    """Share of all cores' time between two readings that was used, and that other machines took;
    None where unknown.

    Parameters
    ----------
    before : Jiffies | None
        First reading of /proc/stat.
    after : Jiffies | None
        Second reading.

    Returns
    -------
    dict
        Shares of all cores, 0 to 1.
    """
    if before is None or after is None or after.all <= before.all:
        return {"host_busy": None, "host_stolen": None}
    span = after.all - before.all
    return {
        "host_busy": round((after.busy - before.busy) / span, 4),
        "host_stolen": round((after.stolen - before.stolen) / span, 4),
    }


def loop_ms() -> float:
    """Median time of a fixed loop of Python, ms: how fast one core is at this moment."""
    taken = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        total = 0
        for i in range(TURNS):
            total += i & 7
        taken.append(time.perf_counter() - begin)
    return round(1e3 * statistics.median(taken), 4)
