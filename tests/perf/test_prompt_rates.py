"""What a long prompt costs in llama.cpp and MLX: published rates, and never more than a card can
compute.
"""

import numpy as np
import pytest

from advisor.knowledge import store as knowledge
from advisor.perf import arrays as P
from advisor.perf import imputation, prompt_cost
from advisor.perf.constants import Constants
from advisor.perf.encoding import encode_rows
from advisor.prediction.artefact import load
from tests.tables import cells

ROW = cells(
    "quant=q4_k_m engine=llama.cpp spec_method=draft_model k=2 concurrency=1 input_tokens=1024 "
    "output_tokens=128 speedup_metric=output_tok_s"
)


def _seconds(
    rows: list[dict[str, str]], tokens: float, constants: Constants
) -> tuple[P.Points, np.ndarray]:
    points, errors = encode_rows.from_rows([{**ROW, **row} for row in rows])
    assert errors == [None] * len(rows)
    filled = imputation.impute(points)
    many = np.full(len(rows), tokens)
    return filled, prompt_cost.prefill_seconds(filled, constants, many, many * 0, False)


@pytest.mark.parametrize(
    "hardware,published",
    [
        ("rtx3080-10gb", 3557),  # GPU-Benchmarks-on-LLM-Inference, LLaMA 3 8B, pp 1024
        ("rtx3090", 3865),
        ("rtx4080", 5065),
        ("a100-80gb", 7259),
        ("h100-pcie", 7760),
        ("m2-ultra", 1024),
        ("m3-max", 678),
        ("rtx4090", 9279),  # llama.cpp #7860
        ("rtx5090", 14925),  # llama.cpp #24127
        ("p40", 857),  # llama.cpp #8416
        ("mi50", 760),  # llama.cpp #27841
        ("rx7900xtx", 3227),  # llama.cpp #26284
        ("r9700", 3394),  # llama.cpp #18816
        ("m1-max", 500),  # brand-o/normiebench #40
    ],
)
def test_published_prompt_rates(hardware: str, published: float) -> None:
    """Tokens per second of an 8B in 4 to 5 bits, within 35 %."""
    rows = [{"model": "llama-3.1-8b", "hardware": hardware}]
    assert 1024 / _seconds(rows, 1024, Constants())[1][0] == pytest.approx(published, rel=0.35)


def test_published_prompts_of_whole_models() -> None:
    """V100, 30,906 tokens in 52.5 s (sudo38); Strix Halo, 280 and 972 tokens/s over 15k
    (aimaestro); GB10, 3,176 of a mixture over 2k (llama.cpp, benches/dgx-spark.md).
    """
    rows = [
        {"model": "qwen3.8-27b", "hardware": "v100"},
        {"model": "qwen3.6-27b", "hardware": "strix-halo"},
        {"model": "qwen3.6-35b-a3b", "hardware": "strix-halo"},
        {"model": "qwen3-30b-a3b", "hardware": "gb10"},
    ]
    assert 30_906 / _seconds(rows, 30_906, Constants())[1][0] == pytest.approx(589, rel=0.35)
    strix = 15_360 / _seconds(rows, 15_360, Constants())[1][1:3]
    assert strix == pytest.approx([280, 972], rel=0.35)
    assert 2048 / _seconds(rows, 2048, Constants())[1][3] == pytest.approx(3176, rel=0.35)


@pytest.mark.parametrize("which", ["published", "absolute"])
def test_no_prompt_is_faster_than_the_card_computes(which: str) -> None:
    """Twice the parameters of the layers a token, over the listed peak of 16 bits, or of 8 where
    CUDA's kernels use them. Every device, 4,096 tokens, constants as published and as shipped.
    """
    constants = Constants() if which == "published" else load().speeds
    names = list(knowledge.hardware_ids())
    for engine in ("llama.cpp", "mlx"):
        rows = [{"model": "qwen3.6-27b", "hardware": name, "engine": engine} for name in names]
        filled, seconds = _seconds(rows, 4096, constants)
        peak = np.fmax(filled.bf16, filled.fp32)
        cuda = np.array([P.ARCHS[code].startswith("sm_") for code in filled.arch])
        peak = np.where(cuda, np.fmax(peak, filled.int8), peak) * filled.tp
        achieved = 2 * 24e9 * 4096 / seconds
        assert not [name for name, over in zip(names, achieved > peak, strict=True) if over]
