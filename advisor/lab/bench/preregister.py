"""Predictions for a step-cost sweep, written down before the sweep is run.

`python -m advisor.lab.bench.preregister OUT.json` prices every cell of a sweep (`--sweep`, those of
`advisor bench step-cost`) on one H200 (`--on`) with the physics core as it stands. With `--uniform`
routing is uniform and neighbours share no experts: what random weights should show. With
`--speedups` each speculating vLLM cell also carries the speed-ups that the shipped model predicts,
its acceptance known. The file is never regenerated after the run: what was measured is held against
it as it was (`advisor.lab.bench.laws.held_against`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.lab.bench import served_cells
from advisor.lab.bench.cells import Job, Point
from advisor.lab.bench.rows import runs_columns
from advisor.lab.bench.served_cells import ServedJob
from advisor.lab.bench.served_rows import in_columns
from advisor.lab.bench.sweeps import NAMES, SWEEPS, engine_starts
from advisor.perf import imputation, physics, schedule
from advisor.perf.constants import Constants
from advisor.perf.encoding import encode_rows
from advisor.prediction import predict_table


def rows(job: Job | ServedJob, hardware: str = "h200") -> list[dict[str, str]]:
    """The cells of one job in the columns of the measurement table."""
    if isinstance(job, ServedJob):
        return [_served_row(job, point, hardware) for point in job.points]
    return [
        {
            "model": job.model,
            "quant": job.quant,
            "kv_cache_dtype": "bf16" if job.kv_cache_dtype == "auto" else job.kv_cache_dtype,
            "hardware": hardware,
            "gpu_count": "1",
            "engine": "vllm",
            "engine_version": "0.25.1",
            "spec_method": job.method,
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


def _served_row(job: ServedJob, point: served_cells.ServedPoint, hardware: str) -> dict[str, str]:
    """One cell as its row would be written once it is measured."""
    slots = point.concurrency
    known = {**job.as_dict(), "kind": point.kind, "sampling": point.sampling}
    known |= {"concurrency": slots, "input_tokens": point.input_tokens}
    known |= {"acceptance_length": 1 + sum(job.rates), "prompts": slots}
    row = in_columns(known | {"tokens": slots * point.length})
    columns = runs_columns(row, hardware)
    plain = {} if job.k else {"spec_method": "mtp", "k": "1"}
    return columns | plain | {"engine": job.engine, "speedup_metric": "request_tok_s"}


def predict(
    job: Job | ServedJob, constants: Constants | None = None, hardware: str = "h200"
) -> list[dict[str, Any]]:
    """Predicted figures for every cell of a job: decode step, output tok/s, TPOT and TTFT of its
    own arm.

    Raises
    ------
    ValueError
        A cell's columns are not understood.
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
            "engine": job.engine if isinstance(job, ServedJob) else "vllm",
            "k": job.k,
            "concurrency": point.concurrency,
            "input_tokens": point.input_tokens,
            **{name: values[i] for name, values in columns.items()},
        }
        for i, point in enumerate(_points(job))
    ]


def _points(job: Job | ServedJob) -> Sequence[Point | served_cells.ServedPoint]:
    return job.points


METRICS = ("output_tok_s", "tpot", "request_tok_s")


def speedups(job: Job | ServedJob, hardware: str = "h200") -> list[dict[str, float]]:
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


def main(argv: Sequence[str]) -> int:
    """Write the predictions of sweeps to a new file; exit status 2 where it exists."""
    parser = argparse.ArgumentParser(prog="python -m advisor.lab.bench.preregister")
    parser.add_argument("out", type=Path)
    parser.add_argument("--engine", choices=sorted(SWEEPS), default="vllm")
    parser.add_argument("--sweep", choices=NAMES, nargs="+", default=["full"])
    parser.add_argument("--model", default="qwen3.6-35b-a3b")
    parser.add_argument("--quant", default="fp8")
    parser.add_argument("--gguf", type=Path, help="llama-server: the file, which labels the cells")
    parser.add_argument("--on", default="h200", help="hardware id")
    parser.add_argument("--uniform", action="store_true")
    parser.add_argument("--speedups", action="store_true")
    asked = parser.parse_args(argv)
    if asked.out.exists():
        print(f"{asked.out} exists: a pre-registration is written once", file=sys.stderr)
        return 2
    about = {"model": asked.model, "quant": asked.quant, "gguf": asked.gguf}
    jobs = [job for name in asked.sweep for job in engine_starts(asked.engine, name, **about)]
    constants = replace(Constants(), rho=0.0, skew=0.0) if asked.uniform else Constants()
    cells = [cell for job in jobs for cell in predict(job, constants, asked.on)]
    if asked.speedups:
        gains = [gain for job in jobs for gain in speedups(job, asked.on)]
        cells = [
            cell | ({"speedup": gain} if gain else {})
            for cell, gain in zip(cells, gains, strict=True)
        ]
    head = {"hardware": asked.on, "engine": asked.engine, "sweeps": asked.sweep} | (
        {"routing": "uniform"} if asked.uniform else {}
    )
    asked.out.write_text(json.dumps({**head, "cells": cells}, indent=1) + "\n")
    print(f"{len(cells)} cells in {asked.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
