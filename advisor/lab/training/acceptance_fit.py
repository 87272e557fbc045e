"""Fit the acceptance model: penalised least squares of log(tokens per step)."""

import re
from typing import NamedTuple, Self

import numpy as np

from advisor.lab.arrays import Floats, Words
from advisor.perf.arrays import MAX_K, Points, concat
from advisor.prediction import acceptance as acc

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


class AcceptanceObservations(NamedTuple):
    """Acceptances: `points`, k, log(tokens per step), the source of each, its own sd. Implied ones
    (source names end in IMPLIED) are what a measured speed-up asks for at the cost that physics
    expects: only contrasts within a source teach.
    """

    points: Points
    k: Floats
    log_tau: Floats
    source: Words
    sd: Floats

    def without(self, sources: set[str]) -> Self:
        """Return the observations of all other sources."""
        keep = ~np.isin(self.source, list(sources))
        return type(self)._make([self.points.take(keep), *(column[keep] for column in self[1:])])

    def plus(self, other: Self) -> Self:
        """Return both sets of observations, one after the other."""
        columns = zip(self[1:], other[1:], strict=True)
        points = concat([self.points, other.points])
        return type(self)._make([points, *(np.concatenate(pair) for pair in columns)])


IMPLIED = "~speed"


def _linearise(
    beta: Floats, effect: Floats, common: Floats, slopes: Floats, k: Floats
) -> tuple[Floats, Floats]:
    """log(tokens per step) and its derivatives by the coefficients."""
    base, slope, position = np.split(beta, [common.shape[1], common.shape[1] + slopes.shape[1]])
    logit = (common @ base + effect)[:, None] + np.outer(slopes @ slope, acc.STEPS_DOWN) + position
    rates = acc.sigmoid(logit)
    g = acc.log_gradient(rates, k)
    jac = np.hstack([common * g.sum(axis=1)[:, None], slopes * (g @ acc.STEPS_DOWN)[:, None], g])
    return np.log(acc.tokens_per_step(rates, k)), jac


def fit(observations: AcceptanceObservations) -> acc.AcceptanceModel:
    """Coefficients, their covariance and the spread between sources. Deterministic."""
    names, which = np.unique(observations.source, return_inverse=True)
    stated = ~np.char.endswith(names, IMPLIED)
    common, slopes = (
        acc.common_design(observations.points),
        acc.position_design(observations.points),
    )
    # where each coefficient is drawn to, and how widely it may spread around it
    centre = np.array([CENTRE.get(name, 0.0) for name in acc.COLUMNS])
    groups = (re.sub(r"(?<=^block\*).*|:.*", "", name) for name in acc.COLUMNS)
    spread = np.array([SPREAD[group] for group in groups])
    p, source_sd = len(centre), START_SOURCE_SD
    beta, effect = centre.copy(), np.zeros(len(names))
    # rows of one source share at most about 25 rows' worth of weight: they are not independent
    weight = np.minimum(1.0, 25.0 / np.bincount(which)[which])
    row_sd = np.hypot(observations.sd, acc.MEASURED_SD)
    for _ in range(STEPS):
        value, jac = _linearise(beta, effect[which], common, slopes, observations.k)
        shift = jac[:, p - MAX_K :].sum(axis=1)  # a source shifts all positions alike
        full = np.hstack([jac, np.eye(len(names))[which] * shift[:, None]])
        prior = np.concatenate([(centre - beta) / spread**2, -effect / source_sd**2])
        precision = np.concatenate([1 / spread**2, np.full(len(names), 1 / source_sd**2)])
        miss = observations.log_tau - value
        robust = weight / (1 + (miss / (2.5 * row_sd)) ** 2) / row_sd**2
        hessian = (full * robust[:, None]).T @ full + np.diag(precision)
        step = np.clip(np.linalg.solve(hessian, full.T @ (robust * miss) + prior), -0.5, 0.5)
        beta, effect = beta + step[:p], effect + step[p:]
        inverse = np.linalg.inv(hessian)
        if stated.any():
            source_sd = float(np.sqrt(np.mean((effect**2 + np.diag(inverse)[p:])[stated])))
    return acc.AcceptanceModel(beta, inverse[:p, :p], source_sd)
