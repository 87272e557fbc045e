"""A measured gain beside the printed interval: the reason names what does not fit, and nothing
else.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from advisor.advice.explain import measured


def best(k: int = 2) -> Any:
    wide = SimpleNamespace(speedup=SimpleNamespace(p10=1.0, p90=1.5))
    return SimpleNamespace(
        plan=SimpleNamespace(k=k),
        estimate=SimpleNamespace(output_tok_s=wide, tpot_ms=wide, ttft_ms=wide),
    )


@pytest.mark.parametrize(
    "gains,k,named",
    [
        ({"output_tok_s": 1.24, "tpot": 1.2}, 2, []),
        ({"output_tok_s": 1.24, "ttft": 2.3}, 2, ["ttft"]),
        ({"output_tok_s": 0.9, "tpot": 1.6}, 2, ["output_tok_s", "tpot"]),
        ({"ttft": 2.3}, 3, []),
    ],
)
def test_only_what_lies_outside_is_named(gains: dict[str, float], k: int, named: list[str]) -> None:
    rows = [
        cast(Any, SimpleNamespace(metric=metric, speedup=gain, k=2))
        for metric, gain in gains.items()
    ]
    said = measured._outside(rows, best(k))
    for metric in ("output_tok_s", "tpot", "ttft"):
        assert (measured.METRIC_NAMES[metric] in said) == (metric in named)
    assert bool(said) == bool(named)
