"""Where the curves of a sweep cross no gain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import exp, log
from typing import Literal, cast

from advisor.advice.explore.values import BreakEven, Load, Point, Setting
from advisor.domain.nouns import Method

Quantile = Literal["p10", "p50", "p90"]
QUANTILES: tuple[Quantile, ...] = ("p10", "p50", "p90")


def break_evens(loads: Sequence[Load], axis: str | None) -> tuple[BreakEven, ...]:
    """Every crossing of a gain of 1 along `axis`, for each k and each setting of the other fields;
    none where nothing numeric varies.
    """
    if axis is None:
        return ()
    found: list[BreakEven] = []
    for (setting, method, k), points in curves(loads, axis).items():
        for quantile in QUANTILES:
            found += _crossings(axis, setting, method, k, quantile, points)
    return tuple(found)


def curves(
    loads: Sequence[Load], axis: str
) -> dict[tuple[Setting, Method, int], list[tuple[float, Point]]]:
    """The speculative points of each k and other setting along the axis, (value, point)."""
    out: dict[tuple[Setting, Method, int], list[tuple[float, Point]]] = {}
    for load in loads:
        at = float(cast(float, dict(load.setting)[axis]))
        others = tuple((name, value) for name, value in load.setting if name != axis)
        for point in load.points:
            if point.k > 0:
                out.setdefault((others, point.method, point.k), []).append((at, point))
    return {key: sorted(points, key=lambda pair: pair[0]) for key, points in out.items()}


def _crossings(
    axis: str,
    setting: Setting,
    method: Method,
    k: int,
    quantile: Quantile,
    points: Sequence[tuple[float, Point]],
) -> list[BreakEven]:
    found = []
    values = [(at, log(max(getattr(point.gain, quantile), 1e-6))) for at, point in points]
    for (left, before), (right, after) in itertools.pairwise(values):
        if (before > 0) == (after > 0):
            continue
        part = before / (before - after)
        at = (
            exp(log(left) + part * (log(right) - log(left)))
            if left > 0
            else left + part * (right - left)
        )
        found.append(
            BreakEven(
                axis=axis,
                setting=setting,
                method=method,
                k=k,
                quantile=quantile,
                at=at,
                direction="falls" if before > after else "rises",
            )
        )
    return found
