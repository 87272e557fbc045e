"""(points, acceptance) -> named numbers and codes: the inputs of the learned residual, the same for
training and prediction.

Numbers are centred and scaled by fixed figures (never by the data), so that a scale means the same
everywhere; units are given in UNITS. Only what is said or filled in explicitly enters; what was not
said shows in `unknown`, which widens the interval.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.perf import physics, prompt_cost, verify_kernels
from advisor.perf.arrays import METHOD_CODE, METRICS, QUANT_FAMILIES, WORKLOADS, Points
from advisor.perf.constants import Constants
from advisor.prediction.acceptance import Acceptance
from advisor.prediction.residual import Table

Floats = npt.NDArray[np.float64]

UNITS: dict[str, str] = {
    "one": "constant 1",
    "log_k": "log2((k + 1) / 3)",
    "log_streams": "log2(concurrent requests) / 2",
    "log_batch": "log2(verified tokens a step) / 2 - 1",
    "log_depth": "log2(1 + tokens in context / 1024) / 2",
    "log_bw": "log2(memory bandwidth / 900 GB/s)",
    "intensity": "log2(matrix FLOP per byte of bandwidth / 100) / 2",
    "vector": "log2(fp32 FLOP per byte of bandwidth / 40) / 2",
    "log_active": "log2(active parameters / 10e9) / 2",
    "sparsity": "log2(total / active parameters) / 2",
    "bits": "(bits per weight - 4.5) / 4",
    "log_tau": "log2(tokens per step) - 1",
    "log_physics": "log of the speed-up by physics",
    "log_cost": "log2(cycle time / plain step time) - 1",
    "draft_share": "drafting share of a cycle, times 2 minus 0.5",
    "launch_share": "launch and host share of a plain step, times 2 minus 0.5",
    "prefill_share": "prefill share of a plain request's time",
    "gpus": "log2(GPUs)",
    "tiled": "1 where a verify step leaves the matrix-vector kernels (llama.cpp, MLX)",
    "many": "log2(requests) where there are several streams on llama.cpp or MLX",
    "prefix_hybrid": "1 for prefix caching with a hybrid model, as said",
    "piecewise": "1 where FULL graphs are lost",
    "p_min": "draft stops below this probability",
    "temperature": "sampling temperature, 0.4 if unknown, minus 0.4",
    "guessed_tau": "1 where the acceptance is a prior",
    "unknown": "how many of hardware, size, quantisation, load and k are stand-ins",
}
GUESSED = ("bw", "total_params", "quant_bits", "concurrency", "k", "layers", "input_tokens")
CODES = (
    "path",
    "method",
    "moe",
    "hybrid",
    "arch",
    "quant",
    "metric",
    "engine",
    "batched",
    "workload",
    "block",
    "hw_class",
)


def log2(value: Floats, at: float = 1.0) -> Floats:
    out: Floats = np.log2(np.maximum(value, 1e-9) / at)
    return out


def unknown_count(points: Points) -> Floats:
    """How many stand-ins a point needs; bandwidth and size count double. (N,)"""
    missing = np.zeros(len(points))
    for name in GUESSED:
        missing += np.isnan(getattr(points, name)) * (
            2.0 if name in ("bw", "total_params") else 1.0
        )
    return missing


def table(
    points: Points, full: Points, belief: Acceptance, log_physics: Floats, constants: Constants
) -> Table:
    """Inputs of the residual. `points` as read, `full` filled and with a k, `log_physics` for each
    point's metric.
    """
    batch = np.fmin(full.concurrency, full.max_num_seqs)
    context = full.depth_tokens + full.output_tokens / 2
    one = np.ones(len(batch))
    plain = physics.step_seconds(full, constants, batch, one, False, context)
    verify = physics.step_seconds(full, constants, batch, full.verify_tokens, True, context).total
    draft = physics.draft_seconds(full, constants, batch, context)
    prefill = prompt_cost.prefill_seconds(
        full, constants, full.input_tokens, np.zeros(len(batch)), False
    )
    small = full.is_path(
        "llamacpp-cuda", "llamacpp-metal", "llamacpp-vulkan", "llamacpp-rocm", "mlx"
    )
    tokens = batch * full.verify_tokens
    plain_total = plain.total
    numbers = {
        "one": one,
        "log_k": log2(full.k + 1, 3.0),
        "log_streams": log2(batch) / 2,
        "log_batch": log2(tokens) / 2 - 1,
        "log_depth": log2(1 + full.depth_tokens / 1024) / 2,
        "log_bw": log2(full.bw, 9e11),
        "intensity": log2(full.bf16 / full.bw, 100.0) / 2,
        "vector": log2(full.fp32 / full.bw, 40.0) / 2,
        "log_active": log2(full.active_params, 1e10) / 2,
        "sparsity": log2(full.total_params / full.active_params) / 2,
        "bits": (full.quant_bits - 4.5) / 4,
        "log_tau": log2(belief.tau) - 1,
        "log_physics": log_physics,
        "log_cost": log2((verify + draft) / plain_total) - 1,
        "draft_share": 2 * draft / (verify + draft) - 0.5,
        "launch_share": 2 * (plain.launch + plain.host) / plain_total - 0.5,
        "prefill_share": batch * prefill / (batch * prefill + full.output_tokens * plain_total),
        "gpus": log2(full.gpus),
        "tiled": (small & (tokens > verify_kernels.LONGEST)).astype(float),
        "many": np.where(small, log2(batch), 0.0),
        "prefix_hybrid": np.nan_to_num(points.prefix_caching) * full.is_hybrid,
        "piecewise": full.piecewise,
        "p_min": np.nan_to_num(points.p_min),
        "temperature": np.nan_to_num(points.temperature, nan=0.4) - 0.4,
        "guessed_tau": (~belief.known).astype(float),
        "unknown": unknown_count(points),
    }
    return Table(
        {name: np.nan_to_num(value) for name, value in numbers.items()}, _codes(points, full)
    )


def _codes(points: Points, full: Points) -> dict[str, npt.NDArray[np.int64]]:
    lossless = (
        QUANT_FAMILIES.index("bf16"),
        QUANT_FAMILIES.index("fp8"),
        QUANT_FAMILIES.index("int8"),
    )
    block = np.isin(full.method, [METHOD_CODE["dflash"], METHOD_CODE["dspark"]])
    codes = {
        "path": full.path,
        "method": full.method,
        "moe": full.is_moe > 0,
        "hybrid": full.is_hybrid > 0,
        "arch": full.arch,
        "quant": np.where(np.isin(full.quant_family, lossless), 1, full.quant_family),
        "metric": np.where(full.metric == METRICS.index("ttft"), 1, 0),
        "engine": full.engine,
        "batched": full.concurrency > 1,
        "workload": np.where(full.workload == WORKLOADS.index("creative"), 1, 0),
        "block": np.where(block, 1, 0),
        "hw_class": full.hw_class,
    }
    return {name: np.asarray(value, dtype=np.int64) for name, value in codes.items()}
