"""`advisor evaluate`: the model and the baselines on sources they have not seen, and the model card
from it.

Protocol. Primary split: each source is left out by itself (a community table of many machines rig
by rig), so that no figure hangs on which sources are left out together. Beside it, in 20 groups:
the table as one source, hardware, engines, and the weak rows (use=eval) that never train. Averages
are over sources, not over rows; intervals are bootstrapped over them. Stated acceptances are used
("known") or ignored everywhere ("unknown").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.domain.paths import models_dir
from advisor.lab.evaluation import baselines as baseline_models
from advisor.lab.evaluation import calibrated, card, card_targets, own_decisions
from advisor.lab.evaluation.result import Evaluation
from advisor.lab.progress import bar
from advisor.lab.training import acceptance_fit, dataset, fitting, left_out, train
from advisor.lab.training.dataset import Examples
from advisor.lab.training.fitting import Setting, Slopes
from advisor.lab.training.left_out import LeftOut
from advisor.prediction import acceptance as acc

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]

CARD = "speedup.md"
PUBLISHED = "physics, published constants"


def run(out: Path | None = None, fast: bool = False) -> str:
    """Evaluate, write the card into `out` (default models/); return the card's summary."""
    with train.single_thread():
        found = evaluate(fast, bar("left-out fits"))
    folder = out or models_dir()
    folder.mkdir(parents=True, exist_ok=True)
    text = card.card(found)
    if not fast:
        (folder / CARD).write_text(text, encoding="utf-8")
    return card_targets.summary(found)


def run_calibrated() -> str:
    """Train without each source (minutes), then score predictions calibrated with own runs."""
    with train.single_thread():
        made = evaluate(True, bar("left-out fits"))
        rows = calibrated.rows_of(made.examples, made.shipped)
        kernels = calibrated.kernels_by_owner(rows)
        return own_decisions.report(rows, kernels)


def evaluate(fast: bool = False, progress: Any = iter) -> Evaluation:
    """All left-out predictions. `fast`: the primary split of the shipped settings only."""
    examples = dataset.examples(uses=("train",))
    observations = dataset.observations()
    chords = fitting.slopes(examples, observations)

    def cross(
        labels: Words, setting: Setting | None = None, groups: int = left_out.GROUPS
    ) -> LeftOut:
        return left_out.cross_predict(
            examples, observations, labels, chords, setting, progress=progress, groups=groups
        )

    alone = len(set(examples.fold.tolist()))
    shipped = cross(examples.fold, groups=alone)
    candidates: dict[str, LeftOut] = {}
    splits: dict[str, tuple[Words, LeftOut]] = {}
    weak = None
    if not fast:
        candidates = {
            PUBLISHED: cross(examples.fold, Setting(constants=False, nearby=False), alone),
            "physics, fitted constants": cross(examples.fold, Setting(nearby=False), alone),
            "+ a fifth of nearby misses (shipped)": shipped,
        }
        for name, labels in (
            ("community table as one source", examples.source),
            ("hardware left out", examples.hardware),
            ("engines left out", examples.engine),
        ):
            splits[name] = (labels, cross(labels))
        weak = _weak_rows(examples, observations, chords, progress)
    return Evaluation(
        examples,
        shipped,
        candidates,
        baselines(examples, shipped),
        splits,
        weak,
        acceptance_errors(observations),
    )


def _weak_rows(
    examples: Examples, observations: acceptance_fit.Observations, chords: Slopes, progress: Any
) -> tuple[Examples, LeftOut]:
    """Rows that never train (use=eval), each predicted without its own source."""
    rows = dataset.examples(uses=("eval",))
    rows = rows.take(np.flatnonzero(rows.primary & (rows.metric != "ttft")))
    found = left_out.cross_predict(
        examples,
        observations,
        examples.source,
        chords,
        extra=(rows, rows.source),
        progress=progress,
    )
    return rows, found


def baselines(examples: Examples, shipped: LeftOut) -> dict[str, Floats]:
    """Log speed-ups of every baseline, acceptance known where stated.

    Parameters
    ----------
    examples : Examples
        M measured pairs.
    shipped : LeftOut
        Left-out predictions of the shipped settings.

    Returns
    -------
    dict of str to Floats
        By name of the baseline. (M,) each
    """
    out = {name: rule(examples, examples.fold) for name, rule in baseline_models.LEARNED.items()}
    tau = baseline_models.given_tau(examples, shipped.tau_hidden)
    return out | {
        name: rule(examples.points, tau) for name, rule in baseline_models.FORMULAS.items()
    }


def acceptance_errors(observations: acceptance_fit.Observations) -> list[dict[str, Any]]:
    """Error of tokens per step by source, each predicted by an acceptance model that has not seen
    it.
    """
    out = []
    fixed = np.array([0.82, 0.78, 0.75, 0.73, 0.71, 0.70, 0.70, 0.70])
    groups = left_out.group_labels(observations.source)
    models = {
        group: acceptance_fit.fit(observations.without(set(observations.source[groups == group])))
        for group in np.unique(groups).tolist()
    }
    for source in np.unique(observations.source):
        here = observations.source == source
        model = models[groups[here][0]]
        points = observations.points.take(here).replace(k=observations.k[here])
        belief = acc.believe(model, points, hide=True)
        error = np.log(belief.tau) - observations.log_tau[here]
        plain = np.log(acc.tokens_per_step(np.tile(fixed, (here.sum(), 1)), observations.k[here]))
        out.append(
            {
                "source": str(source),
                "rows": int(here.sum()),
                "mtp": bool((points.method == 1).all()),
                "bias": float(error.mean()),
                "error": float(np.abs(error).mean()),
                "fixed": float(np.abs(plain - observations.log_tau[here]).mean()),
                "z": float(np.sqrt(np.mean((error / belief.log_tau_sd) ** 2))),
            }
        )
    return out
