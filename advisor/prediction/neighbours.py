"""Measured pairs of the same cell pull a prediction towards what was measured there.

A cell is hardware, GPU count, model, quantisation family, kernel path and method; the first token
is a cell of its own. Within it the misses of the model are a Gaussian process over concurrency,
context, k, workload and metric. Pairs of one owner share what is special to that owner, so many
rows of one machine do not count as many witnesses, and a pair at the very spot outweighs a crowd
further off. Where a cell's misses are larger than the model thought possible, its spread grows;
where its pairs contradict each other, what is left between them stays in the spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.perf import arrays as pts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# between two owners of the same cell: drivers, power limits, prompts; 0.12 while few cells had
# two owners
RIG_SD = 0.2
ROW_SD = 0.045  # one published pair around its cell
TYPICAL_SD = 0.2  # what the model misses on average; a cell with larger misses has a larger spread
COVERS = 1.01  # factor 2 in concurrency and context counts as the same cell
NEAR = 0.3  # correlation from which a pair says something here
SHORT = 1024  # prompts below this hardly move a step
# How fast two pairs of a cell lose touch: exponent of their correlation per unit of distance
# (doublings; differs or not).
FADE = np.array([0.25, 0.2, 0.25, 0.15, 0.06, 0.1])
MEASURES = ("streams", "context", "log_k", "workload", "known", "metric")
YES_OR_NO = 3  # measures from here on only differ or agree

NUMBERS = (*MEASURES, "rig", "miss", "miss_unstated")


class Pull(NamedTuple):
    """Result of the update, (N,). `covered`: a pair of the cell at this k, within a factor 2;
    `near`: any pair of the cell.
    """

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
        np.round(
            np.nan_to_num(full.memory_bytes) / 1e9
        ),  # tells cards apart that share bandwidth and rate
    ]
    first = full.metric == pts.METRICS.index("ttft")
    parts = [*sizes, full.path, full.method, first, full.quant_family, full.engine]
    key = np.zeros(len(full), dtype=np.int64)
    for part in parts:
        key = (key * 1_000_003 + part.astype(np.int64)) % 1_099_511_627_689
    unknown = np.isnan(raw.bw) | np.isnan(raw.total_params)
    return np.where(unknown, -1, key)


def coordinates(raw: pts.Points, full: pts.Points, known: npt.NDArray[np.bool_]) -> Floats:
    """(N, len(MEASURES)): log2 concurrency, log2 context, log2 k, workload code, acceptance stated,
    whole load or one stream.
    """
    context = np.log2(SHORT + full.input_tokens)
    whole = full.metric == pts.METRICS.index(
        "output_tok_s"
    )  # request tok/s and TPOT are one thing seen twice
    k = np.log2(np.maximum(full.k, 1.0))
    numbers = [np.log2(full.concurrency), context, k, raw.workload, known, whole]
    return np.column_stack([np.asarray(n, dtype=np.float64) for n in numbers])


@dataclass(frozen=True)
class Nearby:
    """Misses of the model at the measured pairs: `keys` (E,) sorted, `rows` (E, len(NUMBERS))."""

    keys: Ints
    rows: Floats

    @classmethod
    def build(
        cls, keys: Ints, where: Floats, rigs: npt.NDArray[np.str_], miss: Floats, unstated: Floats
    ) -> Nearby:
        """`miss` (E,) of the model that uses a stated acceptance, `unstated` (E,) of the same model
        not told it.
        """
        keep = keys >= 0
        order = np.argsort(keys[keep], kind="stable")
        rig = np.unique(rigs, return_inverse=True)[1].astype(np.float64)
        return cls(keys[keep][order], np.column_stack([where, rig, miss, unstated])[keep][order])

    def pull(self, keys: Ints, where: Floats, mean: Floats, sd: Floats) -> Pull:
        """Update `mean` and `sd` of the points that share a cell with measured pairs."""
        out_mean, out_sd = mean.copy(), sd.copy()
        covered, near = np.zeros(len(mean), dtype=bool), np.zeros(len(mean), dtype=bool)
        known = where[:, MEASURES.index("known")] > 0
        if not len(self.keys):
            return Pull(out_mean, out_sd, covered, near)
        # np.isin and np.unique would import numpy.ma, which costs more than the whole update of one
        # question
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hit = np.flatnonzero(self.keys[place] == keys)
        for key in sorted(set(keys[hit].tolist())):
            first, last = np.searchsorted(self.keys, [key, key + 1])
            pairs = self.rows[first:last]
            for told in (False, True):
                rows = hit[(keys[hit] == key) & (known[hit] == told)]
                if len(rows):
                    shift, scale, left, near[rows] = _cell(pairs, where[rows], told)
                    out_mean[rows] = mean[rows] + shift
                    out_sd[rows] = np.sqrt(sd[rows] ** 2 * scale + left)
                    covered[rows] = _covered(pairs, where[rows])
        return Pull(out_mean, out_sd, covered, near)

    def to_dict(self) -> dict[str, Any]:
        cells, pairs = np.unique(self.keys, return_counts=True)
        return {
            "numbers": list(NUMBERS),
            "cells": cells.tolist(),
            "pairs": pairs.tolist(),
            "rows": [
                [_short(v, 2) for v in row[:-2]] + [_short(v, 3) for v in row[-2:]]
                for row in self.rows.tolist()
            ],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Nearby:
        keys = np.repeat(
            np.array(state["cells"], dtype=np.int64), np.array(state["pairs"], dtype=np.int64)
        )
        return cls(keys, np.array(state["rows"], float).reshape(-1, len(NUMBERS)))


def _short(value: float, places: int) -> float:
    """Rounded, and whole numbers without a point: the artefact stays small."""
    rounded = round(value, places)
    return int(rounded) if rounded == int(rounded) else rounded


def _correlation(a: Floats, b: Floats) -> Floats:
    """(A, B) correlation of the misses at two sets of places of one cell: falls exponentially with
    their distance.
    """
    distance = np.zeros((len(a), len(b)))
    for i, fade in enumerate(FADE):  # one measure at a time: a large batch stays in the cache
        gap = np.abs(a[:, i, None] - b[None, :, i])
        distance -= fade * (gap if i < YES_OR_NO else gap > 0)
    out: Floats = np.exp(distance, out=distance)
    return out


def _cell(
    pairs: Floats, where: Floats, told: bool
) -> tuple[Floats, Floats, Floats, npt.NDArray[np.bool_]]:
    """Of the points of one cell: mean miss, factor on their variance, variance to add, and whether
    a pair is near enough.

    To a question without a stated acceptance a pair tells its miss without one, so what is accepted
    there is learned too.
    """
    places, rig, m = pairs[:, : len(MEASURES)].copy(), pairs[:, -3], pairs[:, -2 if told else -1]
    where = where.copy()
    if not told:  # then all misses are of one kind
        places[:, MEASURES.index("known")] = where[:, MEASURES.index("known")] = 0.0
    between = _correlation(places, places)
    size = max(TYPICAL_SD**2, float(np.mean(m**2)))
    field = size * between
    total = field + RIG_SD**2 * (rig[:, None] == rig[None, :]) + ROW_SD**2 * np.eye(len(m))
    inverse = np.linalg.inv(total)
    weight = inverse @ m
    here = _correlation(where, places)
    touch = here.max(axis=1)
    told_share = np.clip(size * ((here @ inverse) * here).sum(axis=1), 0.0, 0.99)
    grown = 1 + (size / TYPICAL_SD**2 - 1) * touch
    close = np.square(np.square(here))
    apart = close @ (m - field @ weight) ** 2 / np.maximum(close.sum(axis=1), 1e-12)
    return size * (here @ weight), grown * (1 - told_share), apart * touch, touch >= NEAR


def _covered(pairs: Floats, where: Floats) -> npt.NDArray[np.bool_]:
    """Whether a pair of this metric's kind lies at this k, within a factor 2 of the load."""
    gap = np.abs(where[:, None, :3] - pairs[None, :, :3])
    k = np.abs(np.exp2(where[:, None, 2]) - np.exp2(pairs[None, :, 2]))
    same = (gap[:, :, 0] <= COVERS) & (gap[:, :, 1] <= COVERS) & (k < 0.5)
    return np.asarray(same.any(axis=1), dtype=np.bool_)
