"""Baselines that any model must beat, predicted fold by fold from the other folds only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from advisor.lab.training.dataset import Examples
from advisor.perf.arrays import Points
from advisor.prediction import acceptance as acc
from advisor.prediction.model import prepare

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]


def always_off(examples: Examples, folds: Words) -> Floats:
    """Speculation changes nothing: log speed-up 0.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    folds : Words
        Label of the group that is left out with each row. (M,)

    Returns
    -------
    Floats
        Zeros. (M,)
    """
    return np.zeros(len(examples))


def training_mean(examples: Examples, folds: Words) -> Floats:
    """The rig-weighted mean log speed-up of the other folds, per metric class (TTFT apart).

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    folds : Words
        Label of the group that is left out with each row. (M,)

    Returns
    -------
    Floats
        Log speed-ups. (M,)
    """
    out = np.zeros(len(examples))
    slow = examples.metric == "ttft"
    for fold in np.unique(folds):
        here = folds == fold
        for kind in (slow, ~slow):
            rest = ~here & kind
            if rest.any():
                out[here & kind] = np.average(
                    examples.log_speedup[rest], weights=examples.weight[rest]
                )
    return out


def nearest_neighbour(examples: Examples, folds: Words) -> Floats:
    """The speed-up of the nearest measured row of another fold: engine, method, hardware, k,
    streams, context, size.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    folds : Words
        Label of the group that is left out with each row. (M,)

    Returns
    -------
    Floats
        Log speed-ups. (M,)
    """
    _, full = prepare(examples.points)
    x = np.column_stack(
        [
            np.log2(full.bw / 9e11),
            np.log2(full.fp32 / full.bw / 40),
            np.log2(full.k + 1) * 1.5,
            np.log2(full.concurrency),
            0.5 * np.log2(1 + full.input_tokens / 1024),
            np.log2(full.active_params / 1e10),
            3.0 * full.path,
            6.0 * full.method,
            10.0 * (full.metric == 4),
        ]
    )
    out = np.zeros(len(examples))
    for fold in np.unique(folds):
        here, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        gap = ((x[here][:, None, :] - x[rest][None, :, :]) ** 2).sum(axis=2)
        out[here] = examples.log_speedup[rest][gap.argmin(axis=1)]
    return out


def leviathan(points: Points, tau: Floats) -> Floats:
    """tokens per step / (c k + 1), c from sizes: what a draft pass reads over what a target pass
    reads. Verification is free.

    Parameters
    ----------
    points : Points
        Filled; N points.
    tau : Floats
        Tokens per step, the bonus token included. (N,)

    Returns
    -------
    Floats
        Log speed-ups. (N,)
    """
    _, full = prepare(points)
    per_expert = np.where(full.experts > 0, full.topk * full.expert_params, 0.0)
    core = np.maximum(full.mtp_params - full.experts * full.expert_params, 0.0)
    head = (core + per_expert + full.lm_head_params) / full.active_params
    share = np.select(
        [
            full.is_method("draft_model"),
            full.is_method("ngram"),
            full.is_method("dflash", "dspark"),
        ],
        [
            full.draft_params / full.active_params,
            np.zeros(len(full)),
            5 * 12 * full.hidden**2 / full.active_params / np.maximum(full.k, 1),
        ],
        default=head,
    )
    out: Floats = np.log(tau / (1 + share * full.k))
    return out


def tokens_only(points: Points, tau: Floats) -> Floats:
    """Rescaling by tokens per step alone: drafting and verifying are free.

    Parameters
    ----------
    points : Points
        Filled; N points.
    tau : Floats
        Tokens per step, the bonus token included. (N,)

    Returns
    -------
    Floats
        Log speed-ups. (N,)
    """
    out: Floats = np.log(tau)
    return out


def given_tau(examples: Examples, prior: Floats) -> Floats:
    """Stated tokens per step where the source gives it, `prior` (from models that left the fold
    out) elsewhere.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    prior : Floats
        Tokens per step expected by models that left the fold out. (M,)

    Returns
    -------
    Floats
        Tokens per step. (M,)
    """
    ready, _ = prepare(examples.points)
    length = np.where(
        np.isnan(ready.given_length), 1 + acc.draft_k(ready) * ready.given_rate, ready.given_length
    )
    out: Floats = np.where(np.isnan(length), prior, np.maximum(length, 1.0))
    return out


LEARNED: dict[str, Callable[[Examples, Words], Floats]] = {
    "always off (speed-up 1)": always_off,
    "training mean": training_mean,
    "nearest neighbour": nearest_neighbour,
}
FORMULAS: dict[str, Callable[[Points, Floats], Floats]] = {
    "tokens per step alone": tokens_only,
    "Leviathan, c from sizes": leviathan,
}


def fixed_k(k: float) -> Callable[[Floats, Floats], int]:
    """The rule "always this k" (the nearest measured one) for regret over sweeps.

    Parameters
    ----------
    k : float
        Draft tokens.

    Returns
    -------
    callable
        Takes what is predicted for each measured k (K,) and these k (K,), returns an index.
    """
    return lambda guess, ks: int(np.abs(ks - k).argmin())
