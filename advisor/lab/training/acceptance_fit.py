"""Fit the acceptance model: a penalised least-squares fit of log(tokens per step), with one effect
a source.

Used by training only. Observations are stated acceptance lengths, rates, and prefixes of
per-position tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.perf.arrays import MAX_K, Points, concat
from advisor.prediction.acceptance import (
    COLUMNS,
    MEASURED_SD,
    NUMBER_COLUMNS,
    STEPS_DOWN,
    AcceptanceModel,
    common_design,
    log_gradient,
    position_design,
    sigmoid,
    tokens_per_step,
)

Floats = npt.NDArray[np.float64]

# Where the coefficients are drawn to, in logits: MTP heads publish about 0.82 at the first
# position, falling slowly; a lookup on text that does not repeat itself accepts little. Source: the
# published per-position tables in acceptance/; EAGLE-3 on Llama-3.1-8B, MT-Bench: 3.53 tokens a
# step at k = 7 (vllm-project/vllm #26191); EAGLE there 1.89 at k = 2 (#16035).
CENTRE = {
    "method:mtp": 1.35,
    "method:eagle": 0.7,
    "method:eagle3": 1.1,
    "method:draft_model": 1.0,
    "method:ngram": -1.2,
    "method:dflash": 0.9,
    "method:dspark": 1.1,
    "slope:one": -0.20,
    "slope:block": -0.15,
    "slope:guess": -0.1,
}
SPREAD = {
    "method": 0.8,
    "workload": 0.3,
    "family": 0.25,
    "block*": 0.4,
    "slope": 0.15,
    "position": 0.12,
}
NUMBER_SPREAD = {
    "temperature": 0.3,
    "thinking": 0.3,
    "depth": 0.08,
    "low_bits": 0.1,
    "log_active": 0.1,
    "moe": 0.2,
    "p_min": 0.8,
    "tree": 0.3,
}
ROW_SD = 0.09  # sd of log(tau) of one row around its source's level: prompts, lengths, rounding
START_SOURCE_SD = 0.35
STEPS = 12


@dataclass(frozen=True)
class Observations:
    """M acceptances: `points` (workload, method ...), k and log(tokens per step), the source of
    each, and its own sd.

    Stated ones come from the publications. Implied ones (source names end in IMPLIED) are what a
    measured speed-up asks for at the cycle cost that physics expects: their source effects soak up
    errors of the cost, and only contrasts within a source teach.
    """

    points: Points
    k: Floats
    log_tau: Floats
    source: npt.NDArray[np.str_]
    sd: Floats

    def without(self, sources: set[str]) -> Observations:
        """Return the observations of all other sources."""
        keep = ~np.isin(self.source, list(sources))
        return Observations(
            self.points.take(keep),
            self.k[keep],
            self.log_tau[keep],
            self.source[keep],
            self.sd[keep],
        )

    def plus(self, other: Observations) -> Observations:
        """Return both sets of observations, one after the other."""
        return Observations(
            concat([self.points, other.points]),
            np.concatenate([self.k, other.k]),
            np.concatenate([self.log_tau, other.log_tau]),
            np.concatenate([self.source, other.source]),
            np.concatenate([self.sd, other.sd]),
        )


IMPLIED = "~speed"


def _penalty() -> tuple[Floats, Floats]:
    centre = np.array([CENTRE.get(name, 0.0) for name in COLUMNS])
    spread = []
    for name in COLUMNS:
        group = (
            name.split(":")[0] if ":" in name else ("block*" if name.startswith("block*") else name)
        )
        spread.append(NUMBER_SPREAD[name] if name in NUMBER_COLUMNS else SPREAD[group])
    return centre, np.array(spread)


def _jacobian(beta: Floats, common: Floats, slopes: Floats, k: Floats) -> tuple[Floats, Floats]:
    c, s = common.shape[1], slopes.shape[1]
    mean = (
        (common @ beta[:c])[:, None]
        + np.outer(slopes @ beta[c : c + s], STEPS_DOWN)
        + beta[c + s : c + s + MAX_K]
    )
    a = sigmoid(mean)
    g = log_gradient(a, k)
    jac = np.hstack([common * g.sum(axis=1)[:, None], slopes * (g @ STEPS_DOWN)[:, None], g])
    return np.log(tokens_per_step(a, k)), jac


def fit(observations: Observations) -> AcceptanceModel:
    """Coefficients, their covariance and the spread between sources. Deterministic."""
    names, which = np.unique(observations.source, return_inverse=True)
    stated = ~np.char.endswith(names, IMPLIED)
    common, slopes = common_design(observations.points), position_design(observations.points)
    centre, spread = _penalty()
    p = len(centre)
    source_sd = START_SOURCE_SD
    beta, effect = centre.copy(), np.zeros(len(names))
    rows = np.arange(len(which))
    weight = _row_weight(which)
    for _ in range(STEPS):
        shifted = np.hstack([common, effect[which][:, None]])
        value, jac = _jacobian(
            np.concatenate([beta[: common.shape[1]], [1.0], beta[common.shape[1] :]]),
            shifted,
            slopes,
            observations.k,
        )
        jac = np.delete(jac, common.shape[1], axis=1)
        by_source = np.zeros((len(rows), len(names)))
        by_source[rows, which] = jac[:, p - MAX_K : p].sum(
            axis=1
        )  # a source shifts all positions alike
        full = np.hstack([jac, by_source])
        prior = np.concatenate([(centre - beta) / spread**2, -effect / source_sd**2])
        precision = np.concatenate([1 / spread**2, np.full(len(names), 1 / source_sd**2)])
        miss = observations.log_tau - value
        row_sd = np.hypot(observations.sd, MEASURED_SD)
        robust = weight / (1 + (miss / (2.5 * row_sd)) ** 2) / row_sd**2
        hessian = (full * robust[:, None]).T @ full + np.diag(precision)
        step = np.linalg.solve(hessian, full.T @ (robust * miss) + prior)
        beta = beta + np.clip(step[:p], -0.5, 0.5)
        effect = effect + np.clip(step[p:], -0.5, 0.5)
        inverse = np.linalg.inv(hessian)
        if stated.any():
            source_sd = float(np.sqrt(np.mean((effect**2 + np.diag(inverse)[p:])[stated])))
    return AcceptanceModel(beta, inverse[:p, :p], source_sd)


def _row_weight(which: npt.NDArray[np.int64]) -> Floats:
    """Rows of one source share at most about 25 rows' worth of weight: they are not independent."""
    count = np.bincount(which)
    weight: Floats = np.minimum(1.0, 25.0 / count[which])
    return weight
