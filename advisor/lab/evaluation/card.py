"""The model card, models/speedup.md, from an evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.domain.paths import models_dir
from advisor.lab.evaluation import card_tables, card_words, metrics, scores
from advisor.lab.evaluation.baselines import fixed_k
from advisor.lab.evaluation.card_decisions import decisions, frontier
from advisor.lab.evaluation.card_own_runs import own_runs
from advisor.lab.evaluation.card_owners import owners
from advisor.lab.evaluation.card_targets import errors_of, percent, table, targets
from advisor.lab.evaluation.result import Evaluation
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import GROUPS
from advisor.prediction.artefact import ARTEFACT

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def _regret(
    e: Examples, mean: Floats, rows: Flags, rule: Callable[[Floats, Floats], int] | None = None
) -> metrics.Regret:
    return metrics.sweep_regret(
        e.log_speedup[rows], mean[rows], e.points.k[rows], e.sweep[rows], rule
    )


def comparison_lines(found: Evaluation) -> str:
    """Baselines and candidates, one line each."""
    e = found.examples
    rows = scores.scored_rows(e)
    known = rows & e.acceptance_known
    weight = metrics.group_weight(e.rig[rows])
    y = e.log_speedup
    lines: list[list[object]] = []

    def line(name: str, mean: Floats, hidden: Floats | None) -> None:
        hid = mean if hidden is None else hidden
        cells: list[object] = [name]
        for pick, guess in ((known, mean), (scores.unknown_rows(e, rows), hid)):
            cells += errors_of(y, guess, pick, e.fold)
        cells.append(f"{metrics.group_average((hid - y)[rows], e.fold[rows]).value:+.3f}")
        confused = metrics.confusion(y[rows], hid[rows] > 0, weight)
        cells += [percent(confused["balanced"], 0), f"{confused['mcc']:.2f}"]
        regret = _regret(e, mean, rows)
        cells += [percent(regret.mean), percent(regret.p90)]
        lines.append(cells)

    for name, guess in found.baselines.items():
        line(name, guess, None)
    for name, fit in found.candidates.items():
        line(name, fit.median, fit.median_hidden)
    two = _regret(e, found.shipped.median, rows, fixed_k(2))
    errors = "median known | MAPE known | median unknown | MAPE unknown"
    header = f"model | {errors} | log bias | bal. acc. | MCC | k regret | p90"
    note = f"k = 2 fixed: regret {percent(two.mean)} / {percent(two.p90)}."
    return table(header, lines) + "\n\n" + note


def split_lines(found: Evaluation) -> str:
    """The other splits, and the weak rows."""
    lines = []
    e = found.examples
    rows = scores.scored_rows(e)
    known = rows & e.acceptance_known
    items = [("primary: sources (community table by rig)", e, e.fold, found.shipped, rows, known)]
    items += [(name, e, folds, fit, rows, known) for name, (folds, fit) in found.splits.items()]
    if found.weak:
        w, fit = found.weak
        every = np.ones(len(w), dtype=bool)
        items.append(
            (
                "weak rows (use=eval), sources never trained on where possible",
                w,
                w.source,
                fit,
                every,
                w.acceptance_known,
            )
        )
    for name, ex, folds, fit, all_rows, told in items:
        cells: list[object] = [name, len(set(folds[all_rows].tolist()))]
        for pick, mean, low, high in (
            (told, fit.median, fit.low, fit.high),
            (all_rows, fit.median_hidden, fit.low_hidden, fit.high_hidden),
        ):
            cover, width, _ = metrics.coverage(
                ex.log_speedup[pick], low[pick], high[pick], folds[pick]
            )
            cells += [
                *errors_of(ex.log_speedup, mean, pick, folds),
                percent(cover.value, 0),
                f"x{np.exp(width.value):.2f}",
            ]
        lines.append(cells)
    header = (
        "split | groups | median known | MAPE known | coverage | width | median unknown | "
        "MAPE unknown | coverage | width"
    )
    return table(header, lines)


def training_scores() -> dict[str, Any]:
    """The artefact's own scores, as training wrote them."""
    text = (models_dir() / ARTEFACT).read_text(encoding="utf-8")
    return dict(json.loads(text)["scores"])


def training_words(trained: Mapping[str, Any]) -> str:
    """The same in words."""
    decision = trained["decision"]
    names = {
        "on": "loss_on",
        "off": "loss_off",
        "measure": "measure",
        "gap": "gain_curve",
    }
    shares = {
        short + tail: 100 * decision[name + tail]
        for short, name in names.items()
        for tail in ("", "_hidden")
    }
    errors = {half: 100 * trained[half]["mape"] for half in ("known", "hidden")}
    return card_words.TRAINED.format(groups=GROUPS, **shares, **errors)


def card(found: Evaluation) -> str:
    """The whole card."""
    e = found.examples
    counts = {"folds": e.fold, "sources": e.source, "rigs": e.rig}
    head = card_words.HEAD.format(
        rows=len(e), **{name: len(set(values.tolist())) for name, values in counts.items()}
    )
    reached = table(["quantity", "target", "reached (90 % bootstrap)", "met"], targets(found))
    parts = [
        head,
        *(
            "## Targets",
            card_words.TARGETS,
            reached,
            training_words(training_scores()),
            card_words.SHORTFALL,
        ),
        *("## On, off or measure", card_words.DECISIONS, decisions(found), frontier(found)),
        *("## Where several owners measured one setting", owners(found)),
        *("## With runs of your own", own_runs(found)),
        *("## Beside baselines and rivals", card_words.RIVALS, comparison_lines(found)),
        *("## Other splits", card_words.SPLITS, split_lines(found)),
        *("## By kind of row", *card_tables.kinds(found)),
        *("## Metrics", card_words.METRICS, card_tables.derived_metrics(found)),
        *("## Losses", card_words.LOSSES, card_tables.losses(found)),
        *("## Chance of a gain", card_tables.chances(found)),
        *("## What a prediction rests on", card_words.BASES, card_tables.bases(found)),
        *("## Acceptance model", card_words.ACCEPTANCE, card_tables.acceptance(found)),
        *("## The seeds, predicted without them", card_tables.seeds(found)),
        *("## By source", card_tables.by_source(found)),
        card_words.LIMITS,
    ]
    return "\n\n".join(parts) + "\n"
