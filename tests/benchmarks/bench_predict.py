"""100,000 plan points in one vectorised call, and one recommendation in a warm process. Prints,
judges nothing.

python tests/benchmarks/bench_predict.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from advisor.advice import recommend
from advisor.perf.encoding import encode_rows
from advisor.prediction import predict

POINTS = 100_000
ROUNDS = 5


def best(call: Callable[[], object]) -> float:
    """Least seconds of a few rounds."""
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return min(spent)


def main() -> None:
    rows = [
        {
            "model": "qwen3.6-35b-a3b",
            "quant": "fp8",
            "hardware": hardware,
            "engine": "vllm",
            "spec_method": "mtp",
            "k": str(k),
            "concurrency": str(streams),
            "input_tokens": str(tokens),
            "output_tokens": "512",
            "speedup_metric": "output_tok_s",
        }
        for hardware in ("gb10", "h200", "rtx5090")
        for k in (1, 2, 3, 4)
        for streams in (1, 4, 16, 64)
        for tokens in (512, 2048, 8192)
    ]
    table, errors = encode_rows.from_rows(rows)
    assert not any(errors)
    many = table.take(np.resize(np.arange(len(table)), POINTS))
    batch = best(lambda: predict.predict_points(many))
    one = best(lambda: recommend.recommend(hardware="gb10", concurrency=16, ctx_tokens=2048))
    print(
        f"{POINTS:,} points in one call: {batch:.2f} s (wanted: at most 1 s on two cores), "
        f"{1e6 * batch / POINTS:.1f} us each"
    )
    print(
        f"one recommendation, warm: {1e3 * one:.0f} ms, the cost of "
        f"{one / batch * POINTS:,.0f} points"
    )


if __name__ == "__main__":
    main()
