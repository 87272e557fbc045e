"""A user's own A/B runs pull the predictions for that machine towards what was measured there.

What the model misses on one machine goes together. Misses in units of their own standard deviation
are a Gaussian process with two parts, one of acceptance (it fades over draft length, kind of text,
method, model and engine, and grows with the draft) and one of the step (it fades over load, draft
length, method, model and engine); the rest belongs to one setting. An own run is one observation
with the noise of its measurement. The parameters maximise the likelihood of the left-out misses of
the published sources (`advisor evaluate --calibrated`). What it does not know: whether the machine
has changed since.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.facts import OwnRun
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import arrays

Floats = npt.NDArray[np.float64]

SHORT_TOKENS = sourced(
    1024,
    "tokens",
    "Prompts below this hardly move a step",
    "assumed",
)
USUAL_K = sourced(
    2.0,
    "tokens",
    "The k at which own_runs_acceptance was fitted",
    "chosen",
)
LEAST_SD = sourced(
    0.05,
    "log ratio",
    "Within a row, two runs of one machine differ by 0.045 (accuracy review)",
    "measured",
)
# Columns of `places`
STREAMS, CONTEXT, LOG_K, WORKLOAD, METHOD, MODEL, QUANT, ENGINE, WHOLE, FIRST = range(10)
GRADED = (STREAMS, CONTEXT, LOG_K)  # distances; the others agree or differ
ACCEPTANCE_MEASURES = {
    "k": LOG_K,
    "workload": WORKLOAD,
    "method": METHOD,
    "model": MODEL,
    "engine": ENGINE,
}
STEP_MEASURES = {
    "streams": STREAMS, "context": CONTEXT, "k": LOG_K, "method": METHOD, "model": MODEL,
    "engine": ENGINE, "metric": WHOLE,
}  # fmt: skip


class Kernel(NamedTuple):
    """Shares of the standardised misses' variance, and how fast they fade (exponent per unit of
    distance): doublings of load and draft length, or differs.
    """

    acceptance: float
    step: float
    spread: float  # sd of the misses in units of the predicted sd
    acceptance_fade: tuple[float, ...]
    step_fade: tuple[float, ...]

    @property
    def setting(self) -> float:
        """The share that belongs to one setting alone."""
        return max(1.0 - self.acceptance - self.step, 1e-4)


@cache
def kernel() -> Kernel:
    """The fitted kernel (knowledge/thresholds.yaml, own_runs_...)."""

    def number(name: str) -> float:
        return float(knowledge.threshold(f"own_runs_{name}").value)

    return Kernel(
        number("acceptance"),
        number("step"),
        number("spread"),
        tuple(number(f"acceptance_fade_{name}") for name in ACCEPTANCE_MEASURES),
        tuple(number(f"step_fade_{name}") for name in STEP_MEASURES),
    )


def places(raw: arrays.Points, full: arrays.Points) -> Floats:
    """Where each point lies, (N, 10); `raw` are the points as read, `full` the imputed ones.

    Parameters
    ----------
    raw : Points
        As read; N points.
    full : Points
        Filled, with a k; N points.

    Returns
    -------
    Floats
        Coordinates. (N, 10)
    """
    sizes = (np.round(40 * np.log(size / 1e6)) for size in (full.total_params, full.active_params))
    total, active = sizes
    numbers = [
        np.log2(np.maximum(full.concurrency, 1.0)),
        np.log2(SHORT_TOKENS + full.input_tokens),
        np.log2(np.maximum(full.k, 1.0)),
        raw.workload,
        full.method,
        1000 * total + active,
        full.quant_family,
        full.engine,
        full.metric == arrays.METRICS.index("output_tok_s"),
        full.metric == arrays.METRICS.index("ttft"),
    ]
    return np.column_stack([np.asarray(n, dtype=np.float64) for n in numbers])


def _decay(a: Floats, b: Floats, columns: dict[str, int], fades: tuple[float, ...]) -> Floats:
    distance = np.zeros((len(a), len(b)))
    for column, fade in zip(columns.values(), fades, strict=True):
        gap = np.abs(a[:, column, None] - b[None, :, column])
        distance += fade * (gap if column in GRADED else gap > 0)
    return np.asarray(np.exp(-distance))


def _draft_size(where: Floats) -> Floats:
    return np.asarray(np.log2(1 + np.exp2(where[:, LOG_K])) / np.log2(1 + USUAL_K))


def covariance(a: Floats, b: Floats, made: Kernel) -> Floats:
    """(A, B) covariance of the standardised misses at two sets of places. Those of the first token
    have nothing in common with the others.

    Parameters
    ----------
    a : Floats
        Places. (A, 10)
    b : Floats
        Places. (B, 10)
    made : Kernel
        The fitted kernel.

    Returns
    -------
    Floats
        (A, B)
    """
    size = np.outer(_draft_size(a), _draft_size(b))
    accepted = made.acceptance * size * _decay(a, b, ACCEPTANCE_MEASURES, made.acceptance_fade)
    step = made.step * _decay(a, b, STEP_MEASURES, made.step_fade)
    alike = np.all(np.abs(a[:, None, :] - b[None, :, :]) < 0.05, axis=2)
    same_kind = a[:, FIRST, None] == b[None, :, FIRST]
    return np.asarray(np.where(same_kind, accepted + step, 0.0) + made.setting * alike)


class Update(NamedTuple):
    """What own runs make of N predictions: `shift` of the mean in units of the predicted sd, and
    `scale` of the spread (N,).
    """

    shift: Floats
    scale: Floats


def update(
    where: Floats, own: Floats, misses: Floats, noise: Floats, made: Kernel | None = None
) -> Update:
    """Condition on own runs.

    Parameters
    ----------
    where : (N, 10) places of the predictions
    own : (M, 10) places of the own runs
    misses : (M,) measured less predicted log speed-up, over the predicted sd
    noise : (M,) sd of the measurement (log), over the predicted sd

    Returns
    -------
    Update
        shift and scale, (N,) each
    """
    made = made or kernel()
    total = covariance(own, own, made) + np.diag((noise / made.spread) ** 2 + 1e-6)
    across = covariance(where, own, made)
    solved = np.linalg.solve(total, across.T)
    prior = made.acceptance * _draft_size(where) ** 2 + made.step + made.setting
    left = 1.0 - np.einsum("ij,ji->i", across, solved) / prior
    return Update(np.asarray(solved.T @ misses), np.sqrt(np.clip(left, 0.02, 1.0)))


def as_row(run: OwnRun, metric: str) -> dict[str, str]:
    """An own run as a row of the measured runs, so that it is predicted like any other; its stated
    acceptance is left out, since the question that it answers has none.
    """
    values = {
        "model": run.model, "quant": run.quant, "hardware": run.hardware, "engine": run.engine,
        "engine_version": run.engine_version, "spec_method": run.method, "k": run.k,
        "concurrency": run.concurrency, "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens, "workload": run.workload, "tp": run.tp,
        "gpu_count": run.gpus, "speedup_metric": metric,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items() if value is not None}
