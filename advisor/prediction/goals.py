"""What each goal weighs: the metrics that count for it, and the chance that it gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import Goal
from advisor.domain.sourced import sourced
from advisor.prediction.intervals import Predicted, chance_of_both

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


def goal_chances(goals: Sequence[Goal], found: Mapping[str, Predicted]) -> Floats:
    """Chance that each point's goal gains; for a mixed goal, that the weighted mean of the logs
    does (N,).

    Parameters
    ----------
    goals : Sequence[Goal]
        Of each point.
    found : Mapping[str, Predicted]
        Predictions by metric, N points each.

    Returns
    -------
    Floats
        Probabilities. (N,)
    """
    chances = np.empty(len(goals))
    for goal in dict.fromkeys(goals):
        rows = np.array([other == goal for other in goals])
        chances[rows] = _goal_chance(goal, found)[rows]
    return chances


def _goal_chance(goal: Goal, found: Mapping[str, Predicted]) -> Floats:
    parts = [(w, found[name]) for w, name in zip(GOAL_WEIGHTS[goal], ESTIMATED, strict=True) if w]
    if len(parts) == 1:
        return parts[0][1].p_gain
    none = np.any([one.sd <= 0 for _, one in parts], axis=0)
    return np.where(none, 0.5, chance_of_both(parts))
