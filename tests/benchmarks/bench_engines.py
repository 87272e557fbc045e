"""How long the engines' readings take, per launch; printed, not judged. `python
tests/benchmarks/bench_engines.py`
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from advisor import engines
from advisor.engines import Token
from tests.real.emit_lines import OLD


def per_call(action: Callable[[], object], repeats: int = 300) -> float:
    """Microseconds of one call, best of five rounds."""
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        for _ in range(repeats):
            action()
        best = min(best, perf_counter() - start)
    return best / repeats * 1e6


def main() -> None:
    print(
        f"{'engine':14} {'read':>8} {'to_plan':>8} {'to_launch':>10} {'migrate':>8}   us per launch"
    )
    for engine, lines in OLD.items():
        adapter = engines.get(engine)
        tokens = [Token(word) for word in shlex.split(lines[0])]
        launch = adapter.read(tokens, version_text=adapter.newest)
        current = adapter.migrate(launch, adapter.newest)[0]  # to_launch refuses what is gone
        plan = adapter.to_plan(current)
        actions: list[Callable[[], object]] = [
            lambda a=adapter, t=tokens: a.read(t, version_text=a.newest),
            lambda a=adapter, x=launch: a.to_plan(x),
            lambda a=adapter, p=plan: a.to_launch(p),
            lambda a=adapter, x=launch: a.migrate(x, a.newest),
        ]
        read, to_plan, to_launch, migrate = (per_call(action) for action in actions)
        print(f"{engine:14} {read:8.0f} {to_plan:8.0f} {to_launch:10.0f} {migrate:8.0f}")


if __name__ == "__main__":
    main()
