"""The figures of one timed point, from the moments of its tokens."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from typing import Any


def quantile(values: list[float], share: float) -> float | None:
    """Nearest-rank quantile of sorted values; None for an empty list."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def outside(spans: list[tuple[float, float]], gaps: list[tuple[float, float]]) -> list[float]:
    """Lengths of the gaps (s) that no span touches: token gaps while nobody waited for a first
    token.
    """
    merged: list[list[float]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(high, merged[-1][1])
        else:
            merged.append([low, high])
    starts = [low for low, _ in merged]
    kept = []
    for low, high in gaps:
        before = bisect_left(starts, high) - 1
        if before < 0 or merged[before][1] <= low:
            kept.append(high - low)
    return sorted(kept)


def prompt_calls(calls: list[tuple[int, int, float]]) -> list[list[float]]:
    """Engine calls by how many requests got their first token in them: [firsts, calls, median
    requests served, median ms].

    A call is (firsts, requests served, seconds since the call before). Calls without a first token
    are decode steps and chunks of longer prompts.
    """
    grouped: dict[int, list[tuple[int, float]]] = {}
    for firsts, served, seconds in calls:
        grouped.setdefault(firsts, []).append((served, seconds))
    return [
        [
            firsts,
            len(found),
            statistics.median(served for served, _ in found),
            round(1e3 * statistics.median(seconds for _, seconds in found), 3),
        ]
        for firsts, found in sorted(grouped.items())
    ]


def load_row(
    wall: float,
    added: dict[int, float],
    first: dict[int, float],
    last: dict[int, float],
    tokens: dict[int, int],
    gaps: list[tuple[float, float]],
    updates: int,
) -> dict[str, Any]:
    """One row: times in ms, rates in tokens/s. `added`, `first` and `last` are the moments (s) of a
    request, its first and its last token; `gaps` those between two tokens.
    """
    ttft = sorted(first[i] - added[i] for i in first)
    tpot = sorted((last[i] - first[i]) / max(1, tokens[i] - 1) for i in first)
    decode = outside([(added[i], first[i]) for i in first], gaps)
    itl = sorted(high - low for low, high in gaps)
    total = sum(tokens.values())

    def ms(value: float | None) -> float | None:
        return None if value is None else round(1e3 * value, 4)

    return {
        "prompts": len(first),
        "wall_s": round(wall, 4),
        "output_tok_s": round(total / wall, 2),
        "ttft_ms": ms(sum(ttft) / len(ttft)),
        "ttft_p99_ms": ms(quantile(ttft, 0.99)),
        "tpot_ms": ms(sum(tpot) / len(tpot)),
        "tpot_p50_ms": ms(quantile(tpot, 0.5)),
        "tpot_p99_ms": ms(quantile(tpot, 0.99)),
        "itl_p50_ms": ms(quantile(itl, 0.5)),
        "itl_p99_ms": ms(quantile(itl, 0.99)),
        "decode_step_p50_ms": ms(quantile(decode, 0.5)),
        "decode_step_mean_ms": ms(sum(decode) / len(decode)) if decode else None,
        "decode_steps": len(decode),
        "acceptance_length": round((total - len(first)) / max(1, updates), 4),
        "tokens": total,
    }
