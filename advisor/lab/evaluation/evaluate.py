"""`advisor evaluate`: the model on sources it has not seen, and the model card from it.

Each source is left out by itself (a community table rig by rig); stated acceptances are used
("known") or ignored everywhere ("unknown").
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from advisor.domain.paths import models_dir
from advisor.lab.arrays import Floats
from advisor.lab.evaluation import calibrated, tables, targets
from advisor.lab.evaluation.scores import Evaluation
from advisor.lab.training import acceptance_fit, dataset, fitting, left_out, train
from advisor.lab.training.dataset import Examples
from advisor.lab.training.fitting import FitSetting
from advisor.lab.training.left_out import GROUPS, LeftOut
from advisor.prediction import acceptance as acc
from advisor.prediction.artefact import ARTEFACT

CARD = "speedup.md"
PUBLISHED = "physics, published constants"
# acceptance by position that a user might assume of an MTP head
FIXED = np.array([0.82, 0.78, 0.75, 0.73, 0.71, 0.70, 0.70, 0.70])


def run(out: Path | None = None, fast: bool = False) -> str:
    """Evaluate, write the card into `out` (default models/); return the card's summary, and
    the kernel of own runs as thresholds hold it.
    """
    with train.single_thread():
        evaluation = evaluate(fast)
    told = targets.summary(evaluation)
    if not fast:
        rows = calibrated.rows_of(evaluation.examples, evaluation.shipped)
        folder = out or models_dir()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CARD).write_text(card(evaluation, rows), encoding="utf-8")
        told += f"\n{calibrated.as_thresholds(calibrated.fit_kernel(rows))}"
    return told


def evaluate(fast: bool = False) -> Evaluation:
    """All left-out predictions. `fast`: the primary split of the shipped settings only."""
    e, observations = dataset.examples(uses=("train",)), dataset.observations()
    cross = partial(left_out.cross_predict, e, observations, chords=fitting.slopes(e, observations))
    alone = partial(cross, e.fold, groups=len(set(e.fold)))
    shipped, weak = alone(), None
    candidates: dict[str, LeftOut] = {}
    splits = {}
    if not fast:
        candidates = {
            PUBLISHED: alone(setting=FitSetting(constants=False, nearby=False)),
            "physics, fitted constants": alone(setting=FitSetting(nearby=False)),
            "+ a fifth of nearby misses (shipped)": shipped,
        }
        labels = {
            "community table as one source": e.source,
            "hardware left out": e.hardware,
            "engines left out": e.engine,
        }
        splits = {name: (each, cross(each)) for name, each in labels.items()}
        rows = dataset.examples(uses=("eval",))
        rows = rows.take(np.flatnonzero(rows.primary & (rows.metric != "ttft")))
        weak = rows, cross(e.source, extra=(rows, rows.source))
    return Evaluation(
        e, shipped, candidates, baselines(e), splits, weak, acceptance_errors(observations)
    )


def baselines(examples: Examples) -> dict[str, Floats]:
    """Log speed-ups of always off, and the rig-weighted mean of the other folds, TTFT apart."""
    y, folds, slow = examples.log_speedup, examples.fold, examples.metric == "ttft"
    mean = np.zeros(len(y))
    for here in (folds == fold for fold in np.unique(folds)):
        for kind in (slow, ~slow):
            rest = ~here & kind
            if rest.any():
                mean[here & kind] = np.average(y[rest], weights=examples.weight[rest])
    return {"always off (speed-up 1)": np.zeros(len(y)), "training mean": mean}


def acceptance_errors(observations: acceptance_fit.AcceptanceObservations) -> list[dict[str, Any]]:
    """Errors of tokens per step by source, each predicted by a model that has not seen it."""
    out = []
    groups = left_out.group_labels(observations.source)
    models = {
        group: acceptance_fit.fit(observations.without(set(observations.source[groups == group])))
        for group in np.unique(groups)
    }
    for source in np.unique(observations.source):
        here = observations.source == source
        k, log_tau = observations.k[here], observations.log_tau[here]
        points = observations.points.take(here).replace(k=k)
        belief = acc.believe(models[groups[here][0]], points, hide=True)
        error = np.log(belief.tau) - log_tau
        fixed = np.log(acc.tokens_per_step(np.tile(FIXED, (len(k), 1)), k))
        out.append(
            {
                "mtp": bool((points.method == 1).all()),
                "bias": float(error.mean()),
                "error": float(np.abs(error).mean()),
                "fixed": float(np.abs(fixed - log_tau).mean()),
                "z": float(np.sqrt(np.mean((error / belief.log_tau_sd) ** 2))),
            }
        )
    return out


def table(header: str, lines: Sequence[Sequence[object]]) -> str:
    """A Markdown table; `header` has " | " between the names of its columns."""
    rows = [header.split(" | "), *lines]
    text = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([text[0], "|" + "---|" * len(rows[0]), *text[1:]])


FOLDER = jinja2.FileSystemLoader(Path(__file__).parent)
PAGES = jinja2.Environment(
    loader=FOLDER, undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
)
TEMPLATE = PAGES.get_template("card.md.j2", globals={"table": table})
TRAINED = {"on": "loss_on", "off": "loss_off", "measure": "measure", "gap": "gain_curve"}
FROM_EVALUATION = (
    "decisions", "regrets", "which_method", "models", "two_regret", "splits", "kinds", "chances",
    "bases", "acceptance", "by_source",
)  # fmt: skip


def training_scores() -> dict[str, float]:
    """The artefact's own scores, as training wrote them, in percent."""
    trained = json.loads((models_dir() / ARTEFACT).read_text(encoding="utf-8"))["scores"]
    shares = {half: trained[half]["mape"] for half in ("known", "hidden")}
    for short, name in TRAINED.items():
        shares |= {short + tail: trained["decision"][name + tail] for tail in ("", "_hidden")}
    return {name: 100 * share for name, share in shares.items()}


def card(evaluation: Evaluation, rows: calibrated.Rows) -> str:
    """The whole card; fits the kernels of own runs to these left-out rows anew (a minute)."""
    e = evaluation.examples
    labels = {"folds": e.fold, "sources": e.source, "rigs": e.rig}
    exams = calibrated.exams(rows, calibrated.kernels_by_owner(rows))
    return TEMPLATE.render(
        count={"rows": len(e)} | {name: len(set(each)) for name, each in labels.items()},
        targets=targets.targets(evaluation),
        trained=training_scores(),
        groups=GROUPS,
        own={
            "owners": exams[0].owners,
            "fewest": calibrated.FEWEST_ARMS,
            "splits": calibrated.SPLITS,
            "without": targets.percent(exams[0].without),
            "table": tables.own_runs(exams),
        },
        **{name: getattr(tables, name)(evaluation) for name in FROM_EVALUATION},
    )
