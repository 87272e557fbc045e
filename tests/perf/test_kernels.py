"""Which kernels llama.cpp takes for a few tokens: the switch points of its dispatch, and what they
do to the price of a step.
"""

import numpy as np
import pytest

from advisor.perf import arrays, kernels
from tests.perf.rows import points


def fill_points(
    hardware: str, quant: str, version: str = "", k: int = 1, model: str = "qwen3.6-27b"
) -> arrays.Points:
    row = {"model": model, "quant": quant, "hardware": hardware, "engine_version": version, "k": k}
    return points({**row, "engine": "llama.cpp", "input_tokens": 512, "workload": ""})


# ggml_cuda_should_use_mmvq, b10605 (Volta: b10850): most tokens for Q2_K, Q3_K, Q4_K, Q5_K, Q6_K
@pytest.mark.parametrize(
    ("hardware", "version", "limits"),
    [
        ("rtx4090", "b10600", "4 6 8 8 8"),
        ("rtx5090", "b10600", "5 5 5 6 7"),
        ("rtx5090", "b10400", "8 8 8 8 8"),
        ("rtx5090", "0.5.0", "5 5 5 6 7"),
        ("rtx5090", "0.1.3", "5 5 5 6 7"),
        ("rtx5090", "", "8 8 8 8 8"),
        ("gb10", "b10600", "6 8 8 8 8"),
        ("rtx3090", "b11000", "8 8 8 8 8"),
        ("v100-16gb", "b10600", "8 8 8 8 8"),
        ("v100-16gb", "b10900", "4 6 5 6 7"),
        ("mi210", "b10600", "5 3 3 3 5"),
        ("mi210", "b9240", "8 8 8 8 8"),
        ("mi50", "b10600", "8 8 8 8 8"),
        ("apple-m1-max", "b11000", "8 8 8 8 8"),
    ],
)
def test_the_vector_kernel_ends_by_the_dispatch(hardware: str, version: str, limits: str) -> None:
    names = ("q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "q8_0")
    made = [kernels.dense_limit(fill_points(hardware, name, version))[0] for name in names]
    assert made == [*map(int, limits.split()), 8]


def test_experts_are_read_token_by_token_up_to_31_on_metal() -> None:
    limits = [kernels.expert_limit(fill_points(x, "q4_k_m"))[0] for x in ("apple-m4", "rtx3090")]
    assert limits == [31, 8]


def test_metal_has_no_kernel_of_few_tokens_for_i_quants() -> None:
    assert kernels.repeats(fill_points("apple-m1-max", "iq4_xs"), np.array([8.0])).all()
    assert not kernels.repeats(fill_points("rtx3090", "iq4_xs"), np.array([3.0])).any()
