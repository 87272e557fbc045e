"""The card's numbers from left-out predictions: one place for every score, so that artefact and card cannot disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from advisor import evaluate_metrics as em
from advisor.fitting import LeftOut
from advisor.training_data import Examples

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def scored_rows(examples: Examples) -> Flags:
    """The rows that the headline counts: published speed-ups of decode or output metrics (TTFT has its own line)."""
    rows: Flags = examples.primary & (examples.metric != "ttft")
    return rows


def headline(examples: Examples, found: LeftOut) -> dict[str, Any]:
    """The quantities of the target table, as shares; source-averaged where a figure is an average."""
    rows = scored_rows(examples)
    known = rows & examples.acceptance_known
    y = examples.log_speedup
    out: dict[str, Any] = {}
    cases = (
        ("known", known, found.mean, found.low, found.high),
        ("hidden", rows, found.mean_hidden, found.low_hidden, found.high_hidden),
    )
    for name, pick, mean, low, high in cases:
        folds = examples.fold[pick]
        error = em.ape(y, mean)[pick]
        cover, width, score = em.coverage(y[pick], low[pick], high[pick], folds)
        out[name] = {
            "rows": int(pick.sum()),
            "folds": len(set(folds.tolist())),
            "mape": em.averaged(error, folds).value,
            "median_ape": em.averaged(error, folds, np.median).value,
            "median_of_folds": float(np.median(em.group_values(error, folds))),
            "pooled_median_ape": float(np.median(error)),
            "log_bias": em.averaged((mean - y)[pick], folds).value,
            "coverage": cover.value,
            "width": float(np.exp(width.value)),
            "interval_score": score.value,
        }
    out["decision"] = decision(examples, found.p_gain, rows)
    out["decision_mtp"] = decision(examples, found.p_gain, rows & (examples.method == "mtp"))
    regret = em.sweep_regret(y[rows], found.mean[rows], examples.points.k[rows], examples.sweep[rows])
    out["k_regret"] = {"sweeps": regret.sweeps, "mean": regret.mean, "p90": regret.p90}
    rounded: dict[str, Any] = _rounded(out)
    return rounded


def decision(examples: Examples, p_gain: Floats, rows: Flags) -> dict[str, float]:
    """On/off scores, pooled with weight 1 / rows of the rig."""
    y, p = examples.log_speedup[rows], p_gain[rows]
    weight = em.group_weight(examples.rig[rows])
    silent = em.abstaining(p, weight)
    answered = ~silent
    recall, threshold = em.recall_at(y, p, weight)
    confused = em.confusion(y[answered], p[answered] > 0.5, weight[answered])
    mine, always = em.utility(y, p > 0.5, examples.rig[rows])
    return {
        "losses": int((y < 0).sum()),
        "loss_recall": recall,
        "threshold": threshold,
        "balanced_accuracy": confused["balanced"],
        "mcc": confused["mcc"],
        "abstained": float(weight[silent].sum() / weight.sum()),
        "utility": mine.value,
        "utility_always_on": always.value,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value
