"""The update by measured pairs: what a pair at the spot, a crowd further off, and a contradiction
do to a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Plan, Request
from advisor.perf import arrays as pts
from advisor.perf import encode_plans
from advisor.prediction import neighbours as nearby
from advisor.prediction import predict as predictor

Floats = npt.NDArray[np.float64]
HERE = (0.0, 10.0, 1.0, 10.0, 0.0, 0.0)
PRIOR_SD = 0.2


def pulled(
    pairs: Sequence[tuple[tuple[float, ...], str, float]], at: tuple[float, ...] = HERE
) -> tuple[float, float, bool, bool]:
    """Shift, sd, covered and near of one question in a cell of `pairs` (place, rig, miss)."""
    n = len(pairs)
    where: Floats = np.array([p for p, _, _ in pairs])
    miss: Floats = np.array([m for _, _, m in pairs])
    cell = nearby.Nearby.build(np.full(n, 7), where, np.array([r for _, r, _ in pairs]), miss, miss)
    cell = nearby.Nearby.from_dict(cell.to_dict())
    found = cell.pull(np.array([7]), np.array([at]), np.zeros(1), np.array([PRIOR_SD]))
    return float(found.mean[0]), float(found.sd[0]), bool(found.covered[0]), bool(found.near[0])


def moved(streams: float = 0.0, context: float = 0.0, k: float = 0.0) -> tuple[float, ...]:
    return (HERE[0] + streams, HERE[1] + context, HERE[2] + k, *HERE[3:])


def test_a_pair_at_the_spot_moves_and_narrows() -> None:
    shift, sd, covered, near = pulled([(HERE, "a", -0.3)])
    assert -0.3 < shift < -0.15
    assert sd < PRIOR_SD
    assert covered and near


def test_other_cells_are_left_alone() -> None:
    cell = nearby.Nearby.build(
        np.array([7]), np.array([HERE]), np.array(["a"]), np.array([-0.3]), np.array([-0.3])
    )
    found = cell.pull(np.array([8]), np.array([HERE]), np.array([0.1]), np.array([PRIOR_SD]))
    assert (found.mean[0], found.sd[0], found.covered[0]) == (0.1, PRIOR_SD, False)


def test_pull_fades_with_distance() -> None:
    shifts = [pulled([(HERE, "a", -0.3)], moved(streams=d))[0] for d in (0.0, 1.0, 3.0, 8.0)]
    assert shifts == sorted(shifts)
    assert abs(shifts[-1]) < 0.05
    assert not pulled([(HERE, "a", -0.3)], moved(streams=8.0))[3]


def test_a_pair_at_the_spot_outweighs_a_crowd_further_off() -> None:
    crowd = [(moved(k=0.3 * i), "a", -0.1) for i in range(8)]
    at = moved(streams=3.0)
    assert pulled([*crowd, (at, "a", -1.1)], at)[0] < -0.6


def test_rows_of_one_owner_are_one_witness() -> None:
    one = pulled([(HERE, "a", -0.2)] * 6)
    two = pulled([(HERE, "a", -0.2)] * 3 + [(HERE, "b", -0.2)] * 3)
    assert two[1] < one[1]
    assert one[1] > 0.8 * nearby.RIG_SD  # the asker is another owner


def test_contradicting_pairs_widen_the_interval_to_hold_both() -> None:
    agree = pulled([(HERE, "a", 0.2), (HERE, "b", 0.2)])
    apart = pulled([(HERE, "a", 0.5), (HERE, "b", -0.1)])
    assert apart[1] > 1.5 * agree[1]
    assert apart[0] - 1.2816 * apart[1] < -0.1
    assert apart[0] + 1.2816 * apart[1] > 0.45


def test_misses_beyond_the_typical_spread_widen_what_is_not_yet_measured() -> None:
    assert pulled([(HERE, "a", -0.9)], moved(streams=4.0))[1] > PRIOR_SD


def test_request_speed_and_tpot_are_one_cell_and_ttft_is_not() -> None:
    facts = facts_for_request(
        Request(hardware="gb10", concurrency=1, ctx_tokens=2048, quant="fp8", engine="vllm")
    )
    plan = Plan(
        engine="vllm", engine_version=facts.engine_version, method="mtp", k=2, max_num_seqs=4
    )
    raw = encode_plans.from_plans(facts, [plan] * 4).replace(metric=0)
    codes = np.array(
        [pts.METRICS.index(m) for m in ("output_tok_s", "request_tok_s", "tpot", "ttft")],
        dtype=np.int16,
    )
    points = pts.concat(
        [raw.take(np.array([i])).replace(metric=int(code)) for i, code in enumerate(codes)]
    )
    full = predictor.load().raw(points).full
    keys = nearby.cell_keys(points, full)
    assert len(set(keys[:3].tolist())) == 1
    assert keys[3] != keys[0]


@pytest.mark.parametrize("k", [3, 8, 32])
def test_lookup_on_general_text_is_no_gain_where_all_measured_ones_lost(k: int) -> None:
    ask = Request(
        hardware="rtx3090",
        model="qwen3.6-35b-a3b",
        quant="q4_k_m",
        engine="llama-server",
        concurrency=1,
        workload="mixed",
    )
    facts = facts_for_request(ask)
    plan = Plan(
        engine="llama-server",
        engine_version=facts.engine_version,
        method="ngram",
        k=k,
        max_num_seqs=1,
    )
    speedup = predictor.estimate(facts, [plan])[0].tpot_ms.speedup
    assert speedup.p50 < 1.0
    assert math.log(speedup.p90 / speedup.p10) > 0.4
