"""The physics core: dimensions, monotonicity, reference values, and no NaN for any point."""

import math
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.perf import arrays as P
from advisor.perf import constants, drafting, imputation, physics, prompt_cost, rates, reads
from advisor.perf.constants import Constants
from advisor.perf.encoding import encode_rows
from advisor.prediction import acceptance
from tests.perf.rows import GB10, ROW, points, speedups

C = Constants()


def decode(p: P.Points, spec: bool = False, c: Constants = C) -> npt.NDArray[np.float64]:
    return physics.decode_seconds(p, c, p.concurrency, p.input_tokens + p.output_tokens / 2, spec)


@pytest.mark.parametrize(
    "change,milliseconds,within",
    [
        # GB10 test A, mean TPOT without speculation
        ({"input_tokens": 512, "output_tokens": 512}, 19.45, 0.06),
        ({"concurrency": 2, "output_tokens": 256}, 24.36, 0.06),  # D
        ({"concurrency": 4, "input_tokens": 8192, "output_tokens": 256}, 35.66, 0.08),  # B
        ({"concurrency": 16}, 67.03, 0.18),  # C
    ],
)
def test_plain_gb10_steps(change: dict[str, object], milliseconds: float, within: float) -> None:
    assert decode(points(change, base=GB10))[0] * 1e3 == pytest.approx(milliseconds, rel=within)


def test_distinct_experts_of_the_seed() -> None:
    """Uniform routing: 94 tokens reach 95 % of 256 experts, 8 a token (MoESD, by a seed)."""
    e, k = np.array([256.0]), np.array([8.0])
    assert reads.union(e, k, np.array([94.4]))[0] / 256 == pytest.approx(0.95, abs=0.002)
    assert reads.union(e, k, np.array([1.0]), 1.2)[0] == pytest.approx(8, rel=0.02)
    assert reads.union(np.zeros(1), np.zeros(1), np.array([5.0]))[0] == 0


def test_llama_cpp_dense_verify_law() -> None:
    """27B Q4_K, RTX 3090: 5.55 ms a token more up to 8 (operator), then the tiled kernel."""
    base = {**ROW, "engine": "llama.cpp", "hardware": "rtx3090", "model": "qwen3.6-27b",
            "quant": "q4_k_m"}  # fmt: skip
    p = points({"input_tokens": 100, "output_tokens": 64}, base=base)
    one = np.ones(1)
    times = [
        physics.step_seconds(p, C, one, one * q, False, one * 100).total[0] for q in (1, 2, 4, 8, 9)
    ]
    assert (times[2] - times[1]) / 2 == pytest.approx(5.55e-3, rel=0.15)
    assert times[0] == pytest.approx(23.5e-3, rel=0.15)
    assert times[4] < times[3], "the tiled kernel is the cheaper one for a dense model"


def serial(*changes: dict[str, object]) -> list[float]:
    """ms that a verify step walks through the cache in one block of threads."""
    base = {"hardware": "rtx-pro-6000", "input_tokens": 65_536, "kv_cache_dtype": "bf16"}
    p = points(*(base | c for c in changes))
    return (1e3 * reads.serial_attention_seconds(p, C, p.input_tokens)).round(1).tolist()


def test_verify_attention_is_serial_only_where_kernels_do_not_split_the_cache() -> None:
    """10 full-attention layers x 65,536 tokens x 30 ns: 19.7 ms, for any batch and TP."""
    wide, narrow, hopper = serial({}, {"kv_cache_dtype": "fp8"}, {"hardware": "h200"})
    assert (wide, narrow, hopper) == (19.7, 0.0, 0.0)
    assert serial({"concurrency": 8, "tp": 2, "gpu_count": 2}) == [wide]
    assert serial(
        {"engine": "llama.cpp", "quant": "q4_k_m"}, {"quant": "nvfp4", "kv_cache_dtype": ""}
    ) == [0.0, 0.0]
    assert serial({"engine": "sglang"})[0] > wide and serial({"model": "deepseek-v3"}) == [0.0]


def test_random_prompts_share_fewer_experts_between_neighbours() -> None:
    """A verify step reads more experts than on text; a plain step and a dense model do not care."""
    random, code = points({"concurrency": 8}), points({"concurrency": 8, "workload": "code"})
    assert decode(random, True) > 1.01 * decode(code, True) and decode(random) == decode(code)
    dense = {"model": "qwen3.6-27b", "concurrency": 8}
    assert decode(points(dense), True) == decode(points({**dense, "workload": "code"}), True)


def test_sliding_layers_attend_to_their_window_only() -> None:
    """Gemma 4 26B: 5 layers of 16 heads of 512 see all, 25 of 256 a window of 1024; KV too."""
    gemma = points({"model": "gemma-4-26b-a4b", "quant": "bf16", "input_tokens": 5000})
    seen = reads.attended_keys(gemma, np.array([5000.0]))[0]
    assert seen == 16 * (5 * 512 * 5000 + 25 * 256 * 1024)
    assert reads.attended_keys(gemma, np.array([800.0]))[0] == 16 * 800 * (5 * 512 + 25 * 256)
    longer = [
        reads.attention_seconds(gemma, C, np.ones(1), np.ones(1), np.array([x]))[0]
        for x in (800, 1024, 2048)
    ]
    per_token = np.diff(longer) / [224, 1024]
    assert per_token[1] < 0.2 * per_token[0]  # beyond the window only the 5 layers read on


def test_every_constant_has_a_source() -> None:
    text = Path(constants.__file__).read_text(encoding="utf-8")
    for name in constants.PROVENANCE:
        assert re.search(rf"^    # (?!-- ).*\n    {name}: ", text, re.M), name
        value = getattr(C, name)
        assert all(v >= 0 for v in (value if isinstance(value, tuple) else (value,)))
        assert not isinstance(value, tuple) or len(value) == len(P.PATHS)


def test_shifting_constants() -> None:
    moved = constants.shift_constants(C, {"rho": 10.0, "mmvq_share[llamacpp-cuda]": math.log(2)})
    index = P.PATHS.index("llamacpp-cuda")
    assert moved.rho == 0.98 and moved.mmvq_share[index] == pytest.approx(2 * C.mmvq_share[index])
    assert moved.mmvq_share[P.PATHS.index("mlx")] == C.mmvq_share[P.PATHS.index("mlx")]
    with pytest.raises(KeyError):
        constants.shift_constants(C, {"luck": 1.0})


UNSURE = st.one_of(st.just(""), st.floats(0.01, 1e4).map(str))


def any_of(words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words.split("|"))


ANY_ROW = st.fixed_dictionaries(
    {
        "model": any_of("|qwen3.6-35b-a3b|qwen3.6-27b|deepseek-r1|zzz-12b|gpt-oss-20b|glm-4.6"),
        "is_moe": any_of("|0|1"),
        "quant": any_of("|fp8|q4_k_m|nvfp4|bf16|mlx-4bit|iq4_xs|what"),
        "hardware": any_of("|unknown|gb10|h200|v100|apple-m4|radeon-780m|rtx5060-laptop"),
        "engine": any_of("vllm|sglang|llama.cpp|mlx|custom|tensorrt-llm|"),
        "spec_method": any_of("mtp|eagle|eagle3|draft_model|ngram|dflash|dspark"),
        "k": st.integers(1, 64).map(str),
        "tp": any_of("|1|2|8"),
        "interconnect": any_of("|none|pcie|nvlink|roce"),
        "prefix_share": any_of("|0.5|1"),
        "output_spread": any_of("|0|0.5|1"),
        **dict.fromkeys(
            ("total_params_b", "active_params_b", "concurrency", "input_tokens", "output_tokens",
             "n_requests", "max_num_seqs", "max_num_batched_tokens"),
            UNSURE,
        ),
    }
)  # fmt: skip


@settings(max_examples=60)
@given(ANY_ROW)
def test_no_nan_and_nothing_negative(row: dict[str, str]) -> None:
    made, _ = encode_rows.from_rows([{**row, "speedup_metric": "tpot"}])
    p = imputation.impute(made)
    terms = physics.step_seconds(p, C, p.concurrency, p.verify_tokens, True, p.input_tokens)
    for name, value in terms._asdict().items():
        assert np.isfinite(value).all() and (value >= 0).all(), name
    assert (decode(p, True) > 0).all()
    tau = acceptance.tokens_per_step(np.full((1, 8), 0.7), p.k)
    for name, value in speedups(p, C, tau).items():
        assert np.isfinite(value).all() and (value > 0).all(), name


def test_a_lookup_costs_vllm_its_asynchronous_scheduling() -> None:
    p = points({"spec_method": "ngram"}, {"spec_method": "ngram", "engine": "sglang"})
    vllm, sglang = drafting.draft_seconds(p, C, np.ones(2), p.input_tokens)
    assert vllm - sglang == pytest.approx(2e-3, rel=0.01)


def test_m1_emulates_bf16_for_mlx_only() -> None:
    row = {"model": "qwen3.6-27b", "quant": "mlx-4bit", "hardware": "apple-m1-max", "engine": "mlx"}
    gguf = row | {"engine": "llama.cpp", "quant": "q4_k_m"}
    p = points(row, gguf, row | {"engine_version": "MTPLX"}, gguf | {"hardware": "apple-m5-pro"})
    slow, half, tiled, twice = rates.small_batch_rate(p, C)
    assert slow == pytest.approx(0.5 * rates.at(C.mmvq_share, p)[0] * p.fp32[0])
    assert half == pytest.approx(rates.at(C.mmvq_share, p)[1] * p.fp32[1]) and tiled > 2 * slow
    # from M5 on half precision is twice as fast
    assert twice == pytest.approx(2 * rates.at(C.mmvq_share, p)[3] * p.fp32[3])


def test_without_graphs_the_host_launches_both_arms() -> None:
    """27B on an A100 without graphs (liuzla100): 84 ms a step, weights 17; a draft rides along."""
    slow = {"model": "qwen3.8-27b", "hardware": "a100-80gb", "cuda_graphs": "0"}
    p = points(slow, {**slow, "cuda_graphs": "1"})
    assert p.eager.tolist() == [1.0, 0.0] and p.piecewise.tolist() == [0.0, 0.0]
    plain, verify = decode(p), decode(p, True)
    assert plain[0] == pytest.approx(p.layers[0] * C.eager_layer_s) and plain[1] < 0.5 * plain[0]
    assert verify[0] / plain[0] < verify[1] / plain[1]


@pytest.mark.parametrize(
    "hardware,engine", [("gtx1080ti", "llama.cpp"), ("rtx5060ti", "llama.cpp")]
)
def test_a_pass_of_a_separate_draft(hardware: str, engine: str) -> None:
    """3.8 to 4.4 ms for a 0.5B draft, by stated acceptances (invhq1080, invhq5060, thc38)."""
    row = {"model": "qwen2.5-7b", "quant": "q4_k_s", "hardware": hardware, "engine": engine,
           "engine_version": "", "spec_method": "draft_model", "k": "5",
           "spec_extra": "Qwen2.5-0.5B"}  # fmt: skip
    p = points({}, base={**ROW, **row})
    assert 3.5e-3 < drafting.draft_seconds(p, C, p.concurrency, p.input_tokens)[0] / 5 < 4.8e-3


def test_a_prompts_call_takes_the_longer_of_launches_and_work() -> None:
    p = points({}, {}, {})
    tokens = np.array([64.0, 2048.0, 200_000.0])
    seconds = prompt_cost.prefill_seconds(p, C, tokens, np.zeros(3), False)
    call = prompt_cost.call_seconds(p, C, np.array([1.0, 0.0, 0.0]))
    assert seconds[0] == pytest.approx(call[0], rel=0.05), "a short prompt waits for the host"
    nothing = tuple(0.0 for _ in P.PATHS)
    quick = C.replace(prefill_linear_s=nothing, prefill_layer_s=0.0, prefill_moe_s=0.0)
    free = prompt_cost.prefill_seconds(p, quick, tokens, np.zeros(3), False)
    assert seconds[2] == pytest.approx(free[2], rel=0.01), "a long one does not see it"
    assert (seconds >= free).all() and seconds[1] < call[1] + free[1]


def test_h200_calls_with_prompts() -> None:
    """vLLM 0.25.1, four machines: 48 ms with 64 tokens, 115-165 with 2048, 145-155 with 8192."""
    p = points({}, {}, {})
    seconds = prompt_cost.prefill_seconds(p, C, np.array([64.0, 2048, 8192]), np.zeros(3), False)
    assert seconds[0] == pytest.approx(0.048, rel=0.1)
    assert 0.10 < seconds[1] < 0.165 and 0.14 < seconds[2] < 0.2


def test_the_largest_graph_by_the_requests_an_engine_may_run() -> None:
    """vLLM 0.25.1: twice a decode step, 512 at most, divided by the tokens of a request."""
    p = points({"max_num_seqs": 64, "k": 2}, {"max_num_seqs": 1024, "k": 2}, {"engine": "sglang"})
    assert prompt_cost.graph_tokens(p, False).tolist() == [128, 512, 0]
    assert prompt_cost.graph_tokens(p, True).tolist() == [384, 510, 0]
    asked = p.replace(graph_tokens=np.full(3, 1024.0))  # --max-cudagraph-capture-size 1024
    assert prompt_cost.graph_tokens(asked, True).tolist() == [1023, 1023, 0]


def test_beyond_the_graphs_a_step_is_never_shorter_than_its_launches() -> None:
    p = points({"concurrency": 128, "k": 4}, {"concurrency": 64, "k": 4})
    call = prompt_cost.call_seconds(p, C, 0.0)[0]
    extra = prompt_cost.eager_seconds(p, C, p.concurrency, np.array([0.01, 0.01]))
    assert extra.tolist() == pytest.approx([call - 0.01, 0.0])
    assert not prompt_cost.eager_seconds(p, C, p.concurrency, np.array([1.0, 1.0])).any()


@pytest.mark.parametrize(
    ("hardware", "ranks", "ms"),
    [("h200", 2, 7.5), ("h100-sxm", 4, 7.0), ("b200", 2, 6.7), ("gb300", 1, 5.9)],
)
def test_one_request_of_deepseek_v4(hardware: str, ranks: int, ms: float) -> None:
    """vLLM's TPOT as published (kaith200x2, kaith100x4, kaitb200x2, gb300knobs): most of it is what
    the layers launch, so that halving what is read hardly shortens it. Its attention is FP8 where
    its experts are MXFP4, and what quantises both keeps its own width (vLLM's quant_config).
    """
    asked = {"model": "deepseek-v4-flash", "hardware": hardware, "tp": ranks, "concurrency": 1}
    quants = [asked | {"quant": name} for name in ("mxfp4", "ud-q2_k_xl", "")]
    p = points(*quants, base=ROW | {"interconnect": "nvlink"})
    assert p.bytes_mixer[0] == p.bytes_mixer[2] == 1 > p.bytes_mixer[1]
    one = np.ones(3)
    steps = physics.step_seconds(p, C, one, one, False, p.input_tokens).total * 1e3
    assert ms / 1.2 < steps[0] < ms * 1.2
    row = p.replace(residual_streams=np.ones(3))
    assert (physics.step_seconds(row, C, one, one, False, p.input_tokens).total * 1e3)[0] < ms / 1.2


@pytest.mark.parametrize(
    ("requests", "depth", "wide", "narrow"),
    [(32, 65_536, 9.1, 13.1), (32, 32_768, 4.4, 6.5), (8, 65_536, 2.3, 3.3)],
)
def test_an_fp8_cache_saves_wide_heads_nothing(
    requests: int, depth: int, wide: float, narrow: float
) -> None:
    """What depth adds to a plain step over 2,048 tokens, ms: 35B-A3B FP8 on an H200, vLLM 0.25.1
    (knowledge/measurements/raw/bench-h200-vllm-deep); vllm#48786 has the same.
    """
    asked = {"concurrency": requests, "quant": "fp8"}
    caches = [asked | {"kv_cache_dtype": name} for name in ("auto", "fp8")]
    p = points(*caches, *caches)
    batch, one = p.concurrency, np.ones(4)
    context = np.array([2048.0, 2048.0, depth, depth])
    step = physics.step_seconds(p, C, batch, one, False, context).total * 1e3
    assert step[2:] - step[:2] == pytest.approx([wide, narrow], rel=0.15)
    eight = points(*({**one, "model": "llama-3.1-8b"} for one in caches))
    short, long = (
        physics.attention_seconds(eight, C, eight.concurrency, np.ones(2), np.full(2, at))
        for at in (2048.0, float(depth))
    )
    assert long[1] - short[1] < 0.8 * (long[0] - short[0])
