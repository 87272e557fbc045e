"""The model card on decisions: the rule that ships beside other rules, and what other bounds
give.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge
from advisor.lab.evaluation import metrics, scores
from advisor.lab.evaluation.card_targets import percent, table
from advisor.lab.evaluation.result import Evaluation
from advisor.lab.training.left_out import LeftOut
from advisor.prediction.decision import decide

Codes = npt.NDArray[np.int8]
HEADER = ["losses on", "losses off", "gains on", "gains off", "measure"]
ON_BOUNDS = (0.75, 0.80, 0.85, 0.88, 0.90, 0.91, 0.92)


def _cells(made: scores.DecisionShares) -> list[object]:
    shares = (made.loss_on, made.loss_off, made.gain_on, made.gain_off, made.measure)
    return [percent(share, 0) for share in shares]


def _codes(found: LeftOut, hidden: bool) -> Codes:
    mean, chance = (
        (found.median_hidden, found.p_gain_hidden) if hidden else (found.median, found.p_gain)
    )
    return decide(np.exp(mean), chance, on_from=found.on_from)


def decisions(found: Evaluation) -> str:
    """The rule on left-out rows, beside published-constant physics, always on and always off."""
    e = found.examples
    rows = scores.scored_rows(e)
    y = e.log_speedup[rows]
    alike = np.ones(len(y))
    lines: list[list[object]] = []
    fits = {"this model": found.shipped} | {
        name: fit for name, fit in found.candidates.items() if fit is not found.shipped
    }
    for name, fit in fits.items():
        for hidden in (False, True):
            pick = scores.unknown_rows(e, rows) if hidden else rows
            codes, measured = _codes(fit, hidden)[pick], e.log_speedup[pick]
            known = "ignored" if hidden else "used where stated"
            for unit, weight in (
                ("rows", np.ones(len(measured))),
                ("sources", metrics.group_weight(e.fold[pick])),
            ):
                lines.append(
                    [name, known, unit, *_cells(scores.decision_shares(measured, codes, weight))]
                )
    for name, code in (("always on", 2), ("always off", 0)):
        codes = np.full(len(y), code, dtype=np.int8)
        lines.append([name, "-", "rows", *_cells(scores.decision_shares(y, codes, alike))])
    return table(["rule", "acceptance", "each counts one", *HEADER], lines)


def frontier(found: Evaluation) -> str:
    """What other bounds for "on" give, and the least share of "measure" at the targets."""
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    off = knowledge.threshold("decision_off_p_gain").value
    lines: list[list[object]] = []
    for name, pick, medians, chances, sds in (
        ("used where stated", rows, o.median, o.p_gain, o.sd),
        ("ignored", scores.unknown_rows(e, rows), o.median_hidden, o.p_gain_hidden, o.sd_hidden),
    ):
        y, mean, chance = e.log_speedup[pick], medians[pick], chances[pick]
        weight = np.ones(len(y))
        for bound in ON_BOUNDS:
            codes = np.select([(chance >= bound) & (mean > 0), chance <= off], [2, 0], 1)
            lines.append(
                [
                    name,
                    f"P(gain) >= {bound:g}",
                    *_cells(scores.decision_shares(y, codes.astype(np.int8), weight)),
                ]
            )
        least = scores.least_measure_share(y, mean / sds[pick])
        lines.append(
            [
                name,
                "bounds chosen with the answers known",
                "8 %",
                "50 %",
                "-",
                "-",
                percent(least, 0),
            ]
        )
    return table(["acceptance", "on from", *HEADER], lines)
