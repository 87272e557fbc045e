"""Which kernels llama.cpp takes for a few tokens: the switch points of its dispatch, and what they
do to the price of a step.
"""

import numpy as np
import pytest

from advisor.perf import arrays, kernels, physics
from advisor.perf.constants import Constants
from tests.perf.rows import points


def fill_points(
    hardware: str, quant: str, version: str = "", k: int = 1, model: str = "qwen3.6-27b"
) -> arrays.Points:
    row = {"model": model, "quant": quant, "hardware": hardware, "engine_version": version, "k": k}
    return points({**row, "engine": "llama.cpp", "input_tokens": 512, "workload": ""})


@pytest.mark.parametrize(
    ("hardware", "quant", "version", "limit"),
    [
        ("rtx5090", "q4_k_m", "b10400", 8),
        ("rtx5090", "q4_k_m", "b10600", 5),
        ("rtx5090", "q6_k", "b10600", 7),
        ("rtx5090", "q4_k_m", "0.5.0", 5),
        ("rtx5090", "q4_k_m", "0.1.3", 5),
        ("rtx5090", "q8_0", "b10600", 8),
        ("rtx5090", "q4_k_m", "", 8),
        ("rtx4090", "q4_k_m", "b10600", 8),
        ("rtx4090", "q3_k_m", "b10600", 6),
        ("rtx3090", "q4_k_m", "b11000", 8),
        ("v100-16gb", "q4_k_m", "b10600", 8),
        ("v100-16gb", "q4_k_m", "b10900", 5),
        ("mi210", "q4_k_m", "b10600", 3),
        ("mi50", "q4_k_m", "b10600", 8),
        ("apple-m1-max", "q4_k_m", "b11000", 8),
    ],
)
def test_the_vector_kernel_ends_where_the_dispatch_says(
    hardware: str, quant: str, version: str, limit: float
) -> None:
    assert kernels.dense_limit(fill_points(hardware, quant, version)).tolist() == [limit]


def test_experts_on_metal_are_read_token_by_token_up_to_31() -> None:
    def experts(hardware: str, tokens: int) -> float:
        p, one = fill_points(hardware, "q4_k_m", model="qwen3.6-35b-a3b"), np.ones(1)
        terms = physics.step_seconds(p, Constants(), one, one * tokens, True, one * 600)
        return float(terms.distinct_experts[0])

    assert [experts("apple-m1-max", n) for n in (8, 16)] == [64.0, 128.0]
    assert experts("rtx3090", 8) == 64.0 and experts("rtx3090", 16) < 128.0


def test_metal_has_no_kernel_of_few_tokens_for_i_quants() -> None:
    assert kernels.repeats(fill_points("apple-m1-max", "iq4_xs"), np.array([8.0])).all()
    assert not kernels.repeats(fill_points("rtx3090", "iq4_xs"), np.array([3.0])).any()
