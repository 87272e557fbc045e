"""Baselines that any model must beat, predicted fold by fold from the other folds only."""

from __future__ import annotations

import numpy as np

from advisor.lab.arrays import Floats, Words
from advisor.lab.evaluation.metrics import Rule
from advisor.lab.training.dataset import Examples
from advisor.perf.arrays import Points
from advisor.prediction import acceptance as acc
from advisor.prediction.model import prepare


def always_off(examples: Examples, folds: Words) -> Floats:
    """Speculation changes nothing: log speed-up 0."""
    return np.zeros(len(examples))


def training_mean(examples: Examples, folds: Words) -> Floats:
    """The rig-weighted mean log speed-up of the other folds, TTFT apart."""
    y, weight, slow = examples.log_speedup, examples.weight, examples.metric == "ttft"
    out = np.zeros(len(y))
    for here in (folds == fold for fold in np.unique(folds)):
        for kind in (slow, ~slow):
            rest = ~here & kind
            if rest.any():
                out[here & kind] = np.average(y[rest], weights=weight[rest])
    return out


def nearest_neighbour(examples: Examples, folds: Words) -> Floats:
    """The speed-up of the nearest measured row of another fold: engine, method, hardware, k,
    streams, context, size.
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
    """Tokens per step (tau) / (c k + 1), c from sizes: what a draft pass reads over what a target
    pass reads. Verification is free.
    """
    _, full = prepare(points)
    per_expert = np.where(full.experts > 0, full.topk * full.expert_params, 0.0)
    core = np.maximum(full.mtp_params - full.experts * full.expert_params, 0.0)
    kinds = (("draft_model",), ("ngram",), ("dflash", "dspark"))
    read = [full.draft_params, np.zeros(len(full)), 5 * 12 * full.hidden**2 / np.maximum(full.k, 1)]
    drafts = np.select(
        [full.is_method(*kind) for kind in kinds], read, core + per_expert + full.lm_head_params
    )
    out: Floats = np.log(tau / (1 + drafts / full.active_params * full.k))
    return out


def tokens_only(points: Points, tau: Floats) -> Floats:
    """Tokens per step (tau) alone: drafting and verifying are free."""
    out: Floats = np.log(tau)
    return out


def given_tau(examples: Examples, prior: Floats) -> Floats:
    """Stated tokens per step where the source gives it, `prior` elsewhere."""
    ready, _ = prepare(examples.points)
    by_rate = 1 + acc.draft_k(ready) * ready.given_rate
    length = np.where(np.isnan(ready.given_length), by_rate, ready.given_length)
    out: Floats = np.where(np.isnan(length), prior, np.maximum(length, 1.0))
    return out


LEARNED = {
    "always off (speed-up 1)": always_off,
    "training mean": training_mean,
    "nearest neighbour": nearest_neighbour,
}
FORMULAS = {"tokens per step alone": tokens_only, "Leviathan, c from sizes": leviathan}


def fixed_k(k: float) -> Rule:
    """The rule "always this k" (the nearest measured one) for regret over sweeps."""
    return lambda guess, ks: int(np.abs(ks - k).argmin())
