"""Mechanisms that depend on a build: priced in both states, each with a probability.

A row seldom says whether a build splits verify attention over the KV cache, has a small-batch
kernel for its chip, or replays recurrent states. Physics prices the state that was found in source
code or reports. Here the same step is priced without the mechanism, too, and the prediction is the
mixture of both: the median lies between them, and the doubt about the state is a reason for the
spread. The probabilities are shares of owners (knowledge/thresholds.yaml, `switch_*`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import attention, drafting, kernels
from advisor.perf.arrays import Points
from advisor.perf.constants import Constants
from advisor.prediction import spread

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

ROW_SD = sourced(
    0.21,
    "log ratio",
    "Square root of the row's own variance in the fitted spread (models/speedup.json)",
    "derived",
)
HALVINGS = 20  # of a median
LEAST_GAP = 0.005  # log ratio below which two states are one


class Switch(NamedTuple):
    """One mechanism: its probability, the constants without it, and where it counts."""

    threshold: str
    without: Mapping[str, float]
    where: Callable[[Points, Constants], Mask]


def _serial(p: Points, c: Constants) -> Mask:
    return np.asarray(attention.serial_attention_seconds(p, c, p.depth_tokens) > 0)


def _tokens(p: Points) -> Floats:
    return np.fmin(p.concurrency, p.max_num_seqs) * p.verify_tokens


SWITCHES = (
    Switch("switch_serial_verify", {"verify_serial_s": 0.0}, _serial),
    Switch(
        "switch_metal_apple9",
        {"metal_apple9": 1.0},
        lambda p, _: kernels.slow_small_batch(p, _tokens(p)),
    ),
    Switch(
        "switch_metal_repeat",
        {"metal_repeat": 1.0},
        lambda p, _: kernels.repeats(p, _tokens(p)),
    ),
    Switch(
        "switch_state_replay", {"state_checkpoint_s": 0.0}, lambda p, _: drafting.replays_states(p)
    ),
)


class MixedStates(NamedTuple):
    """Median of the log speed-up over both states, and the variance between them. (N,) each."""

    median: Floats
    between: Floats


def mix_states(
    full: Points,
    constants: Constants,
    log: Floats,
    price: Callable[[Points, Constants, Mask], Floats],
) -> MixedStates:
    """Predictions with every mechanism that is uncertain here in both of its states.

    Parameters
    ----------
    full : Points
        N filled points.
    constants : Constants
        Of the physics that priced them.
    log : ndarray, shape (N,)
        Log speed-up of each point's metric with every mechanism at work.
    price : callable
        The same for some of the points with other constants: (points, constants, which) -> log.

    Returns
    -------
    Mixed
    """
    median, between = log.copy(), np.zeros(len(log))
    for switch in SWITCHES:
        here = switch.where(full, constants) & (full.k > 0) & (full.method > 0)
        if not here.any():
            continue
        other = price(full.take(np.flatnonzero(here)), _without(constants, switch), here)
        gap = other - log[here]
        share = knowledge.threshold(switch.threshold).value
        median[here] += _median(gap, share)
        between[here] += share * (1 - share) * gap**2
    return MixedStates(median, between)


def _without(constants: Constants, switch: Switch) -> Constants:
    changes = {
        name: (value,) * len(old) if isinstance(old := getattr(constants, name), tuple) else value
        for name, value in switch.without.items()
    }
    return dataclasses.replace(constants, **changes)  # type: ignore[arg-type]


def _median(gap: Floats, share: float) -> Floats:
    """Median of a normal at 0 with probability `share`, else at `gap`; both with sd ROW_SD."""
    low, high = np.fmin(gap, 0.0), np.fmax(gap, 0.0)
    states = np.stack([np.zeros_like(gap), gap])
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        at, other = spread.cdf((middle - states) / ROW_SD)
        below = share * at + (1 - share) * other
        low, high = np.where(below < 0.5, middle, low), np.where(below < 0.5, high, middle)
    return np.where(np.abs(gap) < LEAST_GAP, 0.0, (low + high) / 2)
