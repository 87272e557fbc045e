"""rows -> estimator -> models/speedup.json. Seeded by having no chance in it: same data and code,
same bytes.

`run` trains and writes, `check` trains again and compares, `stale` compares hashes only (fast). The
shipped settings are those of
`fitting.Setting()`; `evaluate` shows what they win over their rivals on sources that were left out.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.domain.paths import knowledge_dir, models_dir
from advisor.lab.evaluation import scores as evaluate_scores
from advisor.lab.progress import bar
from advisor.lab.training import dataset as training_data
from advisor.lab.training import fitting
from advisor.prediction.features import CODES, UNITS
from advisor.prediction.predict import ARTEFACT

SCHEMA = 1
# Modules whose text decides the artefact: a change in one of them asks for training again.
CODE = (
    "acceptance", "acceptance_fit", "calibrate", "constants", "features", "fitted", "fitting", "kernel_paths", "load", "nearby",
    "physics", "points", "points_fill", "points_read", "prompt_cost", "residual", "rows", "schedule", "training_data",
    "verify_kernels",
)  # fmt: skip


def code_hash() -> str:
    """Hash of the modules that training runs through."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for name in CODE:
        digest.update(name.encode() + b"\0" + (here / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def facts_hash() -> str:
    """Hash of the hardware, models and quantisations that rows are read with."""
    digest = hashlib.sha256()
    for part in ("hardware", "llms", "quants"):
        for path in sorted((knowledge_dir() / part).rglob("*")):
            if path.is_file():
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def train(progress: Any = iter) -> dict[str, Any]:
    """The artefact as a dictionary: model, hashes, units, and scores of the left-out predictions
    behind its intervals.
    """
    hashes = {"data": training_data.data_hash(), "facts": facts_hash(), "code": code_hash()}
    examples = training_data.examples(uses=("train",))
    observations = training_data.observations()
    chords = fitting.slopes(examples, observations)
    left_out = fitting.cross_predict(
        examples, observations, examples.fold, chords, progress=progress
    )
    model = fitting.fit(examples, observations, chords, fitting.Setting(absolute=True))
    model = replace(model, calibration=fitting.calibration_from(left_out, examples))
    return {
        "generated": "by `advisor train` from knowledge/measurements; do not edit",
        "schema": SCHEMA,
        "hashes": hashes,
        "units": UNITS,
        "codes": list(CODES),
        "rows": len(examples),
        "folds": len(set(examples.fold.tolist())),
        "scores": evaluate_scores.headline(examples, left_out),
        "model": model.to_dict(),
    }


def text(artefact: dict[str, Any]) -> str:
    """The artefact's bytes: one key a line at the top, compact below."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
        for key, value in artefact.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def single_thread() -> AbstractContextManager[object]:
    """Linear algebra in one thread: sums in a fixed order, and the other cores left alone."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


def run(out: Path | None = None) -> str:
    """Train and write. Returns one line for the user."""
    where = out or models_dir() / ARTEFACT
    with single_thread():
        artefact = train(_progress())
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(text(artefact), encoding="utf-8")
    return f"{where.name}: {artefact['rows']} examples, {artefact['folds']} folds, {where.stat().st_size // 1024} kB"


def _progress() -> Any:
    return bar("folds")


def stale() -> list[str]:
    """Reasons why the shipped artefact no longer fits data, facts or code; empty if it does."""
    where = models_dir() / ARTEFACT
    if not where.is_file():
        return [f"{ARTEFACT} is missing; run `advisor train`"]
    noted = json.loads(where.read_text(encoding="utf-8")).get("hashes", {})
    now = {"data": training_data.data_hash(), "facts": facts_hash(), "code": code_hash()}
    words = {
        "data": "measured rows",
        "facts": "hardware, models or quantisations",
        "code": "features or fitting code",
    }
    return [
        f"{words[key]} changed since {ARTEFACT} was trained; run `advisor train`"
        for key in now
        if noted.get(key) != now[key]
    ]


def check() -> list[str]:
    """Train again and compare: hashes, and every number to within a ten-thousandth (other CPUs
    round sums in another order).
    """
    where = models_dir() / ARTEFACT
    reasons = stale()
    if reasons:
        return reasons
    shipped = where.read_text(encoding="utf-8")
    with single_thread():
        made = text(train(_progress()))
    if made == shipped:
        return []
    gap = _largest_gap(json.loads(shipped)["scores"], json.loads(made)["scores"])
    return [f"training gives other bytes than {ARTEFACT}; the largest gap of a score is {gap:.2g}"]


def _largest_gap(a: Any, b: Any) -> float:
    if isinstance(a, dict) and isinstance(b, dict):
        return max((_largest_gap(a[k], b.get(k)) for k in a), default=0.0)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b)
    return 0.0 if a == b else float("inf")
