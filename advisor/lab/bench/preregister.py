"""Predictions for a step-cost sweep, written down before the sweep is run.

`python -m advisor.lab.bench.preregister OUT.json` prices every cell of `cells.sweep()` on one H200
with the physics core as it stands;
with `on=ID` on another card. With `uniform` after the file name, routing is uniform and neighbours
share no experts: what random weights should show. With `model`, each speculating cell also carries
the speed-ups that the shipped model predicts, its acceptance known. The file is never regenerated
after the run: what was measured is held against it as it was.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.lab.bench.cells import Job, sweep
from advisor.perf import encode_rows, imputation, physics, schedule
from advisor.perf.constants import Constants
from advisor.prediction import predict_table


def rows(job: Job, hardware: str = "h200") -> list[dict[str, str]]:
    """The cells of one job in the columns of the measurement table."""
    return [
        {
            "model": job.model,
            "quant": job.quant,
            "hardware": hardware,
            "gpu_count": "1",
            "engine": "vllm",
            "engine_version": "0.25.1",
            "spec_method": "mtp",
            "k": str(max(job.k, 1)),
            "concurrency": str(point.concurrency),
            "input_tokens": str(point.input_tokens),
            "output_tokens": str(point.output_tokens),
            "prefix_share": str(point.prefix_share),
            "prefix_caching": "1" if job.prefix_caching else "0",
            "workload": "random",
            "output_spread": "0.5",
            "n_requests": str(max(4, point.rounds * point.concurrency)),
            "max_num_seqs": str(job.max_num_seqs),
            "max_num_batched_tokens": str(job.max_num_batched_tokens),
            "speedup_metric": "output_tok_s",
        }
        for point in job.points
    ]


def predict(
    job: Job, constants: Constants | None = None, hardware: str = "h200"
) -> list[dict[str, Any]]:
    """Predicted figures for every cell of a job: decode step, output tok/s, TPOT and TTFT of its
    own arm.
    """
    c = constants or Constants()
    table, errors = encode_rows.from_rows(rows(job, hardware))
    if any(errors):
        raise ValueError(f"{job.label}: {next(e for e in errors if e)}")
    filled = imputation.impute(table)
    tau = np.full(len(filled), 1.0 + sum(job.rates[: job.k]))
    arm: schedule.Arm = "spec" if job.k else "base"
    served = schedule.replay(filled, c, tau, arm)
    context = filled.input_tokens + filled.output_tokens / 2
    step = physics.decode_seconds(filled, c, filled.concurrency, context, bool(job.k))

    def column(values: npt.NDArray[np.float64], scale: float = 1.0) -> list[float]:
        return [round(float(v) * scale, 4) for v in values]

    columns = {
        "decode_step_ms": column(step, 1e3),
        "output_tok_s": column(served.output_tok_s),
        "tpot_ms": column(served.tpot_s, 1e3),
        "ttft_ms": column(served.ttft_s, 1e3),
    }
    return [
        {
            "label": job.label,
            "key": point.key,
            "k": job.k,
            **{name: values[i] for name, values in columns.items()},
        }
        for i, point in enumerate(job.points)
    ]


METRICS = ("output_tok_s", "tpot", "request_tok_s")


def speedups(job: Job, hardware: str = "h200") -> list[dict[str, float]]:
    """The shipped model's speed-up over the plain arm of every cell, by metric; empty for a plain
    arm.
    """
    if not job.k:
        return [{} for _ in job.points]
    tau = f"{1.0 + sum(job.rates[: job.k]):.4f}"
    asked = [
        row | {"acceptance_length": tau, "speedup_metric": metric}
        for row in rows(job, hardware)
        for metric in METRICS
    ]
    found = iter(predict_table.predict_dicts(asked))
    return [{metric: float(next(found)["speedup_p50"]) for metric in METRICS} for _ in job.points]


def main(argv: list[str]) -> int:
    """Write the predictions of a sweep to a new file; exit status 2 where it exists."""
    out = Path(argv[0])
    if out.exists():
        print(f"{out} exists: a pre-registration is written once", file=sys.stderr)
        return 2
    uniform, model = "uniform" in argv[1:], "model" in argv[1:]
    hardware = next(
        (word.removeprefix("on=") for word in argv[1:] if word.startswith("on=")), "h200"
    )
    constants = replace(Constants(), rho=0.0, skew=0.0) if uniform else Constants()
    cells = [cell for job in sweep() for cell in predict(job, constants, hardware)]
    if model:
        gains = [gain for job in sweep() for gain in speedups(job, hardware)]
        cells = [
            cell | ({"speedup": gain} if gain else {})
            for cell, gain in zip(cells, gains, strict=True)
        ]
    head = {"hardware": hardware, "engine": "vllm 0.25.1"} | (
        {"routing": "uniform"} if uniform else {}
    )
    out.write_text(json.dumps({**head, "cells": cells}, indent=1) + "\n")
    print(f"{len(cells)} cells in {out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
