"""A user's own A/B runs pull the predictions for that machine towards what was measured there.

What the model misses on one machine goes together: over its loads, draft lengths and models. Misses in units of their own
standard deviation are a Gaussian process over these; an own run is one observation of it with the noise of its measurement.
The parameters are fitted by maximum likelihood to the left-out misses of published sources (`advisor evaluate --calibrated`).
What it does not know: whether the machine has changed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge
from advisor.perf import arrays as pts

Floats = npt.NDArray[np.float64]

SHORT = 1024  # prompts below this hardly move a step
MEASURES = ("streams", "context", "k", "workload", "method", "model", "quant", "engine", "metric")
GRADED = 3  # the first measures are distances; the others agree or differ


class Kernel(NamedTuple):
    """Shares of the standardised misses' variance: `machine` common to all, `local` to what is near, the rest to a row.

    `first` is the correlation of the common part between the first token and the other metrics; `fade` (len(MEASURES),)
    the exponent per unit of distance.
    """

    machine: float
    local: float
    first: float
    fade: tuple[float, ...]

    @property
    def row(self) -> float:
        return max(1.0 - self.machine - self.local, 1e-4)


@cache
def kernel() -> Kernel:
    """The fitted kernel. Raises UnknownFact where knowledge has none."""
    fade = tuple(float(knowledge.threshold(f"own_runs_fade_{name}").value) for name in MEASURES)
    machine, local, first = (
        float(knowledge.threshold(f"own_runs_{name}").value)
        for name in ("machine", "local", "first")
    )
    return Kernel(machine, local, first, fade)


def places(raw: pts.Points, full: pts.Points) -> Floats:
    """(N, len(MEASURES) + 1): where each point lies; the last column is 1 for the first token."""
    model = np.round(40 * np.log(full.total_params / 1e6)) * 1000 + np.round(
        40 * np.log(full.active_params / 1e6)
    )
    first = full.metric == pts.METRICS.index("ttft")
    whole = full.metric == pts.METRICS.index("output_tok_s")
    numbers = [
        np.log2(np.maximum(full.concurrency, 1.0)),
        np.log2(SHORT + full.input_tokens),
        np.log2(np.maximum(full.k, 1.0)),
        raw.workload,
        full.method,
        model,
        full.quant_family,
        full.engine,
        whole,
        first,
    ]
    return np.column_stack([np.asarray(n, dtype=np.float64) for n in numbers])


def covariance(a: Floats, b: Floats, made: Kernel) -> Floats:
    """(A, B) covariance of the standardised misses at two sets of places, without their row's own part."""
    distance = np.zeros((len(a), len(b)))
    for i, fade in enumerate(made.fade):
        gap = np.abs(a[:, i, None] - b[None, :, i])
        distance += fade * (gap if i < GRADED else gap > 0)
    same = a[:, -1, None] == b[None, :, -1]
    common = np.where(same, 1.0, made.first) * made.machine
    return np.asarray(common + np.where(same, made.local, 0.0) * np.exp(-distance))


class Update(NamedTuple):
    """What own runs make of N predictions: `shift` of the mean and `scale` of the sd, in units of the old sd. (N,)"""

    shift: Floats
    scale: Floats


def update(
    where: Floats, own: Floats, misses: Floats, noise: Floats, made: Kernel | None = None
) -> Update:
    """Condition on own runs.

    Parameters
    ----------
    where : (N, len(MEASURES) + 1) places of the predictions
    own : (M, len(MEASURES) + 1) places of the own runs
    misses : (M,) measured less predicted log speed-up, over the predicted sd
    noise : (M,) sd of the measurement, over the predicted sd

    Returns
    -------
    Update : shift and scale, (N,) each
    """
    made = made or kernel()
    total = covariance(own, own, made) + np.diag(noise**2 + 1e-6)
    # a repeated setting shares its own part, too
    total += made.row * _same(own, own)
    across = covariance(where, own, made) + made.row * _same(where, own)
    solved = np.linalg.solve(total, across.T)
    shift = solved.T @ misses
    left = 1.0 - np.einsum("ij,ji->i", across, solved)
    return Update(np.asarray(shift), np.sqrt(np.clip(left, 0.02, 1.0)))


def _same(a: Floats, b: Floats) -> Floats:
    return np.asarray(
        np.all(np.abs(a[:, None, :] - b[None, :, :]) < 0.05, axis=2), dtype=np.float64
    )


def log_likelihood(where: Floats, misses: Floats, made: Kernel) -> float:
    """Of the standardised misses of one owner under a kernel."""
    total = covariance(where, where, made) + made.row * np.eye(len(where))
    try:
        root = np.linalg.cholesky(total + 1e-6 * np.eye(len(where)))
    except np.linalg.LinAlgError:
        return -np.inf
    half = np.linalg.solve(root, misses)
    return float(-0.5 * half @ half - np.log(np.diag(root)).sum())


def as_row(run: Mapping[str, Any], metric: str) -> dict[str, str]:
    """An own run as a row of the measured runs, so that it is predicted like any other; acceptance is left out."""
    names = (
        "model", "quant", "hardware", "engine", "engine_version", "spec_method", "k", "concurrency", "input_tokens",
        "output_tokens", "workload", "tp", "gpu_count",
    )  # fmt: skip
    row = {name: str(run[name]) for name in names if run.get(name) not in (None, "")}
    return row | {"speedup_metric": metric}
