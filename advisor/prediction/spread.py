"""How far a prediction may be off: the variance of the log speed-up, reason by reason; and the
standard normal distribution for arrays, numpy alone. Each reason has a size per point and a weight
that was fitted to the errors on left-out sources (lab/training/spread_fit.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import physics, prompt_cost
from advisor.perf.arrays import METRICS, Codes, Floats, Points
from advisor.perf.constants import Constants
from advisor.prediction.acceptance import AcceptanceBelief

REASONS = ("row", "tokens", "stand_ins", "ttft", "switches", "drafter", "gpus", "platform")

# What a row may leave out; bandwidth and size count double.
GUESSED = sourced(
    {"bw": 2.0, "total_params": 2.0}
    | dict.fromkeys(("quant_bits", "concurrency", "gpus", "k", "layers", "input_tokens"), 1.0),
    "numbers",
    "Bandwidth and size move a prediction most and count double",
    "assumed",
)

# Drafters of several layers or steps of their own: what they cost hangs on their file.
LAYERED = ("draft_model", "dflash", "dspark")
UNTIMED = ("other", "mlx", "vllm-other")  # paths whose kernels nobody timed for the core

_REQUEST, _TTFT = METRICS.index("request_tok_s"), METRICS.index("ttft")

_TTFT_ELASTICITY = sourced(
    0.15, "exponent", "Of the time to first token in the tokens of a step", "assumed"
)


class Spread(NamedTuple):
    """Weights of the reasons, in the order of REASONS; the defaults serve until a fit."""

    weights: tuple[float, ...] = (0.04, 1.0, 0.0025, 0.16, 1.0, 0.02, 0.02, 0.04)

    def sd(self, reasons: Floats) -> Floats:
        """Standard deviation of the log speed-up (N,) from the sizes of its reasons (N, R)."""
        return np.asarray(np.sqrt(reasons @ np.array(self.weights)), dtype=np.float64)

    def to_dict(self) -> dict[str, float]:
        """Return each reason's weight by its name."""
        return dict(zip(REASONS, self.weights, strict=True))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the spread of a saved state. Raises KeyError where a reason is missing."""
        return cls(tuple(float(state[name]) for name in REASONS))


def count_imputed(points: Points) -> Floats:
    """How many numbers are filled in for each point as read; bandwidth and size count double."""
    missing = np.zeros(len(points))
    for name, weight in GUESSED.items():
        missing += weight * np.isnan(getattr(points, name))
    return missing


def elasticity(full: Points, constants: Constants, metrics: Sequence[Codes]) -> Floats:
    """d log(speed-up) / d log(tokens per step), 1 in decode, less with prompts (M, N)."""
    batch = np.fmin(full.concurrency, full.max_num_seqs)
    context = full.depth_tokens + full.output_tokens / 2
    plain = physics.step_seconds(full, constants, batch, np.ones(len(batch)), False, context).total
    prompt = prompt_cost.prefill_seconds(
        full, constants, full.input_tokens, np.zeros(len(batch)), False
    )
    decode = full.output_tokens * plain
    each = np.stack(metrics)
    chosen = np.where(each == _TTFT, _TTFT_ELASTICITY, decode / (batch * prompt + decode))
    return np.asarray(np.where(each == _REQUEST, 1.0, chosen), dtype=np.float64)


def reasons(
    points: Points,
    full: Points,
    belief: AcceptanceBelief,
    constants: Constants,
    switches: Floats,
    metrics: Sequence[Codes],
) -> Floats:
    """The size of each reason for doubt, one metric of all points below the other (M * N, R).
    `switches`: variance between the states of uncertain mechanisms (M, N).
    """
    made = np.ones((len(metrics), len(full), len(REASONS)))
    made[..., 1] = (elasticity(full, constants, metrics) * belief.log_tau_sd) ** 2
    made[..., 2] = count_imputed(points)
    made[..., 3] = (np.stack(metrics) == _TTFT) & (full.concurrency > 1)
    made[..., 4] = switches
    made[..., 5] = full.is_method(*LAYERED)
    made[..., 6] = np.log2(full.gpus)
    made[..., 7] = full.is_path(*UNTIMED)
    return made.reshape(-1, len(REASONS))


_ERF = sourced(
    (0.3275911, (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)),
    "",
    "Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; error below 1.5e-7",
    "read",
)

_MIDDLE = sourced(
    (
        (-39.69683028665376, 220.9460984245205, -275.9285104469687),
        (138.3577518672690, -30.66479806614716, 2.506628277459239),
        (-54.47609879822406, 161.5858368580409, -155.6989798598866),
        (66.80131188771972, -13.28068155288572, 1.0),
    ),
    "",
    "P. J. Acklam's rational approximation of the normal quantile; relative error below 1.2e-9",
    "read",
)

_TAIL = sourced(
    (
        (-0.007784894002430293, -0.3223964580411365, -2.400758277161838),
        (-2.549732539343734, 4.374664141464968, 2.938163982698783),
        (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0),
    ),
    "",
    "The same beyond 2.425 % of either side",
    "read",
)

_EDGE = sourced(0.02425, "probability", "Where Acklam's two parts meet", "read")
LEAST = sourced(1e-9, "probability", "No quantile further out is used", "chosen")


def _poly(factors: Sequence[float], x: Floats) -> Floats:
    """A polynomial, the factor of the highest power first (numpy's own is slow for few points)."""
    out = factors[0] * x + factors[1]
    for factor in factors[2:]:
        out *= x
        out += factor
    return out


def cdf(z: Floats) -> Floats:
    """Probability below each value of a standard normal (N,)."""
    size, (slope, factors) = np.abs(z) / np.sqrt(2.0), _ERF
    t = 1 / (1 + slope * size)
    tail = t * _poly(factors[::-1], t) * np.exp(-(size**2)) / 2
    return np.asarray(np.where(z < 0, tail, 1 - tail), dtype=np.float64)


def quantile(p: Floats) -> Floats:
    """Value of a standard normal below which each probability lies (N,)."""
    p = np.asarray(p).clip(LEAST, 1 - LEAST)
    away = p - 0.5
    (a, b, c, d), (e, f, g) = _MIDDLE, _TAIL
    r = away**2
    middle = away * _poly((*a, *b), r) / _poly((*c, *d), r)
    q = np.sqrt(-2 * np.log(np.fmin(p, 1 - p)))
    tail = _poly((*e, *f), q) / _poly(g, q)
    far = np.abs(away) > 0.5 - _EDGE
    return np.asarray(np.where(far, -np.sign(away) * tail, middle), dtype=np.float64)
