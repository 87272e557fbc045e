"""The table of targets of the model card, and the numbers in words that all its tables share."""

import numpy as np

from advisor.lab.arrays import Flags, Floats, Words
from advisor.lab.evaluation import metrics, scores
from advisor.lab.evaluation.scores import Evaluation, Side
from advisor.lab.training.left_out import row_weight
from advisor.lab.training.spread_fit import quantile

Line = tuple[str, str, str, str]  # quantity, target, reached, met
# median APE, MAPE and width of the 80 % interval
GOALS = {"known": (0.06, 0.09, 1.15), "unknown": (0.10, 0.15, 1.25)}
DECISIONS = (
    ("losses that are on", "loss_on", "<=", scores.MOST_LOSSES_ON),
    ("losses that are off", "loss_off", ">=", scores.LEAST_LOSSES_OFF),
    ("measure first", "measure", "<=", scores.MOST_MEASURED),
    ("largest gap of the chance of a gain", "gain_curve", "<=", scores.MOST_GAP),
)


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage; "-" for NaN."""
    return "-" if np.isnan(value) else f"{100 * value:.{digits}f} %"


def errors_of(measured: Floats, predicted: Floats, pick: Flags, folds: Words) -> list[str]:
    """Median and mean APE of the picked rows, averaged over folds; "-" where no row is picked."""
    error = metrics.ape(measured, predicted)[pick]
    each = (metrics.group_average(error, folds[pick], reduce) for reduce in (np.median, np.mean))
    return [percent(score.value) for score in each]


def targets(evaluation: Evaluation) -> list[Line]:
    """Every line of the target table."""
    e, fit = evaluation.examples, evaluation.shipped
    sides = scores.sides(e, fit)
    lines = [line for side in sides for line in _errors(evaluation, side)]
    shares = scores.decision(e, fit, scores.scored_rows(e))
    for side in sides:
        for text, key, sense, goal in DECISIONS:
            value = shares[key + side.tail]
            met = value <= goal if sense == "<=" else value >= goal
            target = f"{sense} {100 * goal:.0f} %"
            lines.append(_line(f"{text}, acceptance {side.name}", target, percent(value), met))
        balanced = percent(shares["balanced_accuracy" + side.tail])
        forced = f"balanced accuracy if it always had to answer, acceptance {side.name}"
        lines.append((forced, "-", balanced, "-"))
    each = scores.k_regrets(e, fit, scores.scored_rows(e))
    mean, tail = metrics.mean_and_tail(each)
    close = metrics.mean_and_tail(np.where(each <= metrics.NOISE, 0.0, each))
    reached = f"{percent(mean)} / {percent(tail)} over {len(each)} sweeps"
    met = mean <= 0.02 and tail <= 0.06
    none = "the same, differences within the replicate spread of 2.9 points counted as none"
    return [
        *lines,
        _line("regret of k, mean / 90th percentile", "<= 2 % / <= 6 %", reached, met),
        (none, "-", " / ".join(map(percent, close)), "-"),
    ]


def _line(name: str, target: str, reached: str, met: bool) -> Line:
    return name, target, reached, "yes" if met else "no"


def _errors(evaluation: Evaluation, side: Side) -> list[Line]:
    """Errors and interval with a stated acceptance, or without one."""
    e, pick, tail = evaluation.examples, side.stated, f", acceptance {side.name}"
    y, folds, (median, mean, wide) = e.log_speedup[pick], e.fold[pick], GOALS[side.name]
    error = metrics.ape(y, side.median[pick])
    middle, average = (metrics.group_average(error, folds, r) for r in (np.median, np.mean))
    one_each = percent(quantile(error, row_weight(folds), 0.5))
    pooled = f"{percent(float(np.median(error)))} / {percent(float(error.mean()))}"
    cover, width, score = metrics.coverage(y, side.low[pick], side.high[pick], folds)
    inside, factor = 0.76 <= cover.value <= 0.87, float(np.exp(width.value))
    reached = f"x{factor:.2f} (interval score {score.value:.2f})"
    same = "the same over rows"
    return [
        _line(f"median APE{tail}", f"<= {100 * median:.0f} %", middle.text(), middle[0] <= median),
        (f"{same} that weigh 1 / rows of their group{tail}", "-", one_each, "-"),
        (f"{same}, median / mean{tail}", "-", pooled, "-"),
        _line(f"MAPE{tail}", f"<= {100 * mean:.0f} %", average.text(), average[0] <= mean),
        _line(f"80 % interval: coverage{tail}", "76 to 87 %", cover.text(), inside),
        _line(f"80 % interval: width{tail}", f"x{wide:.2f}", reached, factor <= wide),
    ]


def summary(evaluation: Evaluation) -> str:
    """The target table as plain text."""
    marks = {"yes": "met", "no": "NOT"}
    return "\n".join(
        f"{marks.get(met, '   ')}  {name}: {reached}   (target {target})"
        for name, target, reached, met in targets(evaluation)
    )
