"""One recommendation, cold and warm, beside the bare import of its three libraries, in processor
time. Ends with 1 where a ratio is more than `MARGIN` times the recorded one (recorded.json).

    python tests/benchmarks/bench_cold_start.py [rounds] [--record]

Rounds alternate between them, so that a busy machine slows all; the ratio is of medians. Wanted
are at most 1.2 times the bare import cold, 20 ms warm, and at most 120 MB.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BARE = "import click, pydantic, numpy"
ASK = (  # as the command itself starts
    "import sys; from advisor.cli.app import main; "
    "sys.argv = ['advisor','recommend','--hw','gb10','--concurrency','16','--ctx','2048']; main()"
)


# the median of seven answers after two: processor time in ms, printed by the child itself
WARM = (
    "import time, statistics\nfrom advisor import recommend\n"
    "def once():\n"
    "    t = time.process_time(); recommend(hardware='gb10', concurrency=16, ctx_tokens=2048)\n"
    "    return time.process_time() - t\n"
    "for _ in range(2): once()\n"
    "print(1e3 * statistics.median(once() for _ in range(7)))"
)
RECORDED = Path(__file__).with_name("recorded.json")
MARGIN = 1.25


class Cost(NamedTuple):
    """What one fresh interpreter took: seconds by the clock, seconds of processor time, peak
    resident MB.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float


def time_code(code: str, cache: str) -> Cost:
    """The cost of one fresh interpreter that finds its byte code in `cache`."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    start = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL, env=env
    )
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"exit {child.returncode}: {code}")
    return Cost(seconds, used.ru_utime + used.ru_stime, peak_mb(used))


def peak_mb(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / (1024.0 if sys.platform != "darwin" else 1024.0**2)


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--record"]
    rounds = int(words[0]) if words else 15
    with tempfile.TemporaryDirectory() as cache:
        time_code(BARE, cache), time_code(ASK, cache)  # write the byte code, warm the disk cache
        bare, ask, warmed = zip(
            *((time_code(BARE, cache), time_code(ASK, cache), warm_ms()) for _ in range(rounds)),
            strict=True,
        )
    for name, costs in (
        ("bare import of click, pydantic, numpy", bare),
        ("advisor recommend, cold", ask),
    ):
        wall, cpu, peak = (
            median(c.wall_s for c in costs),
            median(c.cpu_s for c in costs),
            max(c.peak_mb for c in costs),
        )
        print(
            f"{name:40}{wall * 1000:6.0f} ms, {cpu * 1000:6.0f} ms of processor time, "
            f"{peak:4.0f} MB"
        )
    wall, cpu = (
        median(getattr(c, what) for c in ask) / median(getattr(c, what) for c in bare)
        for what in ("wall_s", "cpu_s")
    )
    print(
        f"ratio of medians over {rounds} rounds: {wall:.2f}, of processor time {cpu:.2f} (wanted: "
        f"at most 1.2; memory: 120 MB)"
    )
    warm = median(warmed)
    bare_ms = 1e3 * median(c.cpu_s for c in bare)
    print(f"a warm answer: {warm:.0f} ms of processor time, {warm / bare_ms:.2f} bare imports")
    judge({"cold_cpu": cpu, "warm_cpu": warm / bare_ms}, "--record" in sys.argv)


def warm_ms() -> float:
    """Median processor time of a warm answer, in ms."""
    done = subprocess.run(
        [sys.executable, "-c", WARM], cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return float(done.stdout)


def judge(ratios: dict[str, float], record: bool) -> None:
    """Write the ratios down, or end with 1 where one has grown beyond the margin."""
    kept = json.loads(RECORDED.read_text())
    if record:
        kept |= {name: round(value, 2) for name, value in ratios.items()}
        RECORDED.write_text(json.dumps(kept, indent=1) + "\n")
        return
    grown = [
        f"{name} is {value:.2f}, recorded {kept[name]:.2f}"
        for name, value in ratios.items()
        if value > MARGIN * kept[name]
    ]
    if grown:
        raise SystemExit(f"slower than {MARGIN} times what is recorded: {'; '.join(grown)}")


if __name__ == "__main__":
    main()
