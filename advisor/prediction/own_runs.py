"""A user's own A/B runs pull the predictions for that machine towards what was measured there.

A miss has two parts, each a Gaussian process of its own: what was accepted (as large as what the
model leaves open) and what a cycle cost; misses of the first token are a third. A run is one
observation of the sum, with the noise of its measurement, and one of the acceptance where that is
stated. The parameters have the smallest error on the other halves of published sources (`advisor
evaluate`). What it does not know: whether the machine has changed since.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import arrays
from advisor.perf.arrays import Floats
from advisor.prediction.neighbours import SHORT

LEAST_SD = sourced(
    0.05, "log ratio", "In a row runs of one machine differ by 0.045 (accuracy review)", "measured"
)
ACCEPTED_SD = sourced(
    0.03, "log ratio", "A run of some hundred drafts states its mean length within 3 %", "assumed"
)
LEAST_LEFT = sourced(
    0.02, "share", "Of a variance that any number of own runs leaves: machines change", "chosen"
)
JITTER = sourced(1e-6, "log ratio squared", "Keeps a matrix of equal rows invertible", "chosen")
# Columns of `places`; the last three add to the distances of others
(STREAMS, CONTEXT, LOG_K, WORKLOAD, METHOD, MODEL, QUANT, ENGINE, WHOLE, FIRST,
 GPUS, KV, RELEASE) = range(13)  # fmt: skip
GRADED = (STREAMS, CONTEXT, LOG_K)  # distances; the others agree or differ
ACCEPTED_MEASURES = {
    "context": CONTEXT, "k": LOG_K, "workload": WORKLOAD, "method": METHOD, "model": MODEL,
    "engine": ENGINE,
}  # fmt: skip
STEP_MEASURES = {
    "streams": STREAMS, "context": CONTEXT, "k": LOG_K, "workload": WORKLOAD, "method": METHOD,
    "model": MODEL, "quant": QUANT, "engine": ENGINE, "metric": WHOLE,
}  # fmt: skip
FIRST_MEASURES = {"streams": STREAMS, "context": CONTEXT, "model": MODEL, "engine": ENGINE}
OTHER_RELEASE = sourced(
    0.25, "share", "own choice: of the distance of another engine, which shares nothing", "chosen"
)
SIZE_STEPS = sourced(
    40, "per e-fold", "own choice: models whose sizes differ by 2.5 % are two", "chosen"
)
ALONE_FADE = sourced(
    1.5, "exponent", "own choice: a fifth of what is one setting's own is left at twice its load",
    "chosen",
)  # fmt: skip
APART_FADE = sourced(
    0.25, "share", "own choice: of ALONE_FADE, for what two metrics differ by near a load", "chosen"
)
ONE_PLACE = sourced(
    0.15, "doublings", "own choice: of load or context, as advice/own_runs/cells.py", "chosen"
)


class Kernel(NamedTuple):
    """Variances of the parts of a miss, and how fast they fade (exponent per unit of distance:
    a doubling of load, context or draft length, or differs).

    `accepted` is in units of the variance that the model leaves open for acceptance, the others in
    units of the predicted variance; `setting` belongs to one setting and those beside it (of the
    first token all that is not shared); `narrow` is the share of what own runs explain by which the
    spread is narrowed.
    """

    accepted: float
    step: float
    first: float
    setting: float
    narrow: float
    accepted_fade: tuple[float, ...]
    step_fade: tuple[float, ...]
    first_fade: tuple[float, ...]
    apart: float = 0.0  # of one metric's own near a setting, see `_with_apart`


@cache
def kernel() -> Kernel:
    """The fitted kernel (knowledge/thresholds.yaml, own_runs_...)."""

    def number(name: str) -> float:
        return float(knowledge.threshold(f"own_runs_{name}").value)

    measures = {"accepted": ACCEPTED_MEASURES, "step": STEP_MEASURES, "first": FIRST_MEASURES}
    fades = (tuple(number(f"{part}_fade_{x}") for x in names) for part, names in measures.items())
    return Kernel._make((*map(number, (*measures, "setting", "narrow")), *fades, 0.0))


class Places(NamedTuple):
    """Where N predictions lie: coordinates (N, 13), the variance that acceptance leaves open and
    the predicted standard deviation, both of the log speed-up (N,).
    """

    where: Floats
    open: Floats
    sd: Floats

    def take(self, index: npt.NDArray[Any]) -> Places:
        """Return the places at these positions (M,)."""
        return Places(self.where[index], self.open[index], self.sd[index])


class Observations(NamedTuple):
    """M own runs: `total` measured less predicted log speed-up, `noise` its standard deviation,
    `accepted` the part of it that the stated acceptance explains, NaN where none is stated; `held`
    the standard deviation that how many requests run at once adds to the places', `log` what was
    measured (M,).
    """

    at: Places
    total: Floats
    noise: Floats
    accepted: Floats
    held: Floats | None = None
    log: Floats = np.zeros(0)


def places(raw: arrays.Points, full: arrays.Points) -> Floats:
    """Where each point lies, (N, 13); `raw` as read, `full` imputed, with a k."""
    sizes = np.stack([full.total_params, full.active_params])
    total, active = np.round(SIZE_STEPS * np.log(sizes / 1e6))
    numbers = [
        np.log2(np.maximum(full.concurrency, 1.0)),
        np.log2(SHORT + full.input_tokens),
        np.log2(np.maximum(full.k, 1.0)),
        raw.workload,
        full.method,
        1000 * total + active,
        full.quant_family,
        full.engine,
        full.metric == arrays.METRICS.index("output_tok_s"),
        full.metric == arrays.METRICS.index("ttft"),
        np.log2(np.fmax(np.fmax(full.gpus, full.tp), 1.0)),
        full.kv_bytes,
        np.nan_to_num(full.version),
    ]
    return np.column_stack([np.asarray(n, dtype=np.float64) for n in numbers])


def distances(a: Floats, b: Floats) -> Floats:
    """Differences (..., A, B, 10) of places (..., A, 13) and (..., B, 13), 0 or 1 where not graded.
    A doubling of the GPUs adds one of the load, other KV types count as other weights.
    """
    apart = np.abs(a[..., :, None, :] - b[..., None, :, :])
    gap = np.where(np.arange(GPUS) < len(GRADED), apart[..., :GPUS], apart[..., :GPUS] > 0)
    gap[..., STREAMS] += apart[..., GPUS]
    gap[..., QUANT] = np.fmax(gap[..., QUANT], apart[..., KV] > 0)
    gap[..., ENGINE] = np.fmax(gap[..., ENGINE], OTHER_RELEASE * (apart[..., RELEASE] > 0))
    return np.asarray(gap)


class Parts(NamedTuple):
    """Covariances of the misses at two sets of places, log ratios squared, (..., A, B) each."""

    accepted: Floats
    rest: Floats  # of the step, or of the first token, and of the setting


def covariance(
    gap: Floats,
    a: Places,
    b: Places,
    made: Kernel,
    held: tuple[Floats | None, Floats | None] = (None, None),
) -> Parts:
    """Covariance of the misses at two sets of places. Those of the first token have nothing in
    common with the others. Log ratios squared (..., A, B); `gap` holds their `distances` (..., A,
    B, 10), `held` what how many requests run adds at each, as a standard deviation.
    """

    def fade(columns: dict[str, int], fades: tuple[float, ...]) -> Floats:
        return np.asarray(np.exp(-(gap[..., list(columns.values())] @ np.array(fades))))

    def outer(x: Floats, y: Floats) -> Floats:
        return np.asarray(x[..., :, None] * y[..., None, :])

    both = outer(a.where[..., FIRST], b.where[..., FIRST])
    none = outer(1 - a.where[..., FIRST], 1 - b.where[..., FIRST])
    same = np.all(gap[..., len(GRADED) :] == 0, axis=-1)
    alike = same * np.exp(-ALONE_FADE * gap[..., list(GRADED)].sum(axis=-1))
    accepted = none * made.accepted * fade(ACCEPTED_MEASURES, made.accepted_fade)
    near = fade(STEP_MEASURES, made.step_fade)
    first = made.first * both * fade(FIRST_MEASURES, made.first_fade)
    # of the first token hardly anything is shared, but the setting's own
    alone = alike * (made.setting * none + max(1 - made.first, 0.0) * both)
    alone += alike**APART_FADE * made.apart * none
    rest = outer(a.sd, b.sd) * (made.step * none * near + first + alone)
    if held[0] is not None and held[1] is not None:
        rest = rest + outer(held[0], held[1]) * near
    return Parts(outer(np.sqrt(a.open), np.sqrt(b.open)) * accepted, rest)


def _with_apart(own: Observations, gap: Floats, made: Kernel) -> Kernel:
    """The kernel with what throughput and TPOT of one run differ by, beyond their noise."""
    i, j = np.nonzero(np.triu((gap[..., WHOLE] > 0) & (gap.sum(axis=-1) == 1)))
    beyond = (own.total[i] - own.total[j]) ** 2 - own.noise[i] ** 2 - own.noise[j] ** 2
    prior = np.maximum(own.at.sd[i] ** 2 + own.at.sd[j] ** 2, 1e-12)
    return made._replace(apart=float(np.sum(np.maximum(beyond, 0.0) / prior)) / max(len(i), 1))


def disagreement(gap: Floats, value: Floats, noise: Floats) -> Floats:
    """Variance with which the next run of a place is open because the own ones there differ beyond
    their noise: between runs (DerSimonian and Laird, of one noise) and of their mean; 0 where they
    agree or there is one (M,). `gap`: (M, M, G).
    """
    one = np.all(gap <= np.where(np.arange(gap.shape[-1]) < LOG_K, ONE_PLACE, 0), axis=-1)
    weights, count = one / noise**2, one.sum(axis=1)
    whole = weights.sum(axis=1)
    away = value - (weights @ value / whole)[:, None]
    birge = (weights * away**2).sum(axis=1) / np.maximum(count - 1, 1)
    return np.asarray(np.maximum(birge - 1, 0.0) * (count + 1) / whole)


class Update(NamedTuple):
    """What own runs make of N log speed-ups, (N,) each."""

    shift: Floats
    accepted: Floats  # part of the shift
    scale: Floats  # of the sd
    kept: Floats  # of what they explain, although runs of one place differ: 1 where they agree
    told: Floats  # share of the variance that they explain, as far as it is kept


def update(
    there: Places, own: Observations, made: Kernel | None = None, held: Floats | None = None
) -> Update:
    """Condition predictions on own runs: log ratios and scale of the spread, (N,) each. `held`: as
    of the observations, of the predictions.
    """
    told = np.flatnonzero(np.isfinite(own.accepted))
    gap, both_held = distances(own.at.where, own.at.where), (own.held, own.held)
    made = _with_apart(own, gap, made or kernel())
    inside = covariance(gap, own.at, own.at, made, both_held)
    aside = distances(there.where, own.at.where)
    across = covariance(aside, there, own.at, made, (held, own.held))
    # each run's stated acceptance is one observation more
    total = np.block(
        [
            [inside.accepted + inside.rest, inside.accepted[:, told]],
            [inside.accepted[told], inside.accepted[np.ix_(told, told)]],
        ]
    )
    noise = np.concatenate([own.noise, np.full(len(told), float(ACCEPTED_SD))])
    root = np.linalg.inv(total + np.diag(noise**2 + JITTER))
    accepted = np.hstack([across.accepted, across.accepted[:, told]])
    both = np.hstack([across.accepted + across.rest, across.accepted[:, told]])
    explained = np.einsum("ij,jk,ik->i", both, root, both)
    added = 0.0 if held is None else held**2
    prior = np.maximum((1 + made.apart * (1 - there.where[:, FIRST])) * there.sd**2 + added, 1e-12)
    left = np.clip(1.0 - made.narrow * explained / prior, LEAST_LEFT, 1.0)
    near = np.exp(-aside.sum(axis=-1) / 2) * (aside[..., FIRST] == 0)
    differ = (near * disagreement(gap, own.total, own.noise)).max(axis=1)
    square = left + differ / np.maximum(there.sd**2 + added, 1e-12)
    clear = np.fmax(1.0 - square, 0.0)
    kept = (clear + LEAST_LEFT) / (1.0 - left + LEAST_LEFT)
    weights = root @ np.concatenate([own.total, own.accepted[told]])
    return Update(both @ weights, accepted @ weights, np.sqrt(square), kept, kept * clear)
