"""What the measured pairs of one cell say of many points: `neighbours` has the pairs.

Pairs of one owner at one place weigh alike, so a large table is compared with each such place once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

BLOCK = sourced(2**16, "numbers", "Of 8 bytes; the arrays of a block stay in the cache", "measured")
WORTH_SORTING = sourced(
    2**20, "numbers", "From here on it is quicker to find the distinct places first", "measured"
)
COVERS = sourced(
    1.01,
    "doublings",
    "Factor 2 in concurrency and context counts as the same configuration",
    "chosen",
)
NEAR = sourced(
    0.3,
    "correlation",
    "From here on an A/B run is evidence for another load",
    "chosen",
)
# How fast two pairs of a cell lose touch: exponent of their correlation per unit of distance
# (doublings; differs or not).
FADE = sourced(
    np.array([0.25, 0.2, 0.25, 0.15, 0.1]),
    "exponent",
    "A slower fade over k (0.08) moves the regret of k by 0.04 points (notes.md)",
    "assumed",
)
# The same for their side of 1 between two metrics: a decode speed that gains says little of a whole
# load that loses, where drafts leave room for fewer requests.
FADE_SIGN = sourced(
    1.0,
    "exponent",
    "RTX 5090, Qwen3.8-27B, 8 requests: decode speed 1.27x, output tok/s 0.71x (f68893312211)",
    "assumed",
)
MEASURES = ("streams", "context", "log_k", "workload", "metric")
SAME_K = 0.5  # draft tokens
YES_OR_NO = 3  # measures from here on only differ or agree
CLEAR = sourced(
    0.05,
    "log ratio",
    "Nearly twice the replicate spread of 0.029: clearly on one side of 1",
    "derived",
)


class Near(NamedTuple):
    """What the pairs of one cell say of points, (N,) each. `shift`: what the mean moves by; the
    others as in `neighbours.Pull`.
    """

    shift: Floats
    evidence: Floats
    near: Mask
    closeness: Floats
    longer: Floats


class Groups(NamedTuple):
    """The pairs of a cell (B,) as G groups of one owner at one place each."""

    places: Floats  # distinct ones (P, len(MEASURES))
    place: Ints  # of each group, one of P (G,)
    rig: Floats  # whose it is (G,)
    pairs: Floats  # how many there are (G,)
    told: Floats  # how many of them have a stated acceptance (G,)
    miss: Floats  # sum of what these were missed by (G,)
    group: Ints | None  # of each pair, one of G (B,); None where each is its own
    whole: Floats  # by how much each pair was missed without a stated acceptance (B,)
    with_stated: Floats  # the same with it, where it is stated (B,)


def group_pairs(pairs: Floats, alike: bool) -> Groups:
    """The groups of a cell's pairs (B, len(MEASURES) + 3); each pair its own where they are not
    sought for, which a few points are not worth (`alike`).
    """
    places, rig, whole, miss = pairs[:, : len(MEASURES)], *pairs[:, -3:].T
    own = np.arange(len(pairs))
    stated = np.isfinite(miss)
    with_stated = np.where(stated, miss, whole)
    if not alike:
        ones = np.ones(len(pairs))
        told = stated.astype(np.float64)
        return Groups(
            places, own, rig, ones, told, np.where(stated, miss, 0.0), None, whole, with_stated
        )
    distinct, place = np.unique(places, axis=0, return_inverse=True)
    keys, group = np.unique(np.column_stack([rig, place]), axis=0, return_inverse=True)

    def total(each: npt.NDArray[np.generic]) -> Floats:
        return np.asarray(np.bincount(group, weights=each), dtype=np.float64)

    return Groups(
        distinct,
        keys[:, 1].astype(np.int64),
        keys[:, 0],
        total(np.ones(len(pairs))),
        total(stated),
        total(np.where(stated, miss, 0.0)),
        group,
        whole,
        with_stated,
    )


def of_cell(pairs: Floats, where: Floats, mean: Floats, known: Mask) -> Near:
    """What a cell says of many points: each place once, as many places as the cache holds.

    Parameters
    ----------
    pairs : Floats
        Measured ones, as in `neighbours.Nearby`. (B, len(MEASURES) + 3)
    where : Floats
        Places of the points. (N, len(MEASURES))
    mean : Floats
        Their log speed-ups. (N,)
    known : Mask
        Whether an acceptance is stated for them. (N,)

    Returns
    -------
    Near
        (N,) each
    """
    many = len(where) * len(pairs) > WORTH_SORTING
    if many:
        distinct, back = np.unique(where, axis=0, return_inverse=True)
    else:
        distinct, back = where, np.arange(len(where))
    groups = group_pairs(pairs, many)
    made = Near(*(np.zeros(len(where), dtype=kind) for kind in (float, float, bool, float, float)))
    step = max(1, BLOCK // max(1, len(pairs)))
    order = np.argsort(back, kind="stable")
    cuts = np.searchsorted(back[order], np.arange(0, len(distinct) + step, step))
    for i, (first, last) in enumerate(pairwise(cuts.tolist())):
        places = distinct[i * step : (i + 1) * step]
        shift, weights, near = _cell(groups, places)
        closeness, longer = _closeness(groups.places, places)
        for start in range(first, last, step):
            points = order[start : min(start + step, last)]
            here = back[points] - i * step
            made.shift[points], made.near[points] = shift[here], near[here]
            made.closeness[points], made.longer[points] = closeness[here], longer[here]
            made.evidence[points] = _side(groups, weights[here], mean[points], known[points])
    return made


def _side(groups: Groups, weights: Floats, mean: Floats, known: Mask) -> Floats:
    """On which side of 1 points lie with the misses of the pairs, by how much these weigh (A, G):
    -1 to 1 (A,).
    """
    if known.all():
        missed = groups.with_stated[None, :]
    elif known.any():
        missed = np.where(known[:, None], groups.with_stated, groups.whole)
    else:
        missed = groups.whole[None, :]
    side = np.clip((mean[:, None] + missed) / CLEAR, -1.0, 1.0)
    each = weights if groups.group is None else weights[:, groups.group]
    return np.asarray(np.einsum("ij,ij->i", each, side), dtype=np.float64)


def _cell(groups: Groups, where: Floats) -> tuple[Floats, Floats, Mask]:
    """Shift at places of one cell, how much each pair of a group weighs in the side of 1 there, and
    whether a pair is near enough to say something.
    """
    places, place = groups.places, groups.place
    # both fade alike but for the metric, the last measure
    alike = _correlation(where[:, :-1], places[:, :-1], FADE[:-1])
    other = where[:, -1, None] != places[None, :, -1]
    touch, sign = (np.where(other, np.exp(-fade), 1.0) * alike for fade in (FADE[-1], FADE_SIGN))
    near = touch.max(axis=1) >= NEAR
    weights, nearest = _owners(sign[:, place], groups.rig, groups.pairs)
    weights *= nearest[:, None] ** 2
    told = groups.told > 0
    if not told.any():
        return np.zeros(len(where)), weights, near
    share, nearest = _owners(touch[:, place[told]], groups.rig[told], groups.told[told])
    missed = share @ groups.miss[told]
    return knowledge.threshold("stranger_weight").value * nearest * missed, weights, near


def _owners(touch: Floats, rig: Floats, pairs: Floats) -> tuple[Floats, Floats]:
    """Weights of each pair of a group in a mean over owners of their nearest ones (A, G), and how
    near the nearest of all is (A,).
    """
    order = np.argsort(rig, kind="stable")  # so that an owner's pairs stand one below the other
    starts = np.flatnonzero(np.diff(rig[order], prepend=np.nan))
    below = touch.T[order]
    each = np.maximum.reduceat(below, starts, axis=0)
    nearest = np.square(each)
    weights = np.square(np.square(below, out=below), out=below)
    sums = np.maximum(np.add.reduceat(weights * pairs[order, None], starts, axis=0), 1e-12)
    scale = nearest / sums / np.maximum(nearest.sum(axis=0), 1e-12)
    weights *= np.repeat(scale, np.diff(starts, append=len(order)), axis=0)
    return weights[np.argsort(order)].T, each.max(axis=0)


def _correlation(a: Floats, b: Floats, fades: Floats) -> Floats:
    """(A, B) correlation at two sets of places of one cell: falls exponentially with their
    distance.
    """
    distance = np.zeros((len(a), len(b)))
    for i, fade in enumerate(fades):  # one measure at a time: a large batch stays in the cache
        gap = np.abs(a[:, i, None] - b[None, :, i])
        distance -= fade * (gap if i < YES_OR_NO else gap > 0)
    out: Floats = np.exp(distance, out=distance)
    return out


def _closeness(places: Floats, where: Floats) -> tuple[Floats, Floats]:
    """How far the configuration itself was measured, and how far with one draft token more (N,)
    each: 1 where such a pair lies within a factor 2 of its requests and of its context, falling to
    0 at a factor of 4. What fewer and what more requests say adds up: a load between two measured
    ones is no further from what is known than they are.
    """
    # two measures one by one: the larger of two along an axis of its own takes four times as long
    apart, gap = (where[:, None, i] - places[None, :, i] for i in (0, 1))
    np.maximum(np.abs(apart), np.abs(gap, out=gap), out=gap)
    more = np.exp2(places[:, 2])[None, :] - np.exp2(where[:, 2])[:, None]

    def near(alike: Mask) -> Floats:
        found = np.where(alike, gap, np.inf)
        sides = (np.where(side, found, np.inf).min(axis=1) for side in (apart >= 0, apart <= 0))
        fewer, further = (np.clip(1 + COVERS - nearest, 0.0, 1.0) for nearest in sides)
        return np.asarray(np.fmin(fewer + further, 1.0), dtype=np.float64)

    return near(np.abs(more) < SAME_K), near(np.abs(more - 1) < SAME_K)
