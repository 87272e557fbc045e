"""The card's numbers from left-out predictions: one place for every score, so that artefact and
card cannot disagree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.lab.evaluation import metrics as em
from advisor.lab.training.dataset import Examples
from advisor.lab.training.fitting import LeftOut
from advisor.prediction import utility as stakes

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def scored_rows(examples: Examples) -> Flags:
    """The rows that the headline counts: published speed-ups of decode or output metrics (TTFT has
    its own line).
    """
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
    out["decision"] = decision(examples, found, rows)
    out["decision_mtp"] = decision(examples, found, rows & (examples.method == "mtp"))
    regret = k_regret(examples, found, rows)
    out["k_regret"] = {"sweeps": regret.sweeps, "mean": regret.mean, "p90": regret.p90}
    rounded: dict[str, Any] = _rounded(out)
    return rounded


def k_regret(examples: Examples, found: LeftOut, rows: Flags) -> em.Regret:
    """Regret of the k that users get: the one of least expected regret (stakes.py), not of the
    highest median.
    """
    predicted = np.stack([found.low, found.mean, found.high], axis=1)[rows]
    k, sweep = examples.points.k[rows], examples.sweep[rows]
    return em.sweep_regret(
        examples.log_speedup[rows],
        predicted,
        k,
        sweep,
        lambda each, _: stakes.least_regret(*each.T),
    )


def decision(examples: Examples, found: LeftOut, rows: Flags) -> dict[str, float]:
    """On/off scores of the rule that users get (stakes.py), pooled with weight 1 / rows of the rig.

    On where the expected utility is positive, no answer where it is small for the estimate's
    spread; losses are ranked by that certainty. Measured neighbours and documented experience,
    which also decide for users, do not count here.
    """
    y, low, middle, high = (
        part[rows] for part in (examples.log_speedup, found.low, found.mean, found.high)
    )
    utility = stakes.expected(low, middle, high)
    certainty = stakes.certainty(utility, low, high)
    weight = em.group_weight(examples.rig[rows])
    silent = stakes.unsure(certainty)
    recall, threshold = em.recall_at(y, certainty, weight)
    confused = em.confusion(y[~silent], utility[~silent] > 0, weight[~silent])
    forced = em.confusion(y, utility > 0, weight)
    mine, always = em.utility(y, utility > 0, examples.rig[rows])
    return {
        "losses": int((y < 0).sum()),
        "loss_recall": recall,
        "threshold": threshold,
        "balanced_accuracy": confused["balanced"],
        "balanced_accuracy_forced": forced["balanced"],
        "mcc": confused["mcc"],
        "answered_loss_recall": confused["loss_recall"],
        "answered_false_off": confused["false_off"],
        "abstained": float(weight[silent].sum() / weight.sum()),
        "utility": mine.value,
        "utility_always_on": always.value,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value
