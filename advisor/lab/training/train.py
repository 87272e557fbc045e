"""rows -> estimator -> models/speedup.json, deterministic; and whether that still holds: by what it
predicts for a fixed probe of measured runs.
"""

import hashlib
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from advisor.domain.paths import models_dir, seal
from advisor.lab.arrays import Index
from advisor.lab.evaluation import scores
from advisor.lab.measurements.schema import measurements_dir, read_acceptance, read_runs
from advisor.lab.training import bounds, dataset, fitting, left_out
from advisor.lab.training.dataset import Examples
from advisor.prediction import predict
from advisor.prediction.artefact import ARTEFACT, SCHEMA
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
    (("decision", "gain_curve_hidden"), "most", 0.10),  # of 280 rows
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


def train() -> dict[str, Any]:
    """The artefact: model, hashes, and scores of the left-out predictions behind its intervals."""
    examples = dataset.examples(uses=("train",))
    observations = dataset.observations()
    chords = fitting.slopes(examples, observations)
    fit = left_out.cross_predict(examples, observations, examples.fold, chords)
    model = fitting.fit(examples, observations, chords, fitting.FitSetting(absolute=True))
    weight = left_out.row_weight(examples.fold)
    spread, calibration, chosen = left_out.learn(vars(fit), examples, weight)
    model = model.replace(spread=spread, calibration=calibration)
    model = Model.from_dict(json.loads(json.dumps(model.to_dict())))  # as rounded in the artefact
    return {
        "generated": "by `advisor train` from knowledge/measurements; do not edit",
        "schema": SCHEMA,
        "data": data_hash(),
        "rows": len(examples),
        "sources_left_out": len(set(examples.fold.tolist())),
        "groups": left_out.GROUPS,
        "bounds": chosen._asdict(),
        "scores": scores.headline(examples, fit),
        "probe": predictions(model, dataset.examples()),
        "model": model.to_dict(),
    }


def text(artefact: dict[str, Any]) -> str:
    """The artefact's bytes: one key a line at the top, compact below."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
        for key, value in artefact.items()
    ]
    return seal("{\n" + ",\n".join(lines) + "\n}\n")


def single_thread() -> AbstractContextManager[object]:
    """Linear algebra in one thread: sums in a fixed order, and the other cores left alone."""
    return cast("AbstractContextManager[object]", threadpool_limits(1))


def run(out: Path | None = None) -> str:
    """Train and write. Returns one line for the user."""
    where = out or models_dir() / ARTEFACT
    with single_thread():
        artefact = train()
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(text(artefact), encoding="utf-8")
    return (
        f"{where.name}: {artefact['rows']} examples, {artefact['sources_left_out']} sources "
        f"left out, {where.stat().st_size // 1024} kB"
    )


def stale() -> list[str]:
    """Reasons why the shipped artefact no longer fits the data, the facts or the code; empty if it
    does. Takes seconds: nothing is trained.
    """
    where = models_dir() / ARTEFACT
    if not where.is_file():
        return [f"{ARTEFACT} is missing; run `advisor train`"]
    shipped = json.loads(where.read_text(encoding="utf-8"))
    if shipped.get("schema") != SCHEMA:
        return [f"{ARTEFACT} has another layout; run `advisor train`"]
    reasons = below_floor(shipped["scores"])
    reasons += bounds.differs(bounds.Bounds(**shipped["bounds"]))
    if shipped["data"] != data_hash():
        reasons.append(f"measured values changed since {ARTEFACT} was trained; run `advisor train`")
        return reasons
    with single_thread():
        now = predictions(Model.from_dict(shipped["model"]), dataset.examples())
    gap = largest_gap(shipped["probe"], now)
    if gap > TOLERANCE:
        reasons.append(
            f"facts or code changed what {ARTEFACT} predicts (by up to {gap:.2g} in log "
            "speed-up); run `advisor train`"
        )
    return reasons


def check() -> list[str]:
    """Train again and compare what is predicted and the scores; empty if they agree."""
    reasons = stale()
    if reasons:
        return reasons
    shipped = json.loads((models_dir() / ARTEFACT).read_text(encoding="utf-8"))
    with single_thread():
        again = json.loads(text(train()))
    for part in ("probe", "scores"):
        gap = largest_gap(shipped[part], again[part])
        if gap > TOLERANCE:
            reasons.append(
                f"training again gives another {part} than {ARTEFACT}: it differs by up to "
                f"{gap:.2g}"
            )
    return reasons + below_floor(again["scores"])
