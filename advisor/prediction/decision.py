"""What a goal weighs, and on, off or measure first: one rule on one posterior for every command.

On needs a median above 1 and a P(gain) of at least `decision_on_p_gain` (where the configuration
itself was measured `decision_on_p_gain_measured`); off a P(gain) of at most `decision_off_p_gain`,
with own runs and without; between them the answer is to measure first. What is forbidden for
another reason advice/decide.py says.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from advisor.domain.normal import cdf
from advisor.domain.nouns import Decision, Goal
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf.arrays import Floats, Mask
from advisor.perf.regimes.setting import Length, between, choose, greater
from advisor.prediction.intervals import Predicted, chance_of_both

Codes = npt.NDArray[np.int8]
DECISIONS: tuple[Decision, ...] = ("off", "measure", "on")
MANY = sourced(
    3, "GPUs", "own choice: 0.36 holds 76 % of published plain runs on 2, 72 % on 3 and 4", "chosen"
)
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

LATE = sourced(
    (1.5, 3.0),
    "ratio",
    "Policy: growth of TTFT from which quicker tokens count less, or nothing",
    "chosen",
)
LEAST_RATIO = sourced(1e-6, "ratio", "Of a speed-up: a logarithm needs some", "chosen")


def decide(
    median: Floats,
    p_gain: Floats,
    open_sign: Mask | None = None,
    measured: Floats | None = None,
    on_from: Floats | None = None,
    off_to: Floats | None = None,
) -> Codes:
    """The decision for each of N posteriors. `median`: of the goal's metric, a ratio; above 1 is
    faster. `open_sign`: the metric is the time to first token and its 80 % interval holds 1; such
    an answer is "measure", since P(gain) of this metric is not calibrated well enough to decide
    alone. `measured`: how far the configuration itself was measured and gained there, 0 to 1.
    `on_from`: P(gain) from which each is on, `off_to`: up to which it is off; default the
    thresholds. Returns indices into `DECISIONS` (N,); NaN gives "measure".
    """
    if on_from is None:
        least, there = (
            knowledge.threshold(f"decision_on_p_gain{x}").value for x in ("", "_measured")
        )
        on_from = bound(least, there, np.zeros(len(median)) if measured is None else measured)
    on = (median > 1.0) & (p_gain >= on_from)
    off = p_gain <= (knowledge.threshold("decision_off_p_gain").value if off_to is None else off_to)
    unsure = np.zeros(len(median), dtype=bool) if open_sign is None else open_sign
    return np.select([unsure, on, off], [1, 2, 0], default=1).astype(np.int8)


def bound(elsewhere: float | Floats, there: float, measured: Floats) -> Floats:
    """P(gain) from which speculation is on: one bound where the configuration was measured, another
    elsewhere, and between them by how far it was (N,).
    """
    return np.asarray(elsewhere + (there - elsewhere) * measured, dtype=np.float64)


def decide_one(
    median: float, p_gain: float, open_sign: bool = False, measured: float = 0.0
) -> Decision:
    """`decide` for one posterior."""
    return DECISIONS[int(decide(*map(np.atleast_1d, (median, p_gain, open_sign, measured)))[0])]


def plain_sd(metric: str, devices: int = 1) -> float:
    """Standard deviation of log(predicted / measured) of a level without speculation: of "ttft", or
    of steps, and so of tokens per second, on as many GPUs.
    """
    steps = "plain_tpot_error_many" if devices >= MANY else "plain_tpot_error"
    return knowledge.threshold("plain_ttft_error" if metric == "ttft" else steps).value


def p_meets(limit: float, value: float, sd: float) -> float:
    """Probability that a latency stays within a limit. `sd`: of the log of such an estimate."""
    return cdf(float(np.log(limit / value)) / sd)


def token_wait(crowded: Mask | bool, first_token: Length) -> Length:
    """How far quicker tokens are paid by the wait for the first one: 1 where speculation lets fewer
    requests run (`crowded`) or the first token comes `LATE[1]` times as late, from 0 at `LATE[0]`.
    A balanced goal then looks at output tok/s, which has the wait in it. `first_token`: median
    speed-up of the time to first token, above 1 is sooner; a number or an array (N,).
    """
    paid: Length = choose(crowded, 1.0, between(1 / greater(first_token, LEAST_RATIO), *LATE))
    return paid


def goal_weights(goal: Goal, paid: Length) -> tuple[Length, Length, Length]:
    """What a goal weighs of tok/s, TPOT and TTFT, as numbers or (N,). `paid`: see `token_wait`."""
    output, tokens, first = GOAL_WEIGHTS[goal]
    moved = paid * (tokens if goal == "balanced" else 0.0)
    return output + moved, tokens - moved, first + 0.0 * paid


def goal_chances(goals: Sequence[Goal], paid: Floats, found: Mapping[str, Predicted]) -> Floats:
    """Chance that each point's goal gains; `paid` is what `token_wait` says."""
    chances = np.empty(len(goals))
    for goal in dict.fromkeys(goals):
        rows = np.array([other == goal for other in goals])
        chances[rows] = _goal_chance(goal, paid, found)[rows]
    return chances


def _goal_chance(goal: Goal, paid: Floats, found: Mapping[str, Predicted]) -> Floats:
    weights = goal_weights(goal, paid)
    parts = [(w, found[name]) for w, name in zip(weights, ESTIMATED, strict=True) if w.any()]
    if len(parts) == 1:
        return parts[0][1].p_gain
    (_, first), (_, second) = parts
    # a metric that cannot change leaves the sign to the other
    both = np.where(second.sd <= 0, first.p_gain, chance_of_both(parts))
    return np.where((first.sd <= 0) & (second.sd > 0), second.p_gain, both)
