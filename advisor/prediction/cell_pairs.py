"""What the measured pairs of one cell say of many points: `neighbours` has the pairs.

A pair's correlation with a point is a product over the measures. So what depends on anything but
the context is worked out once for all points that share it, and summed over the pairs of one owner
at one context; only these few sums meet the context of each point.
"""

from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding.cells import distinct_rows

BLOCK = sourced(2**16, "8-byte numbers", "They stay in the cache", "measured")  # pragma: no mutate
WORTH_SORTING = sourced(
    2**20, "numbers", "From here on it is quicker to find the distinct places first", "measured"
)  # pragma: no mutate
COVERS = sourced(
    1.01, "doublings", "Factor 2 in concurrency and context counts as one configuration", "chosen"
)
NEAR = sourced(0.3, "correlation", "From here on an A/B run is evidence for another load", "chosen")
# How fast two pairs of a cell lose touch: exponent of their correlation per unit of distance
# (doublings; differs or not).
FADE = sourced(
    np.array([0.25, 0.2, 0.25, 0.15, 0.1]),
    "exponent",
    "a slower fade over k moves little (notes.md)",
    "assumed",
)
# The same for their side of 1 between two metrics: a decode speed that gains says little of a whole
# load that loses, where drafts leave room for fewer requests.
FADE_SIGN = sourced(
    1.0,
    "exponent",
    "RTX 5090, Qwen3.8-27B: decode 1.27x, output tok/s 0.71x (f68893312211)",
    "assumed",
)
MEASURES = ("streams", "context", "log_k", "workload", "metric")
STREAMS, CONTEXT, LOG_K, WORKLOAD, METRIC = range(len(MEASURES))
OTHERS = (STREAMS, LOG_K, WORKLOAD, METRIC)
SAME_K = 0.5  # draft tokens
SHARP = sourced(
    4, "power of the correlation", "of an owner's measured runs the nearest count most", "chosen"
)
CLEAR = sourced(
    0.05, "log ratio", "Nearly twice the replicate spread of 0.029: on one side of 1", "derived"
)


class Pull(NamedTuple):
    """What pairs say of points, (N,) each: their `mean`, or by how much it moves; `evidence`: side
    of 1 by the nearest pairs, -1 to 1; `closeness`: 1 where a pair of the cell at this k lies
    within a factor 2, falling to 0 at 4; `near`: any pair of the cell; `longer`: as `closeness`,
    for pairs with one draft token more (of 949 published pairs where k + 1 gained 3 % and more, k
    gained in 922).
    """

    mean: Floats
    evidence: Floats
    closeness: Floats
    near: Mask
    longer: Floats

    @classmethod
    def none(cls, count: int) -> Self:
        """That of no pairs (count,)."""
        mean, evidence, closeness, longer = np.zeros((4, count))
        return cls(mean, evidence, closeness, np.zeros(count, dtype=bool), longer)


class Groups(NamedTuple):
    """The pairs of a cell (B,) as G groups of one owner at one place each, in the order of their O
    owners and of their context; those of one owner at one context are one of S stretches.
    """

    places: Floats  # (G, len(MEASURES))
    pairs: Floats  # how many there are (G,)
    told: Floats  # how many of them have a stated acceptance (G,)
    miss: Floats  # sum of what these were missed by (G,)
    group: Ints  # of each pair, one of G (B,)
    whole: Floats  # by how much each pair was missed without a stated acceptance (B,)
    with_stated: Floats  # the same with it, where it is stated (B,)
    starts: Ints  # first group of each stretch (S,)
    stretch: Ints  # of each group, one of S (G,)
    owners: Ints  # first stretch of each owner (O,)
    owner: Ints  # of each stretch, one of O (S,)


def group_pairs(pairs: Floats) -> Groups:
    """The groups of a cell's pairs (B, len(MEASURES) + 3)."""
    rig = pairs[:, -3]
    pairs = pairs[np.lexsort((*pairs[:, OTHERS].T, pairs[:, CONTEXT], rig))]
    rig, whole, miss = pairs[:, -3], pairs[:, -2], pairs[:, -1]
    differs = np.diff(pairs[:, : len(MEASURES)], axis=0, prepend=np.nan) != 0  # the first ones do
    new_owner = np.diff(rig, prepend=np.nan) != 0
    new_stretch = new_owner | differs[:, CONTEXT]
    first = np.flatnonzero(new_stretch | differs.any(axis=1))
    stated = np.isfinite(miss)

    def total(each: npt.NDArray[Any]) -> Floats:
        return np.add.reduceat(each.astype(np.float64), first)

    stretch = np.cumsum(new_stretch)[first] - 1
    starts = np.flatnonzero(np.diff(stretch, prepend=-1))
    owner = (np.cumsum(new_owner)[first] - 1)[starts]
    return Groups(
        pairs[first, : len(MEASURES)],
        total(np.ones(len(pairs))),
        total(stated),
        total(np.where(stated, miss, 0.0)),
        np.repeat(np.arange(len(first)), np.diff(first, append=len(pairs))),
        whole,
        np.where(stated, miss, whole),
        starts,
        stretch,
        np.flatnonzero(np.diff(owner, prepend=-1)),
        owner,
    )


class Weighed(NamedTuple):
    """The groups of a cell for A settings of everything but the context. Powers of correlations
    (SHARP), to be multiplied by that of the context; of the settings' side of 1, of their mean.
    """

    side: Floats  # of each group (A, G)
    side_most: Floats  # the largest of a stretch (A, S)
    side_sum: Floats  # over the pairs of a stretch (A, S)
    most: Floats  # (A, S)
    told_most: Floats  # of pairs with a stated acceptance (A, S)
    told_sum: Floats  # (A, S)
    missed: Floats  # the same weighing what they were missed by (A, S)
    # least doublings of requests between the setting and pairs at its k with at most as many
    fewer: Floats  # (A, S)
    further: Floats  # the same with at least as many (A, S)
    longer_fewer: Floats  # and of pairs with one draft token more (A, S)
    longer_further: Floats  # (A, S)


def weigh(groups: Groups, settings: Floats) -> Weighed:
    """The groups for settings of all measures but the context (A, len(OTHERS))."""
    places, starts = groups.places, groups.starts
    gaps = [np.abs(settings[:, i, None] - places[None, :, m]) for i, m in enumerate(OTHERS)]
    streams, log_k, workload, metric = gaps
    fades = (FADE[STREAMS] * streams, FADE[LOG_K] * log_k, FADE[WORKLOAD] * (workload > 0))
    touch = np.exp(-SHARP * sum(fades))
    differs = metric > 0
    mean, side = (
        np.where(differs, np.exp(-SHARP * fade), 1.0) * touch for fade in (FADE[METRIC], FADE_SIGN)
    )
    more = np.exp2(places[:, LOG_K])[None, :] - np.exp2(settings[:, 1])[:, None]

    apart = settings[:, 0, None] - places[None, :, STREAMS]
    above, below = apart >= 0, apart <= 0
    alike, longer = np.abs(more) < SAME_K, np.abs(more - 1) < SAME_K

    def least(here: Mask) -> Floats:
        return np.minimum.reduceat(np.where(here, streams, np.inf), starts, axis=1)

    return Weighed(
        side=side,
        side_most=np.maximum.reduceat(side, starts, axis=1),
        side_sum=np.add.reduceat(side * groups.pairs, starts, axis=1),
        most=np.maximum.reduceat(mean, starts, axis=1),
        told_most=np.maximum.reduceat(np.where(groups.told > 0, mean, 0.0), starts, axis=1),
        told_sum=np.add.reduceat(mean * groups.told, starts, axis=1),
        missed=np.add.reduceat(mean * groups.miss, starts, axis=1),
        fewer=least(alike & above),
        further=least(alike & below),
        longer_fewer=least(longer & above),
        longer_further=least(longer & below),
    )


def of_cell(groups: Groups, where: Floats, mean: Floats, known: Mask) -> Pull:
    """What a cell says of many points: each setting once, as many as the cache holds. `where`:
    places of the points (N, len(MEASURES)); `mean`: their log speed-ups; `known`: whether an
    acceptance is stated for them.
    """
    many = len(where) * len(groups.whole) > WORTH_SORTING
    settings, back = where[:, OTHERS], np.arange(len(where))
    if many:
        first, back = distinct_rows(list(settings.T))
        settings = settings[first]
    sides = PairSides(groups, many)
    made = Pull.none(len(where))
    step = max(1, BLOCK // len(groups.places))
    order = np.argsort(back, kind="stable")
    cuts = np.searchsorted(back[order], np.arange(0, len(settings) + step, step))
    for i, (first, last) in enumerate(pairwise(cuts.tolist())):
        weighed = weigh(groups, settings[i * step : (i + 1) * step])
        for start in range(first, last, step):
            points = order[start : min(start + step, last)]
            part = Weighed(*(column[back[points] - i * step] for column in weighed))
            found = _at_contexts(groups, part, where[points, CONTEXT])
            made.mean[points], weights, made.near[points] = found[:3]
            made.closeness[points], made.longer[points] = found[3:]
            made.evidence[points] = sides.of(weights, mean[points], known[points])
    return made


def _at_contexts(
    groups: Groups, part: Weighed, context: Floats
) -> tuple[Floats, Floats, Mask, Floats, Floats]:
    """Shift of points, how much each pair of a group weighs in their side of 1 (A, G), whether a
    pair is near enough to say something, and how far the configuration itself was measured, at its
    k and with one draft token more: 1 where such a pair lies within a factor 2 of its requests and
    of its context, falling to 0 at a factor of 4. What fewer and what more requests say adds up: a
    load between two measured ones is no further from what is known than they are.
    """

    def cover(fewer: Floats, further: Floats) -> Floats:
        sides = (np.maximum(one, gap).min(axis=1) for one in (fewer, further))
        low, high = (np.clip(1 + COVERS - nearest, 0.0, 1.0) for nearest in sides)
        return np.asarray(np.fmin(low + high, 1.0), dtype=np.float64)

    gap = np.abs(context[:, None] - groups.places[groups.starts, CONTEXT])
    touch = np.exp(-SHARP * FADE[CONTEXT] * gap)
    scale, top = _owners(part.side_most * touch, part.side_sum * touch, groups.owners)
    weights = part.side * (scale[:, groups.owner] * touch * top[:, None])[:, groups.stretch]
    share, nearest = _owners(part.told_most * touch, part.told_sum * touch, groups.owners)
    missed = share * np.add.reduceat(part.missed * touch, groups.owners, axis=1)
    shift = knowledge.threshold("stranger_weight").value * np.sqrt(nearest) * missed.sum(axis=1)
    near = (part.most * touch).max(axis=1) >= NEAR**SHARP
    closeness = cover(part.fewer, part.further)
    return shift, weights, near, closeness, cover(part.longer_fewer, part.longer_further)


def _owners(most: Floats, total: Floats, owners: Ints) -> tuple[Floats, Floats]:
    """By how much the pairs of each owner count in a mean over owners of their nearest ones (A, O),
    and the square of the correlation of the nearest of all (A,).
    """
    nearest = np.sqrt(np.maximum.reduceat(most, owners, axis=1))
    each = np.maximum(np.add.reduceat(total, owners, axis=1), 1e-12)
    return nearest / each / np.maximum(nearest.sum(axis=1), 1e-12)[:, None], nearest.max(axis=1)


class PairSides:
    """On which side of 1 points lie with the misses of a cell's pairs.

    Of one pair that is a line which rises from -1 to 1 over twice CLEAR. Of a group it is the sum
    of such lines, straight between their ends: for many points it is read there from a table.
    """

    def __init__(self, groups: Groups, many: bool) -> None:
        self._groups = groups
        self._tables: dict[bool, tuple[Floats, Floats]] | None = {} if many else None

    def of(self, weights: Floats, mean: Floats, known: Mask) -> Floats:
        """The side of points: -1 to 1. `weights`: by how much each pair of a group counts (A, G);
        `known`: whether an acceptance is stated (A,).
        """
        made = np.empty(len(mean))
        for stated in (False, True):
            rows = np.flatnonzero(known == stated)
            if len(rows):
                part = weights if len(rows) == len(mean) else weights[rows]
                made[rows] = self._sum(part, mean[rows], stated)
        return made

    def _sum(self, weights: Floats, mean: Floats, stated: bool) -> Floats:
        missed = self._groups.with_stated if stated else self._groups.whole
        if self._tables is None:
            side = np.clip((mean[:, None] + missed) / CLEAR, -1.0, 1.0)
            each = weights[:, self._groups.group]
            return np.asarray(np.einsum("ij,ij->i", each, side), dtype=np.float64)
        if stated not in self._tables:
            self._tables[stated] = _lines(self._groups, missed)
        ends, lines = self._tables[stated]
        here = lines[np.searchsorted(ends, mean, side="right")]
        level, slope = (np.einsum("ij,ij->i", weights, here[:, i]) for i in (0, 1))
        return np.asarray(level + slope * mean, dtype=np.float64)


def _lines(groups: Groups, missed: Floats) -> tuple[Floats, Floats]:
    """Ends of the pairs' lines in order (2B,), level and slope of groups between (2B + 1, 2, G)."""
    count = len(missed)
    ends = np.concatenate([-missed - CLEAR, -missed + CLEAR])
    level = np.concatenate([1 + missed / CLEAR, 1 - missed / CLEAR])
    slope = np.repeat([1 / CLEAR, -1 / CLEAR], count)
    order = np.argsort(ends)
    lines = np.zeros((2 * count + 1, 2, len(groups.pairs)))
    lines[0, 0] = -groups.pairs
    after, whose = np.arange(1, 2 * count + 1), np.tile(groups.group, 2)[order]
    lines[after, 0, whose], lines[after, 1, whose] = level[order], slope[order]
    return ends[order], np.cumsum(lines, axis=0, out=lines)
