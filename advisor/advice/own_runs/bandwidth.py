"""Whether a run without speculation is faster than its machine can read the model's weights."""

from __future__ import annotations

import numpy as np

from advisor.advice.own_runs.machine import MachineRun
from advisor.domain.nouns import AdvisorError, Facts, Plan
from advisor.domain.sourced import sourced
from advisor.perf import reads
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.imputation import impute

FASTER = sourced(
    1.15,
    "ratio",
    "own choice: clocks above the published ones, and sizes that are rounded",
    "chosen",
)


def check(run: MachineRun, facts: Facts) -> None:
    """Raise AdvisorError for a baseline beyond what all devices together can read. `facts` are of
    the run; where the bandwidth is not known, nothing is refused.
    """
    hardware = facts.hardware
    if hardware is None or hardware.memory_bandwidth_gb_s is None or facts.model is None:
        return
    points = impute(from_plans(facts, [Plan.model_construct(engine=facts.engine)]))
    rate = facts.gpus * float(points.bw[0])
    speed, token = run.baseline.get("output_tok_s"), run.baseline.get("tpot")
    # seconds in which a step's weights are read at the published bandwidth
    seconds, lone = (
        float(reads.least_bytes(points, np.array([requests]))[0]) / rate
        for requests in (run.concurrency, 1.0)
    )
    most, least = run.concurrency / seconds, 1e3 * lone
    if speed is not None and speed > most * FASTER:
        beyond = f"{speed:.4g} tok/s at {run.concurrency:g} requests, where {most:.4g}"
    elif token is not None and token * FASTER < least:
        beyond = f"{token:.3g} ms a token, where {least:.3g}"
    else:
        return
    quant = facts.quant.id if facts.quant is not None else "these"
    many = f"{facts.gpus} x {hardware.id}" if facts.gpus > 1 else hardware.id
    raise AdvisorError(
        f"without speculation {beyond} is what the bandwidth of {many} permits for the {quant} "
        f"weights of {facts.model.id}: check --hw, --gpus, --model, --quant and the units"
    )
