"""The table of targets of the model card, and the plain table that the other parts of the card are
made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from advisor.lab.evaluation import metrics, scores
from advisor.lab.evaluation.result import Evaluation
from advisor.lab.training.spread_fit import quantile

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.str_]


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage; "-" for NaN."""
    return "-" if np.isnan(value) else f"{100 * value:.{digits}f} %"


def errors_of(measured: Floats, predicted: Floats, pick: Flags, folds: Words) -> list[object]:
    """Median and mean absolute percentage error of the picked rows, averaged over folds; "-" where
    no row is picked.

    Parameters
    ----------
    measured, predicted : Floats
        Log speed-ups. (M,) each
    pick : Flags
        Which rows count. (M,)
    folds : Words
        The left-out group of each row. (M,)

    Returns
    -------
    list
        The two errors as the card shows them.
    """
    error = metrics.ape(measured, predicted)[pick]
    each = (metrics.group_average(error, folds[pick], reduce) for reduce in (np.median, np.mean))
    return [percent(score.value) for score in each]


def table(header: Sequence[str] | str, rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; `header` may be one string with " | " between the columns."""
    names = header.split(" | ") if isinstance(header, str) else header
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join(
        [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]
    )


def targets(found: Evaluation) -> list[tuple[str, str, str, str]]:
    """(quantity, target, reached with bootstrap interval, met) for every line of the target
    table.
    """
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    known = rows & e.acceptance_known
    y = e.log_speedup
    out: list[tuple[str, str, str, str]] = []

    def add(name: str, target: str, reached: str, met: bool) -> None:
        out.append((name, target, reached, "yes" if met else "no"))

    for name, pick, mean, low, high, goals in (
        ("known", known, o.median, o.low, o.high, (0.06, 0.09, 1.15)),
        (
            "unknown",
            scores.unknown_rows(e, rows),
            o.median_hidden,
            o.low_hidden,
            o.high_hidden,
            (0.10, 0.15, 1.25),
        ),
    ):
        error, folds = metrics.ape(y, mean)[pick], e.fold[pick]
        middle, average = (
            metrics.group_average(error, folds, np.median),
            metrics.group_average(error, folds),
        )
        add(
            f"median APE, acceptance {name}",
            f"<= {100 * goals[0]:.0f} %",
            middle.text() + " %",
            middle.value <= goals[0],
        )
        one_a_group = percent(quantile(error, metrics.group_weight(folds), 0.5))
        out.append(
            (
                f"the same over rows that weigh 1 / rows of their group, acceptance {name}",
                "-",
                one_a_group,
                "-",
            )
        )
        pooled = f"{percent(float(np.median(error)))} / {percent(float(error.mean()))}"
        out.append((f"the same over rows, median / mean, acceptance {name}", "-", pooled, "-"))
        add(
            f"MAPE, acceptance {name}",
            f"<= {100 * goals[1]:.0f} %",
            average.text() + " %",
            average.value <= goals[1],
        )
        cover, width, score = metrics.coverage(y[pick], low[pick], high[pick], folds)
        add(
            f"80 % interval: coverage, acceptance {name}",
            "76 to 87 %",
            cover.text() + " %",
            0.76 <= cover.value <= 0.87,
        )
        factor = float(np.exp(width.value))
        reached = f"x{factor:.2f} (interval score {score.value:.2f})"
        add(
            f"80 % interval: width, acceptance {name}",
            f"x{goals[2]:.2f}",
            reached,
            factor <= goals[2],
        )
    made = scores.decision(e, o, rows)
    for name, tail in (("known", ""), ("unknown", "_hidden")):
        for text, key, most, limit in (
            ("losses that are on", "loss_on", True, scores.MOST_LOSSES_ON),
            ("losses that are off", "loss_off", False, scores.LEAST_LOSSES_OFF),
            ("measure first", "measure", True, scores.MOST_MEASURED),
            ("largest gap of the chance of a gain", "gain_curve", True, scores.MOST_GAP),
        ):
            value = made[key + tail]
            add(
                f"{text}, acceptance {name}",
                f"{'<=' if most else '>='} {100 * limit:.0f} %",
                percent(value),
                value <= limit if most else value >= limit,
            )
        forced = percent(made["balanced_accuracy" + tail])
        out.append(("balanced accuracy if it always had to answer, "
                    f"acceptance {name}", "-", forced, "-"))  # fmt: skip
    regret = scores.k_regret(e, o, rows)
    reached = f"{percent(regret.mean)} / {percent(regret.p90)} over {regret.sweeps} sweeps"
    add(
        "regret of k, mean / 90th percentile",
        "<= 2 % / <= 6 %",
        reached,
        regret.mean <= 0.02 and regret.p90 <= 0.06,
    )
    close = f"{percent(regret.adjusted_mean)} / {percent(regret.adjusted_p90)}"
    out.append(
        (
            "the same, differences within the replicate spread of 2.9 points counted as none",
            "-",
            close,
            "-",
        )
    )
    return out


def summary(found: Evaluation) -> str:
    """The target table as plain text."""
    lines = [
        f"{ {'yes': 'met', 'no': 'NOT'}.get(met, '   ') }  {name}: {reached}   (target {target})"
        for name, target, reached, met in targets(found)
    ]
    return "\n".join(lines)
