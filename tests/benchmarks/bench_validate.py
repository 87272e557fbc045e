"""Speed of `advisor validate`, as ratios of one run: `python tests/benchmarks/bench_validate.py`.

Cold start: one compose file, alone and with hardware and load told, against the bare import of
click, pydantic and numpy (goal: at most 1.3), byte code kept. Warm: files a second in one process
over both corpora, with hardware and load given (goal: at least 500). Processor time is compared, so
that a busy machine blurs the ratio less.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "corpus"
FILES = sorted([*CORPUS.glob("case-*"), *(ROOT / "tests" / "corpus2").glob("case-*")])
GIVEN = {"hw": "gb10", "concurrency": 16, "ctx": 8192}
BARE = "import click, pydantic, numpy"
COLD = (  # as the command itself starts
    "import sys; from advisor.cli.app import main; sys.argv = ['advisor', 'validate', "
    f"{str(CORPUS / 'case-105.yaml')!r}{{}}]; main()"
)
TOLD = ", '--hw', 'gb10', '--concurrency', '16', '--ctx', '8192'"


def cpu_seconds(code: str, cache: str, rounds: int = 9) -> float:
    """The least processor time that a fresh interpreter takes for a piece of code."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    best = float("inf")
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def files_per_second(given: dict[str, Any], rounds: int = 5) -> float:
    """Corpus files judged per second of processor time in one warm process; the best round."""
    from advisor.lint.validate import validate

    files = [str(path) for path in FILES]
    for path in files:
        validate(path, **given)
    best = 0.0
    for _ in range(rounds):
        begun = time.process_time()
        for path in files:
            validate(path, **given)
        best = max(best, len(files) / (time.process_time() - begun))
    return best


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as cache:
        bare, cold, told = (
            cpu_seconds(code, cache) for code in (BARE, COLD.format(""), COLD.format(TOLD))
        )
    print(f"bare import of click, pydantic, numpy {bare * 1e3:7.1f} ms")
    print(f"advisor validate, one compose file    {cold * 1e3:7.1f} ms   {cold / bare:5.2f}")
    print(f"... with --hw --concurrency --ctx     {told * 1e3:7.1f} ms   {told / bare:5.2f}")
    print(f"files a second, one process           {files_per_second({}):7.0f}")
    print(f"... with --hw --concurrency --ctx     {files_per_second(GIVEN):7.0f}")


if __name__ == "__main__":
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    main()
