"""Measured pairs of the same cell: whether a question was measured, and part of what was missed.

A cell is hardware, GPU count, model, quantisation family, kernel path and method; the first token
is a cell of its own. What a model misses at another owner's pair says little about the next owner,
so a prediction leans by `stranger_weight` towards the misses of the nearest pairs with a stated
acceptance, each owner one witness; spreads are not narrowed. What did win or lose there says more
of the sign: with the whole miss of the nearest pairs a point lies on one side of 1, and that moves
its odds of a gain by up to `measured_sign` in log, fading with their distance. Where the point's
own acceptance is stated, what was accepted elsewhere is left out of it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.domain.records import Record
from advisor.domain.sourced import sourced
from advisor.perf import arrays
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.prediction.cell_pairs import MEASURES, Groups, Pull, group_pairs, of_cell

SHORT = sourced(1024, "tokens", "Prompts below this hardly move a step", "assumed")
NUMBERS = (*MEASURES, "rig", "whole", "miss")
# Steps in one unit of each of them in the artefact, where they are 16 bit integers.
STEPS = np.array([100.0] * len(MEASURES) + [1.0, 1000.0, 1000.0])
_MOST = 32767  # of a 16 bit integer of the artefact
_UNKNOWN = -32768  # stands for NaN
# of a hash: a factor and a modulus, both prime
_FACTOR, _PRIME = 1_000_003, 1_099_511_627_689  # pragma: no mutate


def cell_keys(raw: arrays.Points, full: arrays.Points) -> Ints:
    """One integer a cell; -1 where hardware or model has no known name (N,). `raw` are the points
    as read, `full` the imputed ones with a k.

    Names and not numbers: a corrected bandwidth is the same card, and a model whose shape is taken
    from another one is priced as that one and so has its misses.
    """
    first = full.metric == arrays.METRICS.index("ttft")
    parts = [full.gpus, full.path, full.method, first, full.quant_family, full.engine]
    key = np.zeros(len(full), dtype=np.int64)
    for part in (np.nan_to_num(raw.hardware_name), np.nan_to_num(raw.model_name), *parts):
        key = (key * _FACTOR + part.astype(np.int64)) % _PRIME
    return np.where(np.isnan(raw.hardware_name) | np.isnan(raw.model_name), -1, key)


def coordinates(raw: arrays.Points, full: arrays.Points) -> Floats:
    """log2 concurrency, log2 context, log2 k, workload code, whole load or one stream: (N,
    len(MEASURES)). `raw` are the points as read, `full` the imputed ones with a k.
    """
    context = np.log2(SHORT + full.input_tokens)
    # request tok/s and TPOT are one thing seen twice, and all three are where one request runs
    whole = (full.metric == arrays.METRICS.index("output_tok_s")) & (full.concurrency > 1)
    k = np.log2(np.maximum(full.k, 1.0))
    numbers = [np.log2(full.concurrency), context, k, raw.workload, whole]
    return np.column_stack([np.asarray(n, dtype=np.float64) for n in numbers])


class Nearby(Record):
    """Misses of the model at the measured pairs: `keys` (E,) sorted, `rows` (E, len(NUMBERS))."""

    keys: Ints
    rows: Floats

    @cached_property
    def _groups(self) -> dict[int, Groups]:
        """The groups of the cells that were asked for, by the first row of each."""
        return {}

    def groups(self, key: int) -> Groups:
        """The groups of a cell's pairs, made once."""
        first, last = np.searchsorted(self.keys, [key, key + 1]).tolist()
        if first not in self._groups:
            self._groups[first] = group_pairs(self.rows[first:last])
        return self._groups[first]

    @classmethod
    def build(
        cls, keys: Ints, where: Floats, rigs: npt.NDArray[np.str_], whole: Floats, miss: Floats
    ) -> Nearby:
        """The measured rows in the order of their cells. `keys`: what must be equal, as one number
        (E,); `where`: places (E, D); `rigs`: whose they are; `whole`: measured log speed-up less
        the one predicted without a stated acceptance; `miss`: the same with it, NaN where none is
        stated.
        """
        keep = keys >= 0
        order = np.argsort(keys[keep], kind="stable")
        rig = np.unique(rigs, return_inverse=True)[1].astype(np.float64)
        return cls(keys[keep][order], np.column_stack([where, rig, whole, miss])[keep][order])

    def pull(self, keys: Ints, where: Floats, mean: Floats, known: Mask) -> Pull:
        """Update the `mean` of the points that share a cell with measured pairs. `keys`: cell of
        each point, -1 for none (N,); `where`: coordinates (N, C); `known`: whether the point's own
        acceptance is stated.
        """
        pull = Pull.none(len(mean))._replace(mean=mean.copy())
        if not len(self.keys):
            return pull
        # np.isin and np.unique would import numpy.ma, which costs more than the whole update of one
        # question
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hit = np.flatnonzero(self.keys[place] == keys)
        order = hit[np.argsort(keys[hit], kind="stable")]
        starts = np.flatnonzero(np.diff(keys[order], prepend=-2))
        for rows in np.split(order, starts[1:]) if len(order) else []:
            made = of_cell(self.groups(int(keys[rows[0]])), where[rows], mean[rows], known[rows])
            for column, of_rows in zip(pull[1:], made[1:], strict=True):
                column[rows] = of_rows
            pull.mean[rows] += made.mean
        return pull

    def to_dict(self) -> dict[str, Any]:
        """Return the measured rows and their keys in a compact form."""
        cells, pairs = np.unique(self.keys, return_counts=True)
        return {
            "numbers": list(NUMBERS),
            "cells": cells.tolist(),
            "pairs": pairs.tolist(),
            "packed": _pack(self.rows, STEPS),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Nearby:
        """Return the neighbours of a saved state. Raises KeyError where a part is missing."""
        keys = np.repeat(np.array(state["cells"], dtype=np.int64), state["pairs"])
        return cls(keys, _unpack(state["packed"], STEPS))


def _pack(rows: Floats, steps: Floats) -> str:
    """Rows (E, D) as base64 of little-endian int16, row by row; `steps` (D,) is a unit each."""
    whole = np.round(rows * steps)
    whole = np.where(np.isnan(whole), _UNKNOWN, np.clip(whole, -_MOST, _MOST)).astype("<i2")
    return b64encode(whole.tobytes()).decode()


def _unpack(text: str, steps: Floats) -> Floats:
    """The rows of what `_pack` gives (E, D). Raises ValueError for text that is none."""
    whole = np.frombuffer(b64decode(text, validate=True), dtype="<i2").astype(np.float64)
    whole[whole == _UNKNOWN] = np.nan
    return np.asarray(whole.reshape(-1, len(steps)) / steps)
