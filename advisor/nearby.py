"""Measured pairs of the same cell pull a prediction towards what was measured there.

A cell is hardware, GPU count, model, quantisation family, kernel path, method and metric. Within it each measured pair says by how
much the model missed; the misses are averaged with weights that fall with the distance in concurrency, context, k and
workload, and enter as one noisy observation (replicates, another rig, the distance). A proper update: the prior keeps its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor import points as pts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RIG_SD = 0.12  # between two owners of the same cell: drivers, power limits, prompts
ROW_SD = 0.045  # one published pair around its cell
PER_DOUBLING_SD = 0.08  # per factor 2 of concurrency or context
PER_K_SD = 0.06  # per drafted token of difference
WORKLOAD_SD = 0.10  # another, or an unstated, workload
STATED_SD = 0.05  # the pair had a stated acceptance and the question does not, or the other way round
REACH = 0.35  # beyond this sd a pair says nothing here
COVERS = 1.001  # factor 2 in concurrency and context counts as the same cell

NUMBERS = ("streams", "context", "k", "workload", "known", "miss")


class Pull(NamedTuple):
    """Result of the update, (N,). `covered`: a pair of the cell at this k, within a factor 2; `near`: any pair of the cell."""

    mean: Floats
    sd: Floats
    covered: npt.NDArray[np.bool_]
    near: npt.NDArray[np.bool_]


def cell_keys(raw: pts.Points, full: pts.Points) -> Ints:
    """One integer a cell; -1 where hardware or model is not known. (N,)"""
    sizes = [
        np.round(40 * np.log(full.bw / 1e9)),
        np.round(10 * np.log(full.fp32 / 1e9)),
        np.round(40 * np.log(full.active_params / 1e6)),
        np.round(40 * np.log(full.total_params / 1e6)),
        full.gpus,
        np.round(np.nan_to_num(full.memory_bytes) / 1e9),  # tells cards apart that share bandwidth and rate
    ]
    parts = [*sizes, full.path, full.method, full.metric, full.quant_family, full.engine]
    key = np.zeros(len(full), dtype=np.int64)
    for part in parts:
        key = (key * 1_000_003 + part.astype(np.int64)) % 1_099_511_627_689
    unknown = np.isnan(raw.bw) | np.isnan(raw.total_params)
    return np.where(unknown, -1, key)


def coordinates(raw: pts.Points, full: pts.Points, known: npt.NDArray[np.bool_]) -> Floats:
    """(N, 5): log2 concurrency, log2 context, k, workload code, acceptance stated."""
    context = np.log2(256 + full.input_tokens)
    return np.column_stack(
        [np.log2(full.concurrency), context, full.k, full.workload.astype(float), known.astype(float)]
    )


@dataclass(frozen=True)
class Nearby:
    """Misses of the model at the measured pairs: `keys` (E,) sorted, `rows` (E, len(NUMBERS))."""

    keys: Ints
    rows: Floats

    @classmethod
    def build(cls, keys: Ints, where: Floats, miss: Floats) -> Nearby:
        keep = keys >= 0
        order = np.argsort(keys[keep], kind="stable")
        return cls(keys[keep][order], np.column_stack([where, miss])[keep][order])

    def pull(self, keys: Ints, where: Floats, mean: Floats, sd: Floats) -> Pull:
        """Update `mean` and `sd` of the points that share a cell with measured pairs."""
        out_mean, out_sd = mean.copy(), sd.copy()
        covered, near = np.zeros(len(mean), dtype=bool), np.zeros(len(mean), dtype=bool)
        hit = np.flatnonzero(np.isin(keys, self.keys))
        for key in np.unique(keys[hit]):
            rows = hit[keys[hit] == key]
            first, last = np.searchsorted(self.keys, [key, key + 1])
            pairs = self.rows[first:last]
            shift, variance, same = _cell(pairs, where[rows])
            gain = sd[rows] ** 2 / (sd[rows] ** 2 + variance)
            gain = np.where(np.isfinite(variance), gain, 0.0)
            out_mean[rows] = mean[rows] + gain * np.nan_to_num(shift)
            out_sd[rows] = sd[rows] * np.sqrt(1 - gain)
            covered[rows], near[rows] = same, np.isfinite(variance)
        return Pull(out_mean, out_sd, covered, near)

    def to_dict(self) -> dict[str, Any]:
        return {
            "numbers": list(NUMBERS),
            "keys": self.keys.tolist(),
            "rows": [[float(f"{v:.4g}") for v in row] for row in self.rows],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Nearby:
        return cls(np.array(state["keys"], dtype=np.int64), np.array(state["rows"], float).reshape(-1, len(NUMBERS)))


def _cell(pairs: Floats, where: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Mean miss, its variance (inf: no pair near enough) and whether a pair covers each point of one cell."""
    gap = np.abs(where[:, None, :] - pairs[None, :, :5])
    other_work = np.where(gap[:, :, 3] > 0, WORKLOAD_SD, 0.0)
    variance = (
        ROW_SD**2 + (PER_DOUBLING_SD * gap[:, :, 0]) ** 2 + (PER_DOUBLING_SD * gap[:, :, 1]) ** 2
        + (PER_K_SD * gap[:, :, 2]) ** 2 + other_work**2 + (STATED_SD * gap[:, :, 4]) ** 2
    )  # fmt: skip
    weight = np.where(variance < REACH**2, 1 / variance, 0.0)
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (weight * pairs[None, :, 5]).sum(axis=1) / total
        apart = (weight * (pairs[None, :, 5] - shift[:, None]) ** 2).sum(
            axis=1
        ) / total  # pairs that contradict each other
        spread = RIG_SD**2 + np.where(total > 0, 1 / total + apart, np.inf)
    same = (gap[:, :, 0] <= COVERS) & (gap[:, :, 1] <= COVERS) & (gap[:, :, 2] < 0.5)
    covered = np.asarray(same.any(axis=1), dtype=np.bool_)
    return shift, spread, covered
