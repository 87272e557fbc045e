"""Freshness by behaviour: what the shipped model predicts for a fixed probe of measured runs.

The artefact carries those predictions, a hash of the measured values that it was trained on, and
its scores. Code, facts or data that change what is predicted are noticed; a renamed file, an alias
or a comment is not. What it does not notice: a change that only a configuration outside the probe
would show; training again (`advisor train --check`) does.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.lab.measurements.schema import measurements_dir, read_acceptance, read_runs
from advisor.lab.training.dataset import Examples
from advisor.prediction import predict
from advisor.prediction.model import Model

Floats = npt.NDArray[np.float64]

SIZE = 500  # configurations in the probe
TOLERANCE = 1e-4  # of a log speed-up or a score: what processors differ by is far smaller
DIGITS = 6
# Who wrote a row down and where does not enter training.
_UNREAD = frozenset({"use_why"})
# The worst scores with which a trained model may ship: (path in the scores, sense, bound). The
# bounds are the scores of the model of 2026-11-23 with a twentieth of slack.
FLOORS: tuple[tuple[tuple[str, ...], str, float], ...] = (
    (("known", "median_ape"), "most", 0.176),
    (("hidden", "median_ape"), "most", 0.219),
    (("known", "coverage"), "least", 0.76),
    (("known", "coverage"), "most", 0.90),
    (("hidden", "coverage"), "least", 0.76),
    (("hidden", "coverage"), "most", 0.90),
    (("decision", "loss_on"), "most", 0.12),
    (("decision", "loss_off"), "least", 0.45),
    (("decision", "loss_on_hidden"), "most", 0.12),
    (("decision", "gain_curve_hidden"), "most", 0.08),
    (("k_regret", "mean"), "most", 0.049),
)


def data_hash(folder: Path | None = None) -> str:
    """Hash of the measured values that training reads.

    Parameters
    ----------
    folder : Path, optional
        A measurements folder; default: the shipped one.

    Returns
    -------
    str
        16 hexadecimal digits. Names of files, the order of rows and columns and the spelling of
        numbers do not enter.
    """
    where = folder or measurements_dir()
    runs = [
        {
            name: value
            for name, value in row.run.model_dump().items()
            if name not in _UNREAD and value not in (None, "")
        }
        for row in read_runs(where)[0]
    ]
    accepted = [
        {name: value for name, value in row.model_dump().items() if value not in (None, "")}
        for row in read_acceptance(where)[0]
    ]
    lines = sorted(json.dumps(row, sort_keys=True) for row in [*runs, *accepted])
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def probe_rows(examples: Examples) -> npt.NDArray[np.int64]:
    """Which examples are predicted: each hardware, model, engine, method and metric in turn.

    Parameters
    ----------
    examples : Examples
        M examples.

    Returns
    -------
    ndarray of int, shape (min(M, SIZE),)
        Indices, in an order that does not depend on the order of the examples.
    """
    order = np.lexsort((examples.metric, examples.run_id))
    groups: dict[tuple[str, ...], list[int]] = {}
    for i in order.tolist():
        e = examples
        key = (e.hardware[i], e.model[i], e.engine[i], e.method[i], e.metric[i])
        groups.setdefault(tuple(map(str, key)), []).append(i)
    ranked = sorted((rank, key, i) for key, rows in groups.items() for rank, i in enumerate(rows))
    return np.array([i for _, _, i in ranked[:SIZE]], dtype=np.int64)


def predictions(model: Model, examples: Examples) -> list[list[float]]:
    """Log of p10, p50 and p90 of the speed-up for the rows of the probe, rounded."""
    found = predict.predict_points(examples.points.take(probe_rows(examples)), model)
    table = np.log(np.stack([found.p10, found.p50, found.p90], axis=1))
    rounded: list[list[float]] = np.round(table, DIGITS).tolist()
    return rounded


def gap(one: Any, other: Any) -> float:
    """The largest difference between two trees of numbers; infinite where their shapes differ.

    Parameters
    ----------
    one : Any
        Numbers, lists or dicts of them.
    other : Any
        Same.

    Returns
    -------
    float
        Absolute difference.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return float("inf")
        return max((gap(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return float("inf")
        return max((gap(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other)
    return 0.0 if one == other else float("inf")


def below_floor(scores: dict[str, Any]) -> list[str]:
    """One sentence for each score that is worse than its floor."""
    out = []
    for path, sense, bound in FLOORS:
        value: Any = scores
        for name in path:
            value = value[name]
        if (value > bound) if sense == "most" else (value < bound):
            out.append(f"{'.'.join(path)} is {value:.4f}; it must be at {sense} {bound}")
    return out
