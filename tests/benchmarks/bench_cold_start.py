"""One recommendation, cold and warm, and `validate` of one compose file, alone and with hardware
and load, beside the bare import of our three libraries, in processor time. Ends with 1 where a
ratio is more than `MARGIN` times the recorded one (recorded.json).

    python tests/benchmarks/bench_cold_start.py [rounds] [--record]

Rounds alternate between them, so that a busy machine slows all; the ratio is of medians. Wanted
are at most 1.2 times the bare import cold, 0.7 for `validate` of a file alone, 20 ms warm, and at
most 120 MB.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BARE = "import click, pydantic, numpy"
FILE = str(ROOT / "tests" / "corpus" / "case-105.yaml")
LOAD = ("--hw", "gb10", "--concurrency", "16", "--ctx")
COMMANDS = {
    "cold_cpu": ("recommend", *LOAD, "2048"),
    "validate_cpu": ("validate", "--isolated", FILE),
    "validate_load_cpu": ("validate", "--isolated", FILE, *LOAD, "8192"),
}

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
    """What one fresh interpreter took: seconds of processor time, peak resident MB."""

    cpu_s: float
    peak_mb: float


def time_code(code: str, cache: str) -> Cost:
    """The cost of one fresh interpreter that finds its byte code in `cache`."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL, env=env
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):  # 1: `validate` has findings
        raise SystemExit(f"exit {child.returncode}: {code}")
    return Cost(used.ru_utime + used.ru_stime, peak_mb(used))


def start(*words: str) -> str:
    """Python code that does what the command itself does."""
    argv = ["advisor", *words]
    return f"import sys; from advisor.cli.app import main; sys.argv = {argv!r}; main()"


def peak_mb(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / (1024.0 if sys.platform != "darwin" else 1024.0**2)


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--record"]
    rounds = int(words[0]) if words else 15
    codes = {"bare": BARE} | {name: start(*argv) for name, argv in COMMANDS.items()}
    costs: dict[str, list[Cost]] = {name: [] for name in codes}
    warmed = []
    with tempfile.TemporaryDirectory() as cache:
        for code in codes.values():  # writes the byte code, warms the disk cache
            time_code(code, cache)
        for _ in range(rounds):
            for name, code in codes.items():
                costs[name].append(time_code(code, cache))
            warmed.append(warm_ms())
    bare = median(cost.cpu_s for cost in costs["bare"])
    ratios = {}
    for name, spent in costs.items():
        cpu, peak = median(cost.cpu_s for cost in spent), max(cost.peak_mb for cost in spent)
        title = " ".join(COMMANDS.get(name, (BARE,))).replace(f"{ROOT}/", "")
        print(f"{title:70}{cpu * 1e3:5.0f} ms {cpu / bare:6.2f} {peak:4.0f} MB")
        if name in COMMANDS:
            ratios[name] = cpu / bare
    print(f"medians of processor time over {rounds} rounds, and their ratio to the first")
    warm = median(warmed)
    print(f"a warm answer: {warm:.0f} ms of processor time, {warm / bare / 1e3:.2f} bare imports")
    judge(ratios | {"warm_cpu": warm / bare / 1e3}, "--record" in sys.argv)


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
