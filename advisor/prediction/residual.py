"""What physics misses: a small Bayesian regression of log(measured / physics), shrunk towards 0.

One estimator, three kinds of terms, all with a Gaussian prior: shrunken intercepts of groups
(kernel path, method ...), straight lines, and a smooth surface on inducing points (a low-rank
Gaussian process). Its variance grows for unseen groups and away from the data. Prediction is numpy
only; `fit` is used by training. It does not know why a platform is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CHUNK = 8192
ROBUST = 2.0  # beyond this many sd a row's weight falls


@dataclass(frozen=True)
class Table:
    """Inputs of N points: continuous columns by name (standardised) and integer codes by name."""

    numbers: Mapping[str, Floats]
    codes: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    def take(self, index: npt.NDArray[Any] | slice) -> Table:
        return Table(
            {k: v[index] for k, v in self.numbers.items()},
            {k: v[index] for k, v in self.codes.items()},
        )


@dataclass(frozen=True)
class Group:
    """A shrunken intercept for every combination of some codes."""

    codes: tuple[str, ...]
    sd: float


@dataclass(frozen=True)
class Line:
    """A straight line in one number, in all points or only where `of` has the value `code`."""

    number: str
    sd: float
    of: str = ""
    code: int = 0


@dataclass(frozen=True)
class Surface:
    """A smooth function of some numbers (length scales in their units), of points that share some
    codes.
    """

    scales: tuple[tuple[str, float], ...]
    codes: tuple[str, ...]
    sd: float
    size: int = 96


Term = Group | Line | Surface


@dataclass(frozen=True)
class _Basis:
    """A term made concrete by the training rows."""

    term: Term
    levels: tuple[tuple[int, ...], ...] = ()
    centres: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    centre_codes: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    root: Floats = field(
        default_factory=lambda: np.zeros((0, 0))
    )  # whitening: features = k(x, centres) @ root

    @property
    def width(self) -> int:
        if isinstance(self.term, Group):
            return len(self.levels)
        return 1 if isinstance(self.term, Line) else self.root.shape[1]


def _codes(table: Table, names: Sequence[str]) -> Ints:
    if not names:
        return np.zeros((len(table), 1), dtype=np.int64)
    return np.column_stack([table.codes[name] for name in names]).astype(np.int64)


def _joined(codes: Ints) -> Ints:
    joined = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        joined = joined * 64 + column
    return joined


def _kernel(
    term: Surface, table: Table, centres: Floats, centre_codes: Ints
) -> npt.NDArray[np.float32]:
    x = np.column_stack([table.numbers[name] / scale for name, scale in term.scales]).astype(
        np.float32
    )
    c = centres.astype(np.float32)
    distance = x @ (-2 * c.T)
    distance += (x**2).sum(1)[:, None]
    distance += (c**2).sum(1)[None, :]
    np.maximum(distance, 0, out=distance)
    distance *= np.float32(-0.5)
    value: npt.NDArray[np.float32] = np.exp(distance, out=distance)
    if term.codes:
        value *= _joined(_codes(table, term.codes))[:, None] == _joined(centre_codes)[None, :]
    return value


def _make(term: Term, table: Table) -> _Basis:
    if isinstance(term, Group):
        return _Basis(
            term, levels=tuple(map(tuple, np.unique(_codes(table, term.codes), axis=0).tolist()))
        )
    if isinstance(term, Line):
        return _Basis(term)
    x = np.column_stack([table.numbers[name] / scale for name, scale in term.scales])
    codes = _codes(table, term.codes)
    chosen = _spread(x, codes, term.size)
    centres, centre_codes = x[chosen].astype(np.float32).astype(np.float64), codes[chosen]
    gram = _kernel(term, table.take(chosen), centres, centre_codes).astype(np.float64)
    values, vectors = np.linalg.eigh(gram + 1e-4 * np.eye(len(chosen)))
    keep = values > 3e-3
    return _Basis(
        term,
        centres=centres,
        centre_codes=centre_codes,
        root=vectors[:, keep] / np.sqrt(values[keep]),
    )


def _spread(x: Floats, codes: Ints, size: int) -> Ints:
    """Farthest-point choice of inducing rows; rows of other codes count as far away. Deterministic."""
    joined = _joined(codes)
    nearest = np.full(len(x), np.inf)
    chosen: list[int] = []
    pick = 0
    while len(chosen) < min(size, len(x)):
        chosen.append(pick)
        distance = ((x - x[pick]) ** 2).sum(axis=1) + 100.0 * (joined != joined[pick])
        nearest = np.minimum(nearest, distance)
        pick = int(nearest.argmax())
        if nearest[pick] < 1e-3:
            break
    return np.array(sorted(chosen), dtype=np.int64)


def _features(basis: _Basis, table: Table) -> tuple[npt.NDArray[np.floating[Any]], Floats]:
    """Columns scaled by the prior sd (N, width), and the prior variance that they leave out (N,)."""
    term = basis.term
    n = len(table)
    if isinstance(term, Group):
        here = _joined(_codes(table, term.codes))
        levels = _joined(np.array(basis.levels, dtype=np.int64).reshape(len(basis.levels), -1))
        same = here[:, None] == levels[None, :]
        return same * term.sd, np.where(same.any(axis=1), 0.0, term.sd**2)
    if isinstance(term, Line):
        value = table.numbers[term.number] * term.sd
        if term.of:
            value = np.where(table.codes[term.of] == term.code, value, 0.0)
        return value[:, None], np.zeros(n)
    kernel = _kernel(term, table, basis.centres, basis.centre_codes) @ basis.root.astype(np.float32)
    return kernel * np.float32(term.sd), term.sd**2 * np.maximum(1 - (kernel**2).sum(axis=1), 0.0)


@dataclass(frozen=True)
class Residual:
    """A fitted regression: bases, coefficients and the lower factor of their covariance."""

    bases: tuple[_Basis, ...]
    beta: Floats
    factor: Floats  # covariance = factor @ factor.T
    group_sd: float  # spread between sources that nothing explains

    def predict(self, table: Table) -> tuple[Floats, Floats, Floats]:
        """Mean, variance and novelty (N,) of the residual of a new source, replicate noise not
        included.

        Novelty is the share of the smooth terms' prior variance that the data leave open: 0 amid
        data, 1 far from any.
        """
        out = np.zeros((3, len(table)))
        for start in range(0, len(table), CHUNK):
            part = slice(start, min(start + CHUNK, len(table)))
            out[:, part] = self._predict(table.take(part))
        return out[0], out[1], out[2]

    def _predict(self, table: Table) -> tuple[Floats, Floats, Floats]:
        n = len(table)
        left, open_share, smooth = np.zeros(n), np.zeros(n), 0
        columns = np.empty((n, len(self.beta)), dtype=np.float32)
        at = 0
        for basis in self.bases:
            made, rest = _features(basis, table)
            columns[:, at : at + basis.width] = made
            at += basis.width
            left += rest
            if isinstance(basis.term, Surface):
                open_share += rest / basis.term.sd**2
                smooth += 1
        spread = columns @ self.factor.astype(np.float32)
        mean = (columns @ self.beta.astype(np.float32)).astype(np.float64)
        return mean, (spread**2).sum(axis=1) + left + self.group_sd**2, open_share / max(smooth, 1)

    def to_dict(self) -> dict[str, Any]:
        return {
            "terms": [_basis_dict(basis) for basis in self.bases],
            "beta": [float(f"{b:.4g}") for b in self.beta],
            "factor": [
                float(f"{v:.2g}") for v in self.factor[np.tril_indices(len(self.beta))]
            ],  # lower triangle, row by row
            "group_sd": round(self.group_sd, 4),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Residual:
        beta = np.array(state["beta"], float)
        factor = np.zeros((len(beta), len(beta)))
        factor[np.tril_indices(len(beta))] = state["factor"]
        return cls(tuple(map(_basis_from, state["terms"])), beta, factor, float(state["group_sd"]))


def _basis_dict(basis: _Basis) -> dict[str, Any]:
    term = basis.term
    if isinstance(term, Group):
        return {
            "kind": "group",
            "codes": list(term.codes),
            "sd": term.sd,
            "levels": [list(x) for x in basis.levels],
        }
    if isinstance(term, Line):
        return {
            "kind": "line",
            "number": term.number,
            "sd": term.sd,
            "of": term.of,
            "code": term.code,
        }
    return {
        "kind": "surface", "scales": [list(s) for s in term.scales], "codes": list(term.codes), "sd": term.sd,
        "centres": [[float(f"{v:.4g}") for v in row] for row in basis.centres],
        "centre_codes": basis.centre_codes.tolist(),
        "root": [[float(f"{v:.3g}") for v in row] for row in basis.root],
    }  # fmt: skip


def _basis_from(state: Mapping[str, Any]) -> _Basis:
    if state["kind"] == "group":
        return _Basis(
            Group(tuple(state["codes"]), state["sd"]), levels=tuple(map(tuple, state["levels"]))
        )
    if state["kind"] == "line":
        return _Basis(Line(state["number"], state["sd"], state["of"], state["code"]))
    scales = tuple((str(name), float(scale)) for name, scale in state["scales"])
    return _Basis(
        Surface(scales, tuple(state["codes"]), state["sd"], len(state["centres"])),
        centres=np.array(state["centres"], float),
        centre_codes=np.array(state["centre_codes"], dtype=np.int64),
        root=np.array(state["root"], float),
    )


def fit(
    terms: Sequence[Term],
    table: Table,
    target: Floats,
    noise_sd: Floats,
    groups: npt.NDArray[np.str_],
    group_sd: float = 0.10,
    steps: int = 6,
) -> Residual:
    """Fit to rows with their own noise sd; `groups` (sources or rigs) have effects of their own
    that are not carried over.

    Robust: rows far from the fit lose weight. `group_sd` is re-estimated from the fitted effects.
    Deterministic.
    """
    bases = tuple(_make(term, table) for term in terms)
    columns = (
        np.hstack([_features(basis, table)[0].astype(np.float64) for basis in bases])
        if bases
        else np.zeros((len(table), 0))
    )
    _, which = np.unique(groups, return_inverse=True)
    effects = np.eye(which.max() + 1)[which]
    p = columns.shape[1]
    weight = np.ones(len(target))
    beta, covariance = np.zeros(p), np.zeros((p, p))
    for _ in range(steps):
        full = np.hstack([columns, effects * group_sd])
        precision = weight / noise_sd**2
        hessian = (full * precision[:, None]).T @ full + np.eye(full.shape[1])
        inverse = np.linalg.inv(hessian)
        solution = inverse @ (full.T @ (precision * target))
        miss = (target - full @ solution) / noise_sd
        weight = 1 / np.maximum(1.0, (np.abs(miss) / ROBUST))
        beta, covariance = (
            np.asarray(solution[:p], dtype=np.float64),
            np.asarray(inverse[:p, :p], dtype=np.float64),
        )
        left = solution[p:] ** 2 + np.diag(inverse)[p:]
        group_sd = float(np.clip(group_sd * np.sqrt(left.mean()), 0.03, 0.4))
    factor: Floats = np.zeros((0, 0))
    if p:
        factor = np.asarray(np.linalg.cholesky(covariance + 1e-10 * np.eye(p)), dtype=np.float64)
    return Residual(bases, beta, factor, group_sd)
