"""rows -> estimator -> models/speedup.json. Deterministic."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from advisor.domain.paths import models_dir, seal
from advisor.lab.evaluation import scores
from advisor.lab.progress import bar
from advisor.lab.training import bounds, dataset, fitting, left_out, probe
from advisor.prediction.artefact import ARTEFACT, SCHEMA
from advisor.prediction.model import Model


def train(progress: Any = iter) -> dict[str, Any]:
    """The artefact: model, hashes, and scores of the left-out predictions behind its intervals."""
    examples = dataset.examples(uses=("train",))
    observations = dataset.observations()
    chords = fitting.slopes(examples, observations)
    fit = left_out.cross_predict(examples, observations, examples.fold, chords, progress=progress)
    model = fitting.fit(examples, observations, chords, fitting.FitSetting(absolute=True))
    weight = left_out.row_weight(examples.fold)
    spread, calibration, chosen = left_out.learn(vars(fit), examples, weight)
    model = model.replace(spread=spread, calibration=calibration)
    model = Model.from_dict(json.loads(json.dumps(model.to_dict())))  # as rounded in the artefact
    return {
        "generated": "by `advisor train` from knowledge/measurements; do not edit",
        "schema": SCHEMA,
        "data": probe.data_hash(),
        "rows": len(examples),
        "sources_left_out": len(set(examples.fold.tolist())),
        "groups": left_out.GROUPS,
        "bounds": chosen._asdict(),
        "scores": scores.headline(examples, fit),
        "probe": probe.predictions(model, dataset.examples()),
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
        artefact = train(bar("folds"))
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
    reasons = probe.below_floor(shipped["scores"])
    reasons += bounds.differs(bounds.Bounds(**shipped["bounds"]))
    if shipped["data"] != probe.data_hash():
        reasons.append(f"measured values changed since {ARTEFACT} was trained; run `advisor train`")
        return reasons
    with single_thread():
        now = probe.predictions(Model.from_dict(shipped["model"]), dataset.examples())
    gap = probe.largest_gap(shipped["probe"], now)
    if gap > probe.TOLERANCE:
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
        again = json.loads(text(train(bar("folds"))))
    for part in ("probe", "scores"):
        gap = probe.largest_gap(shipped[part], again[part])
        if gap > probe.TOLERANCE:
            reasons.append(
                f"training again gives another {part} than {ARTEFACT}: it differs by up to "
                f"{gap:.2g}"
            )
    return reasons + probe.below_floor(again["scores"])
