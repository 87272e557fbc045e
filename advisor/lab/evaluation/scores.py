"""The card's numbers from left-out predictions: one place for every score, so that artefact and
card cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.lab.evaluation import metrics
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut
from advisor.prediction import utility
from advisor.prediction.decision import decide

Floats = npt.NDArray[np.float64]
MOST_LOSSES_ON, LEAST_LOSSES_OFF, MOST_MEASURED = 0.08, 0.50, 0.30  # targets of the decisions
MOST_GAP = 0.05  # target of the curve of the chance of a gain
Flags = npt.NDArray[np.bool_]


def scored_rows(examples: Examples) -> Flags:
    """The rows that the headline counts, of M measured pairs (M,): published speed-ups of decode or
    output metrics (TTFT has its own line).
    """
    rows: Flags = examples.primary & (examples.metric != "ttft")
    return rows


def unknown_rows(examples: Examples, rows: Flags) -> Flags:
    """Those of `rows` that say something of predictions without a stated acceptance: not the ones
    whose acceptance was set by the harness, which nobody's text has (M,).

    Parameters
    ----------
    examples : Examples
        M measured pairs.
    rows : Flags
        Which of them count. (M,)

    Returns
    -------
    Flags
        (M,)
    """
    return rows & ~examples.forced


def headline(examples: Examples, found: LeftOut) -> dict[str, Any]:
    """The quantities of the target table, as shares; source-averaged where a figure is an
    average.
    """
    rows = scored_rows(examples)
    known = rows & examples.acceptance_known
    y = examples.log_speedup
    out: dict[str, Any] = {}
    cases = (
        ("known", known, found.median, found.low, found.high),
        (
            "hidden",
            unknown_rows(examples, rows),
            found.median_hidden,
            found.low_hidden,
            found.high_hidden,
        ),
    )
    for name, pick, mean, low, high in cases:
        folds = examples.fold[pick]
        error = metrics.ape(y, mean)[pick]
        cover, width, score = metrics.coverage(y[pick], low[pick], high[pick], folds)
        out[name] = {
            "rows": int(pick.sum()),
            "folds": len(set(folds.tolist())),
            "mape": metrics.group_average(error, folds).value,
            "median_ape": metrics.group_average(error, folds, np.median).value,
            "median_of_folds": float(np.median(metrics.group_values(error, folds))),
            "pooled_median_ape": float(np.median(error)),
            "log_bias": metrics.group_average((mean - y)[pick], folds).value,
            "coverage": cover.value,
            "width": float(np.exp(width.value)),
            "interval_score": score.value,
        }
    out["decision"] = decision(examples, found, rows)
    out["decision_mtp"] = decision(examples, found, rows & (examples.method == "mtp"))
    regret = k_regret(examples, found, rows)
    out["k_regret"] = {"sweeps": regret.sweeps, "mean": regret.mean, "p90": regret.p90}
    rounded: dict[str, Any] = _round(out)
    return rounded


def k_regret(examples: Examples, found: LeftOut, rows: Flags) -> metrics.Regret:
    """Regret of the k that users get: the one of least expected regret (prediction/utility.py),
    not of the
    highest median.

    Parameters
    ----------
    examples : Examples
        M measured pairs.
    found : LeftOut
        Their predictions by models that have not seen their source.
    rows : Flags
        Which of them count. (M,)

    Returns
    -------
    Regret
        Shares of 1, and the number of sweeps.
    """
    predicted = np.stack([found.low, found.median, found.high], axis=1)[rows]
    k, sweep = examples.points.k[rows], examples.sweep[rows]
    return metrics.sweep_regret(
        examples.log_speedup[rows],
        predicted,
        k,
        sweep,
        lambda each, _: utility.least_regret(*each.T),
    )


@dataclass(frozen=True)
class DecisionShares:
    """What one rule made of left-out rows; shares of the losses, of the gains and of all."""

    losses: int
    gains: int
    loss_on: float
    loss_off: float
    gain_on: float
    gain_off: float
    measure: float


def decision_shares(
    measured: Floats, codes: npt.NDArray[np.int8], weight: Floats
) -> DecisionShares:
    """Shares of on, off and measure (indices into DECISIONS) among losses and gains. (M,) each.

    Parameters
    ----------
    measured : Floats
        Measured log speed-ups. (M,)
    codes : array of int8
        Indices into DECISIONS. (M,)
    weight : Floats
        (M,)

    Returns
    -------
    DecisionShares
        Shares of the weight of losses and of gains.
    """
    lost = measured < 0
    off, measure, on = (codes == i for i in range(3))

    def share(part: Flags, whole: Flags) -> float:
        total = float(weight[whole].sum())
        return float(weight[part & whole].sum()) / total if total else float("nan")

    everything = np.ones(len(measured), dtype=bool)
    shares = (share(on, lost), share(off, lost), share(on, ~lost), share(off, ~lost))
    return DecisionShares(int(lost.sum()), int((~lost).sum()), *shares, share(measure, everything))


def decision(examples: Examples, found: LeftOut, rows: Flags) -> dict[str, float]:
    """On, off and measure of the rule that users get (prediction/decision.py), acceptance known
    where stated and unknown in every row but those of a forced one; all rows alike, and beside it
    sources alike.

    Parameters
    ----------
    examples : Examples
        M measured pairs.
    found : LeftOut
        Their predictions by models that have not seen their source.
    rows : Flags
        Which of them count. (M,)

    Returns
    -------
    dict of str to float
        Shares and scores by name.
    """
    out: dict[str, float] = {"losses": int((examples.log_speedup[rows] < 0).sum())}
    for tail, pick, medians, chances in (
        ("", rows, found.median, found.p_gain),
        ("_hidden", unknown_rows(examples, rows), found.median_hidden, found.p_gain_hidden),
    ):
        y, mean, chance = examples.log_speedup[pick], medians[pick], chances[pick]
        alike, by_source = np.ones(len(y)), metrics.group_weight(examples.fold[pick])
        codes = decide(np.exp(mean), chance, on_from=found.on_from[pick])
        for name, weight in (("", alike), ("_by_source", by_source)):
            made = decision_shares(y, codes, weight)
            for key in ("loss_on", "loss_off", "gain_on", "gain_off", "measure"):
                out[f"{key}{name}{tail}"] = getattr(made, key)
        forced = metrics.confusion(y, mean > 0, metrics.group_weight(examples.rig[pick]))
        out[f"balanced_accuracy{tail}"] = forced["balanced"]
        out[f"gain_curve{tail}"] = metrics.worst_gap(y, chance, alike)
    return out


def least_measure_share(measured: Floats, rank: Floats) -> float:
    """Share of rows between the two bounds on `rank` that leave 8 % of the losses on and put half
    of them off, chosen with the answers known: no bounds of this ranking do with less.

    Parameters
    ----------
    measured : Floats
        Measured log speed-ups. (M,)
    rank : Floats
        What the bounds are on, such as a chance of a gain. (M,)

    Returns
    -------
    float
        Share of the rows.
    """
    lost = np.sort(rank[measured < 0])
    on, off = np.quantile(lost, 1 - MOST_LOSSES_ON), np.quantile(lost, LEAST_LOSSES_OFF)
    return float(np.mean((rank > off) & (rank < on)))


def _round(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round(inner) for key, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value
