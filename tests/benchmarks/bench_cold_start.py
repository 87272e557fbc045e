"""One recommendation, cold and warm, and `validate` of one compose file, alone and with hardware
and load, beside the bare import of our three libraries, in processor time. Ends with 1 where a
ratio is more than `MARGIN` times the recorded one (recorded.json).

    python tests/benchmarks/bench_cold_start.py [rounds] [--record]

Rounds alternate between them, so that a busy machine slows all; the ratio is of the least times,
and more rounds are measured where it has grown (`judge`). Wanted are at most 1.2 times the bare
import cold, 0.7 for `validate` of a file alone, 0.13 warm, and at most 120 MB.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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

# the least of seven answers after two: processor time in s, printed by the child itself
WARM = (
    "import time\nfrom advisor import recommend\n"
    "def once():\n"
    "    t = time.process_time(); recommend(hardware='gb10', concurrency=16, ctx_tokens=2048)\n"
    "    return time.process_time() - t\n"
    "for _ in range(2): once()\n"
    "print(min(once() for _ in range(7)))"
)
RECORDED = Path(__file__).with_name("recorded.json")
MARGIN = 1.25
ATTEMPTS = 3  # a busy machine slows some of the rounds, a slower program all of them


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
    rounds = int(words[0]) if words else 10
    codes = {"bare": BARE} | {name: start(*argv) for name, argv in COMMANDS.items()}
    spent: dict[str, list[float]] = {name: [] for name in (*codes, "warm_cpu")}
    peaks = dict.fromkeys(codes, 0.0)

    def measure() -> dict[str, float]:
        for _ in range(rounds):
            for name, code in codes.items():
                cost = time_code(code, cache)
                spent[name].append(cost.cpu_s)
                peaks[name] = max(peaks[name], cost.peak_mb)
            spent["warm_cpu"].append(warm_s())
        ratios = least_ratios(spent)
        for name, seconds in spent.items():
            title = " ".join(COMMANDS.get(name, (name,))).replace(f"{ROOT}/", "")
            peak = f"{peaks[name]:4.0f} MB" if name in peaks else ""
            print(f"{title:70}{min(seconds) * 1e3:5.0f} ms {ratios[name]:6.2f} {peak}")
        print(f"least of {len(spent['bare'])} rounds, and its ratio to that of {BARE!r}")
        return ratios

    with tempfile.TemporaryDirectory() as cache:
        for code in codes.values():  # writes the byte code, warms the disk cache
            time_code(code, cache)
        judge(measure, "--record" in sys.argv)


def warm_s() -> float:
    """Processor time of a warm answer, in seconds."""
    done = subprocess.run([sys.executable, "-c", WARM], cwd=ROOT, capture_output=True, text=True,
                          check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    return float(done.stdout)


def least_ratios(spent: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The least time of each over the least of the bare import."""
    return {name: min(seconds) / min(spent["bare"]) for name, seconds in spent.items()}


def judge(measure: Callable[[], Mapping[str, float]], record: bool) -> None:
    """Write the ratios down, or end with 1 where one has grown beyond the margin. `measure` takes
    more rounds at each call and gives the ratios of all of them.
    """
    kept = json.loads(RECORDED.read_text())
    for _ in range(ATTEMPTS):
        ratios = {name: value for name, value in measure().items() if name in kept}
        if record:
            kept |= {name: round(value, 2) for name, value in ratios.items()}
            RECORDED.write_text(json.dumps(kept, indent=1) + "\n")
            return
        grown = [
            f"{name} is {value:.2f}, recorded {kept[name]:.2f}"
            for name, value in ratios.items()
            if value > MARGIN * kept[name]
        ]
        if not grown:
            return
    raise SystemExit(f"slower than {MARGIN} times what is recorded: {'; '.join(grown)}")


if __name__ == "__main__":
    main()
