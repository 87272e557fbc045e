"""The card's numbers from left-out predictions: artefact and card take them from here."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from advisor.lab.arrays import Codes, Flags, Floats, Words
from advisor.lab.evaluation import metrics
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut, row_weight
from advisor.prediction import utility
from advisor.prediction.decision import decide

MOST_LOSSES_ON, LEAST_LOSSES_OFF, MOST_MEASURED = 0.08, 0.50, 0.30  # targets of the decisions
MOST_GAP = 0.05  # target of the curve of the chance of a gain


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Left-out predictions and what they are compared with: all that the card is made of."""

    examples: Examples
    shipped: LeftOut
    candidates: dict[str, LeftOut]
    baselines: dict[str, Floats]
    splits: dict[str, tuple[Words, LeftOut]]
    weak: tuple[Examples, LeftOut] | None
    acceptance: list[dict[str, Any]]


class Side(NamedTuple):
    """Left-out predictions with the acceptance that a source states, or without any."""

    name: str  # known or unknown
    tail: str  # of the names of scores
    rows: Flags  # that a decision is scored on
    stated: Flags  # that errors are scored on
    median: Floats
    low: Floats
    high: Floats
    p_gain: Floats
    sd: Floats


def sides(examples: Examples, fit: LeftOut, rows: Flags | None = None) -> tuple[Side, Side]:
    """Both views of left-out predictions, `rows` or the headline's; forced rows in one alone."""
    rows = scored_rows(examples) if rows is None else rows
    natural = rows & ~examples.forced

    def side(name: str, tail: str, *masks: Flags) -> Side:
        columns = (getattr(fit, column + tail) for column in Side._fields[4:])
        return Side._make([name, tail, *masks, *columns])

    known = side("known", "", rows, rows & examples.acceptance_known)
    return known, side("unknown", "_hidden", natural, natural)


def scored_rows(examples: Examples) -> Flags:
    """The rows that the headline counts: published speed-ups, but of TTFT."""
    return np.asarray(examples.primary & (examples.metric != "ttft"))


def headline(examples: Examples, fit: LeftOut) -> dict[str, Any]:
    """The quantities of the target table, as shares; averages are over sources."""
    rows, out = scored_rows(examples), {}
    for name, side in zip(("known", "hidden"), sides(examples, fit), strict=True):
        pick = side.stated
        y, mean, folds = examples.log_speedup[pick], side.median[pick], examples.fold[pick]
        error = metrics.ape(y, mean)
        cover, width, score = metrics.coverage(y, side.low[pick], side.high[pick], folds)
        out[name] = {
            "rows": int(pick.sum()),
            "folds": len(np.unique(folds)),
            "mape": metrics.group_average(error, folds).value,
            "median_ape": metrics.group_average(error, folds, np.median).value,
            "median_of_folds": np.median(metrics.group_values(error, folds)),
            "pooled_median_ape": np.median(error),
            "log_bias": metrics.group_average(mean - y, folds).value,
            "coverage": cover.value,
            "width": np.exp(width.value),
            "interval_score": score.value,
        }
    out["decision"] = decision(examples, fit, rows)
    out["decision_mtp"] = decision(examples, fit, rows & (examples.method == "mtp"))
    each = k_regrets(examples, fit, rows)
    average, tail = metrics.mean_and_tail(each)
    out["k_regret"] = {"sweeps": len(each), "mean": average, "p90": tail}
    return {
        part: {n: v if isinstance(v, int) else round(float(v), 4) for n, v in values.items()}
        for part, values in out.items()
    }


def k_regrets(examples: Examples, fit: LeftOut, rows: Flags) -> Floats:
    """Regret of the k of least expected regret in each sweep (S,)."""
    predicted = np.stack([fit.low, fit.median, fit.high], axis=1)[rows]
    y, k, sweep = examples.log_speedup[rows], examples.points.k[rows], examples.sweep[rows]
    return metrics.regrets(y, predicted, k, sweep, lambda each, _: least_regret(*each.T))


def least_regret(low: Floats, middle: Floats, high: Floats) -> int:
    """The plan of least expected regret, by its log speed-ups' percentiles; -1: none."""
    each = np.stack(utility.symmetric(low, middle, high), axis=1)[:, :, None]
    worth = utility.utilities
    rows = [worth(a, b, c, utility.deviates(i + 1))[0] for i, (a, b, c) in enumerate(each)]
    return int(utility.regrets(np.stack([np.zeros(utility.SAMPLES), *rows])).argmin()) - 1


class DecisionShares(NamedTuple):
    """What one rule made of left-out rows: shares of the losses, of the gains and of all."""

    loss_on: float
    loss_off: float
    gain_on: float
    gain_off: float
    measure: float


def decision_shares(measured: Floats, codes: Codes, weight: Floats | None = None) -> DecisionShares:
    """Weighted shares of on, off and measure (indices into DECISIONS) among losses and gains."""
    weight = np.ones(len(measured)) if weight is None else weight
    lost, every = measured < 0, np.ones(len(measured), dtype=bool)
    off, measure, on = (codes == i for i in range(3))

    def share(part: Flags, whole: Flags) -> float:
        total = float(weight[whole].sum())
        return float(weight[part & whole].sum()) / total if total else float("nan")

    parts = ((on, lost), (off, lost), (on, ~lost), (off, ~lost), (measure, every))
    return DecisionShares(*(share(*part) for part in parts))


def codes_of(side: Side, fit: LeftOut) -> Codes:
    """What the rule that users get (prediction/decision.py) makes of every row."""
    return decide(np.exp(side.median), side.p_gain, on_from=fit.on_from, off_to=fit.off_to)


def decision(examples: Examples, fit: LeftOut, rows: Flags) -> dict[str, float]:
    """On, off and measure of the rule that users get, rows alike and sources alike."""
    out: dict[str, float] = {"losses": int((examples.log_speedup[rows] < 0).sum())}
    for side in sides(examples, fit, rows):
        pick, tail = side.rows, side.tail
        y, codes = examples.log_speedup[pick], codes_of(side, fit)[pick]
        alike, by_source = np.ones(len(y)), row_weight(examples.fold[pick])
        for name, weight in (("", alike), ("_by_source", by_source)):
            shares = decision_shares(y, codes, weight)._asdict()
            out |= {f"{key}{name}{tail}": share for key, share in shares.items()}
        by_rig = row_weight(examples.rig[pick])
        out[f"balanced_accuracy{tail}"] = metrics.confusion(y, side.median[pick] > 0, by_rig)[0]
        out[f"gain_curve{tail}"] = metrics.worst_gap(y, side.p_gain[pick], alike)
    return out
