"""What measured step costs teach: a step-time law, constants of physics refitted.

Two models of rising reach. `step_law` writes the decode step as a sum of terms with a meaning
(fixed, expert union, per token, per KV token, draft pass). `refit` moves constants of the physics
core, within their published widths, to fit decode step, output tok/s, TPOT and TTFT at once.

Random weights route almost uniformly, so expert popularity (`skew`) and sharing between neighbours
(`rho`) are held at 0 here; nothing is learned about either. numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from advisor.lab.bench.row_files import Measured
from advisor.lab.bench.rows import (
    is_decode_biased,
    plain_elsewhere,
    runs_columns,
)
from advisor.perf import arrays as P
from advisor.perf import imputation, physics, prompt_cost, schedule
from advisor.perf.constant_sources import CONSTANT_SOURCES
from advisor.perf.constants import Constants, shift_constants
from advisor.perf.encoding import encode_rows

Floats = npt.NDArray[np.float64]
Cell = tuple[int, int, int]  # prompt tokens, nominal output tokens, concurrency

QUANTITIES = ("decode_step_ms", "output_tok_s", "tpot_ms", "ttft_ms")
# Expected relative scatter of one measured figure; drafting steps at one or two requests are bound
# by the host and scatter more.
NOISE = {"decode_step_ms": 0.02, "output_tok_s": 0.04, "tpot_ms": 0.05, "ttft_ms": 0.10}
HOST_BOUND_NOISE, HOST_BOUND_BATCH = 0.10, 2
PATH = "vllm-cuda"
# Constants that a sweep without drafts from text, without links and without other engines can say
# something about.
MOVED = tuple(
    f"{name}[{PATH}]" if isinstance(getattr(Constants(), name), tuple) else name
    for name in (
        "eta_bw",
        "expert_bw",
        "mfu_gemm",
        "mfu_attention_wgmma",
        "layer_launch_s",
        "moe_layer_launch_s",
        "host_s",
        "host_seq_s",
        "sampler_passes",
        "spec_step_s",
        "spec_seq_s",
        "draft_pass_s",
        "draft_scale",
        "state_reads",
        "mfu_prefill",
        "prefill_call_s",
        "prefill_linear_s",
        "prefill_captured",
    )
)
STEP, STEPS, ROBUST = 0.05, 12, 2.0


def cell_of(row: Measured) -> Cell:
    """Return input tokens, output tokens and concurrency of a row."""
    return int(row["input_tokens"]), int(row["output_tokens"]), int(row["concurrency"])


def even_cells(rows: Sequence[Measured]) -> set[Cell]:
    """The half that a fit may see: cells in the order of (prompt, output, concurrency), the first,
    third and so on.
    """
    return set(sorted({cell_of(row) for row in rows})[::2])


def table(rows: Sequence[Measured], hardware: str = "h200") -> tuple[P.Points, Floats]:
    """Filled points and tokens per step (N,) of measured rows; a plain row carries a k of 1 that
    the base arm ignores.

    Parameters
    ----------
    rows : Sequence[Measured]
        Measured points, N of them.
    hardware : str
        Id of the machine.

    Returns
    -------
    tuple
        Filled points, and tokens per step (N,). ValueError: a row that cannot be encoded.
    """
    texts = [
        runs_columns(row, hardware) | {"k": str(max(row["k"], 1)), "spec_method": "mtp"}
        for row in rows
    ]
    points, errors = encode_rows.from_rows(
        [text | {"speedup_metric": "output_tok_s"} for text in texts]
    )
    if any(errors):
        raise ValueError(next(error for error in errors if error))
    return imputation.impute(points), np.array([row["acceptance_length"] for row in rows])


def measured_column(rows: Sequence[Measured], quantity: str) -> Floats:
    """A measured column, NaN where it was not taken or does not mean what it says (see the two
    rules in rows).

    Parameters
    ----------
    rows : Sequence[Measured]
        Measured points, N of them.
    quantity : str
        Name of a measured column.

    Returns
    -------
    Floats
        ms or tok/s, NaN where there is none. (N,)
    """
    step = quantity == "decode_step_ms"
    name, unfit = ("decode_step_p50_ms", is_decode_biased) if step else (quantity, plain_elsewhere)
    return np.array(
        [np.nan if row.get(name) is None or unfit(row) else float(row[name]) for row in rows]
    )


def random_routing(constants: Constants | None = None) -> Constants:
    """Constants for random weights: uniform, independent routing."""
    return replace(constants or Constants(), rho=0.0, skew=0.0)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Rows with their points. `k` 0 marks the plain arm."""

    rows: tuple[Measured, ...]
    points: P.Points
    tau: Floats
    k: Floats

    @classmethod
    def of(cls, rows: Sequence[Measured], hardware: str = "h200") -> Sweep:
        """Return the sweep of measured rows, as arrays."""
        points, tau = table(rows, hardware)
        return cls(tuple(rows), points, tau, np.array([float(row["k"]) for row in rows]))

    def predict(self, constants: Constants) -> dict[str, Floats]:
        """The four quantities of every row's own arm, (N,)."""
        p, context = self.points, self.points.input_tokens + self.points.output_tokens / 2
        out: dict[str, Floats] = {}
        spec, base = (
            schedule.replay(p, constants, self.tau, "spec"),
            schedule.replay(p, constants, self.tau, "base"),
        )
        steps = [
            physics.decode_seconds(p, constants, p.concurrency, context, on) for on in (True, False)
        ]
        steps[0] = steps[0] + prompt_cost.eager_seconds(p, constants, p.concurrency, steps[0])
        drafted = self.k > 0
        out["decode_step_ms"] = 1e3 * np.where(drafted, *steps)
        out["output_tok_s"] = np.where(drafted, spec.output_tok_s, base.output_tok_s)
        out["tpot_ms"] = 1e3 * np.where(drafted, spec.tpot_s, base.tpot_s)
        out["ttft_ms"] = 1e3 * np.where(drafted, spec.ttft_s, base.ttft_s)
        return out

    def noise(self, quantity: str) -> Floats:
        """Return the standard deviation of each row's logarithm, shape (n,)."""
        shaky = (self.k > 0) & (self.points.concurrency <= HOST_BOUND_BATCH)
        return np.hypot(
            NOISE[quantity], np.where(shaky & (quantity != "ttft_ms"), HOST_BOUND_NOISE, 0.0)
        )


# ---------------------------------------------------------------- errors


def log_errors(sweep: Sweep, predicted: Mapping[str, Floats], quantity: str) -> Floats:
    """log(predicted / measured), (N,).

    Parameters
    ----------
    sweep : Sweep
        Measured rows as arrays.
    predicted : Mapping[str, Floats]
        Columns by name. (N,) each
    quantity : str
        Name of a measured column.

    Returns
    -------
    Floats
        Log ratios. (N,)
    """
    return np.asarray(np.log(predicted[quantity] / measured_column(sweep.rows, quantity)))


def mape(errors: Floats) -> float:
    """Mean absolute percentage error from log errors (N,), NaN left out."""
    kept = errors[~np.isnan(errors)]
    return float(100 * np.mean(np.abs(np.expm1(kept)))) if len(kept) else float("nan")


# ---------------------------------------------------------------- constants


@dataclass(frozen=True)
class Fit:
    """Log shifts of constants by name, and what is left of their doubt: sd after the fit over sd
    before (1: not identified).
    """

    shifts: dict[str, float]
    left: dict[str, float]

    def constants(self) -> Constants:
        """Return the fitted constants."""
        return shift_constants(random_routing(), self.shifts)


def refit(sweep: Sweep, names: Sequence[str] = MOVED) -> Fit:
    """Constants that fit the rows best, shrunk to their defaults with the published widths.
    Deterministic Gauss-Newton.

    Parameters
    ----------
    sweep : Sweep
        Measured rows as arrays.
    names : Sequence[str]
        Constants to move.

    Returns
    -------
    Fit
        Shifts and what they leave.
    """
    base = random_routing()
    sd = np.array([CONSTANT_SOURCES[name.split("[")[0]].log_sd for name in names])

    def residuals(shift: Floats) -> Floats:
        found = sweep.predict(shift_constants(base, dict(zip(names, shift.tolist(), strict=True))))
        return np.concatenate([log_errors(sweep, found, q) / sweep.noise(q) for q in QUANTITIES])

    shift, normal = np.zeros(len(names)), np.diag(1 / sd**2)
    for _ in range(STEPS):
        now = residuals(shift)
        slopes = np.column_stack(
            [
                (residuals(shift + STEP * e) - residuals(shift - STEP * e)) / (2 * STEP)
                for e in np.eye(len(names))
            ]
        )
        good = ~np.isnan(now)
        weight = 1 / np.maximum(1.0, np.abs(now[good]) / ROBUST)
        left = slopes[good] * weight[:, None]
        normal = left.T @ slopes[good] + np.diag(1 / sd**2)
        step = np.linalg.solve(normal, -(left.T @ now[good]) - shift / sd**2)
        shift = shift + np.clip(step, -0.5, 0.5)
    doubt = np.sqrt(np.diag(np.linalg.inv(normal))) / sd
    return Fit(
        {name: round(float(s), 3) for name, s in zip(names, shift, strict=True)},
        {name: round(float(d), 2) for name, d in zip(names, doubt, strict=True)},
    )


# ---------------------------------------------------------------- a law with meanings


@dataclass(frozen=True)
class Law:
    """Decode step (ms) = sum of coefficient x feature; `error` in percent (mean absolute), by k."""

    coefficients: dict[str, float]
    error: dict[int, float]


def law_features(rows: Sequence[Measured]) -> dict[str, Floats]:
    """What a step does, by meaning, (N,) each. Experts: the share that uniform routing reaches, the
    draft layer included.
    """
    points, _ = table(rows)
    b, k = points.concurrency, np.array([float(row["k"]) for row in rows])

    def experts_read(tokens: Floats) -> Floats:
        return np.asarray(physics.union(points.experts, points.topk, tokens) / points.experts)

    drafted = (
        np.where(k > 0, experts_read(b * (k + 1)) + np.fmax(k - 1, 0) * experts_read(b), 0.0)
        / points.layers
    )
    context = points.input_tokens + points.output_tokens / 2
    return {
        "fixed": np.ones(len(k)),
        "speculating at all": (k > 0).astype(float),
        "draft pass": k,
        "all experts": experts_read(b * (k + 1)) + drafted,
        "request": b,
        "token": b * (k + 1),
        "1000 KV tokens": b * context * (1 + k / points.attn_layers) / 1000,
    }


def step_law(rows: Sequence[Measured]) -> Law:
    """Non-negative least squares of the relative error of the median decode step, within captured
    CUDA graphs.
    """
    rows = [row for row in rows if row["concurrency"] * (row["k"] + 1) <= prompt_cost.GRAPH_TOKENS]
    features = law_features(rows)
    step = measured_column(rows, "decode_step_ms")
    k = np.array([row["k"] for row in rows])
    shaky = (k > 0) & (features["request"] <= HOST_BOUND_BATCH)
    good = ~np.isnan(step)
    matrix = np.column_stack(list(features.values()))
    scale = np.where(shaky, 0.2, 1.0) / step
    kept = non_negative(matrix[good] * scale[good, None], (step * scale)[good])
    error = np.log(matrix @ kept / step)
    return Law(
        dict(zip(features, (round(float(c), 5) for c in kept), strict=True)),
        {int(n): mape(error[k == n]) for n in np.unique(k)},
    )


def non_negative(matrix: Floats, target: Floats) -> Floats:
    """Least squares with coefficients >= 0: coordinate descent, exact enough after many rounds for
    a handful of columns.

    Parameters
    ----------
    matrix : Floats
        One column a coefficient. (N, P)
    target : Floats
        (N,)

    Returns
    -------
    Floats
        Coefficients. (P,)
    """
    gram, goal = matrix.T @ matrix, matrix.T @ target
    found = np.zeros(matrix.shape[1])
    for _ in range(20_000):
        for j in range(len(found)):
            found[j] = max(0.0, found[j] + (goal[j] - gram[j] @ found) / gram[j, j])
    return found
