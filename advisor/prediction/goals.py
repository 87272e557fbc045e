"""What each goal weighs: the metrics that count for it, and the chance that it gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import Goal
from advisor.domain.sourced import sourced
from advisor.prediction.intervals import Predicted, chance, within
from advisor.prediction.model import Model

Floats = npt.NDArray[np.float64]

ESTIMATED = ("output_tok_s", "tpot", "ttft")
# Weights of (output tok/s, TPOT, TTFT) in the log-utility of each goal: policy, not measurement;
# decide.py uses the same.
GOAL_WEIGHTS: dict[Goal, tuple[float, float, float]] = sourced(
    {
        "throughput": (1.0, 0.0, 0.0),
        "tpot": (0.0, 1.0, 0.0),
        "ttft": (0.0, 0.0, 1.0),
        "balanced": (0.6, 0.4, 0.0),  # TTFT is predicted too badly to decide anything unasked
    },
    "share",
    "Policy of this advisor: what a user of each goal pays for",
    "chosen",
)


def judged_goal(goal: Goal, crowded: bool) -> Goal:
    """The goal that is looked at: where speculation lets fewer requests run (`crowded`), the
    quicker tokens of those that run are paid by those that wait, so a balanced goal is throughput.
    """
    return "throughput" if crowded and goal == "balanced" else goal


def goal_chances(goals: Sequence[Goal], found: Mapping[str, Predicted], model: Model) -> Floats:
    """Chance that each point's goal gains; for a mixed goal, that the weighted mean of the logs
    does. (N,)
    """
    chances = np.empty(len(goals))
    for goal in dict.fromkeys(goals):
        rows = np.array([other == goal for other in goals])
        chances[rows] = _goal_gain(goal, found, model)[rows]
    return chances


def _goal_gain(goal: Goal, found: Mapping[str, Predicted], model: Model) -> Floats:
    def mixed(column: str) -> Floats:
        columns = (getattr(found[name], column) for name in ESTIMATED)
        logs = column.startswith("p")
        return np.asarray(
            sum(
                w * (np.log(v) if logs else v)
                for w, v in zip(GOAL_WEIGHTS[goal], columns, strict=True)
            )
        )

    sd = mixed("sd")
    measured = np.fmin(found["output_tok_s"].basis, found["tpot"].basis) == 0
    p_gain = model.p_gain(mixed("mean"), np.fmax(sd, 1e-6))
    likely = within(chance(p_gain, mixed("evidence"), measured), mixed("p10"), mixed("p90"))
    return np.where(sd > 0, likely, 0.5)
