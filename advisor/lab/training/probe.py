"""Freshness by behaviour: what the shipped model predicts for a fixed probe of measured runs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor.lab.arrays import Index
from advisor.lab.measurements.schema import measurements_dir, read_acceptance, read_runs
from advisor.lab.training.dataset import Examples
from advisor.prediction import predict
from advisor.prediction.model import Model

SIZE = 500  # configurations in the probe
TOLERANCE = 1e-4  # of a log speed-up or a score: what processors differ by is far smaller
DIGITS = 6
# The worst scores with which a trained model may ship: (path in the scores, sense, bound). The
# bounds are the scores of the model of 2026-11-23 with a twentieth of slack.
FLOORS: tuple[tuple[tuple[str, str], str, float], ...] = (
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
    """Hash of the measured values that training reads, whatever their files, order or spelling."""
    where = folder or measurements_dir()
    rows = [row.run for row in read_runs(where)[0]] + read_acceptance(where)[0]
    values = (row.model_dump(exclude={"use_why"}) for row in rows)  # a reason does not train
    lines = sorted(
        json.dumps({n: v for n, v in row.items() if v not in (None, "")}, sort_keys=True)
        for row in values
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def probe_rows(examples: Examples) -> Index:
    """At most SIZE examples: each hardware, model, engine, method and metric in turn."""
    e = examples
    key = pd.DataFrame([e.hardware, e.model, e.engine, e.method, e.metric]).T
    ordered = key.iloc[np.lexsort((e.metric, e.run_id))]
    rank = ordered.groupby(list(ordered)).cumcount()
    ranked = ordered.assign(rank=rank, at=ordered.index).sort_values(["rank", *ordered, "at"])
    return np.asarray(ranked["at"].to_numpy()[:SIZE], dtype=np.intp)


def predictions(model: Model, examples: Examples) -> list[list[float]]:
    """Log of p10, p50 and p90 of the speed-up for the rows of the probe, rounded."""
    guess = predict.predict_points(examples.points.take(probe_rows(examples)), model)
    table = np.log(np.stack([guess.p10, guess.p50, guess.p90], axis=1))
    rounded: list[list[float]] = np.round(table, DIGITS).tolist()
    return rounded


def largest_gap(one: Any, other: Any) -> float:
    """The largest difference between two trees of numbers; infinite where their shapes differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return float("inf")
        one, other = list(one.values()), [other[key] for key in one]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(largest_gap, one, other), default=0.0)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other)
    return 0.0 if one == other else float("inf")


def below_floor(scores: dict[str, Any]) -> list[str]:
    """One sentence for each score that is worse than its floor."""
    out = []
    for (part, name), sense, bound in FLOORS:
        value = scores[part][name]
        if (value > bound) if sense == "most" else (value < bound):
            out.append(f"{part}.{name} is {value:.4f}; it must be at {sense} {bound}")
    return out
