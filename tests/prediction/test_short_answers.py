"""A request takes whole steps: n tokens after the first one need at least n over k + 1, rounded up,
so that is how much sooner they can come, on every machine and by every way to ask.
"""

import itertools
import random
from math import ceil
from typing import Any

import numpy as np
import pytest

from advisor.advice.explore.sweep import sweep
from advisor.domain.nouns import Goal, Request
from advisor.perf.load import decode_steps, fewest_steps
from advisor.prediction.predict_table import predict_dicts as predict
from tests.perf import rows

MACHINES = (("gb10", "vllm"), ("h100", "vllm"), ("h100", "sglang"), ("rtx3090", "llama-server"),
            ("m3-ultra", "llama-server"), ("mi300x", "vllm"), ("h200", "sglang"))  # fmt: skip
LENGTHS = (2, 3, 4, 5, 8, 13, 32, 64)
EPS = 1e-9


@pytest.mark.parametrize(("hardware", "engine"), MACHINES)
def test_no_gain_beyond_whole_steps(hardware: str, engine: str) -> None:
    draw = random.Random(hardware + engine)
    lengths = sorted({*LENGTHS[:3], *draw.sample(range(4, 65), 4)})
    request = Request(hardware=hardware, engine=engine, goal="tpot", output_spread=0.0,
                      concurrency=draw.choice((1, 4, 8, 64, 512)),
                      ctx_tokens=draw.choice((128, 2048, 8192)))  # fmt: skip
    loads = sweep(request, {"output_tokens": lengths, "k": [0, 1, 2, 3, 5]}).loads
    seen = 0
    for load in loads:
        tokens = load.request.output_tokens - 1
        for point in load.points[1:]:
            most = tokens / ceil(tokens / (point.k + 1)) + EPS
            seen += 1
            assert point.tpot_ms.speedup.p90 <= most and point.output_tok_s.speedup.p90 <= most
    assert seen >= len(lengths)
    two = next(load for load in loads if load.request.output_tokens == 2)
    assert two.decision == "off" and all((p.p_gain or 0.0) < 0.01 for p in two.points)


@pytest.mark.parametrize("goal", ["tpot", "balanced"])
@pytest.mark.parametrize("stated", [{}, {"acceptance": (1.0, 1.0)}])
def test_two_tokens_never_turn_it_on(goal: Goal, stated: dict[str, Any]) -> None:
    for hardware, engine in MACHINES[:4]:
        for spread in (None, 0.0):
            asked = Request(hardware=hardware, engine=engine, goal=goal, output_tokens=2,
                            concurrency=8, output_spread=spread, **stated)  # fmt: skip
            load = sweep(asked, {}).loads[0]
            assert load.decision == "off", (hardware, engine, spread)


def test_rows_of_a_table_keep_to_it() -> None:
    names = ("tpot", "output_tok_s", "request_tok_s")
    table = [
        {"model": "qwen3.6-35b-a3b", "quant": "fp8", "hardware": "h100-sxm", "engine": "vllm",
         "spec_method": "mtp", "k": k, "concurrency": 8, "output_tokens": n, "output_spread": 0,
         "speedup_metric": metric}
        for n, k, metric in itertools.product((2, 3, 6, 9), (1, 3), names)
    ]  # fmt: skip
    for row, found in zip(table, predict(table), strict=True):
        tokens = int(str(row["output_tokens"])) - 1
        most = tokens / ceil(tokens / (int(str(row["k"])) + 1))
        assert found["error"] is None and found["speedup_p90"] <= most + 1e-4, row


def _count_steps(tokens: int, accepted: float) -> float:
    """Steps of k = 1, by hand: one token, or two with this chance, until all are there."""
    steps = [0.0]
    for left in range(1, tokens + 1):
        steps.append(1 + (1 - accepted) * steps[left - 1] + accepted * steps[max(left - 2, 0)])
    return steps[tokens]


@pytest.mark.parametrize("accepted", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 9, 40])
def test_steps_are_those_of_the_renewal_process(tokens: int, accepted: float) -> None:
    p = rows.points({"k": 1, "output_tokens": tokens + 1, "output_spread": 0})
    assert decode_steps(p, None)[0] == tokens
    steps = decode_steps(p, np.array([1 + accepted]))[0]
    assert steps == pytest.approx(_count_steps(tokens, accepted), rel=0.14 if tokens < 3 else 0.05)


def test_lengths_count_one_by_one() -> None:
    # 3 to 7 tokens at k = 2: 2, 3, 4, 5, 6 after the first, in 1, 1, 2, 2 and 2 steps
    p = rows.points({"k": 2, "output_tokens": 5, "output_spread": 0.4})
    assert fewest_steps(p)[0] == pytest.approx(8 / 5)
