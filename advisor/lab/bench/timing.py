"""The figures of one timed point: ms and tokens/s, from moments (s)."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

Span = tuple[float, float]  # begin, end


class TimedRequest(NamedTuple):
    """One request that was answered to its end."""

    sent: float
    at: list[float]  # when each token came
    steps: list[float]  # when the first token of each step came


def quantile(values: Sequence[float], share: float) -> float | None:
    """Nearest-rank quantile of sorted values; None where there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None where there are no values."""
    return statistics.fmean(values) if values else None


def ms(seconds: float | None) -> float | None:
    """Rounded milliseconds."""
    return None if seconds is None else round(1e3 * seconds, 4)


def outside(spans: Sequence[Span], gaps: Sequence[Span]) -> list[float]:
    """Lengths of the gaps that no span touches: nobody waited for a first token then."""
    starts = [low for low, _ in sorted(spans)]
    ends = list(accumulate((high for _, high in sorted(spans)), max))
    free = ((low, high, bisect_left(starts, high)) for low, high in gaps)
    return sorted(high - low for low, high, at in free if not at or ends[at - 1] <= low)


def closed_row(requests: Sequence[TimedRequest], wall: float) -> dict[str, Any]:
    """Figures of a closed loop of clients that took `wall` seconds."""
    ttft = sorted(one.at[0] - one.sent for one in requests)
    tpot = sorted((one.at[-1] - one.at[0]) / max(1, len(one.at) - 1) for one in requests)
    gaps = [gap for one in requests for gap in pairwise(one.steps)]
    decode = outside([(one.sent, one.at[0]) for one in requests], gaps)
    itl = sorted(high - low for low, high in gaps)
    total = sum(len(one.at) for one in requests)
    return {
        "prompts": len(requests),
        "wall_s": round(wall, 4),
        "output_tok_s": round(total / wall, 2),
        "ttft_ms": ms(mean(ttft)),
        "ttft_p99_ms": ms(quantile(ttft, 0.99)),
        "tpot_ms": ms(mean(tpot)),
        "tpot_p50_ms": ms(quantile(tpot, 0.5)),
        "tpot_p99_ms": ms(quantile(tpot, 0.99)),
        "itl_p50_ms": ms(quantile(itl, 0.5)),
        "itl_p99_ms": ms(quantile(itl, 0.99)),
        "decode_step_p50_ms": ms(quantile(decode, 0.5)),
        "decode_step_mean_ms": ms(mean(decode)),
        "decode_steps": len(decode),
        "acceptance_length": round((total - len(requests)) / max(1, len(gaps)), 4),
        "tokens": total,
    }
