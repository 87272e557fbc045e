"""Reading plan points, and the stand-ins for what they do not know."""

import numpy as np
import pytest

from advisor.domain.nouns import Engine, Facts, Plan
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf import imputation
from advisor.perf.encoding import encode_plans, encode_rows
from tests.tables import cells as cells_of

ROW = cells_of(
    "model=qwen3.6-35b-a3b quant=fp8 hardware=gb10 engine=vllm engine_version=0.19.1rc1.dev328 "
    "spec_method=mtp k=2 concurrency=16 input_tokens=2048 output_tokens=512 workload=random "
    "prefix_caching=on speedup_metric=output_tok_s acceptance_rate=0.72 kv_cache_dtype=fp8_e4m3 "
    "interconnect=none"
)
MAY_STAY_UNKNOWN = {"hardware_name", "model_name", "memory_bytes", "k", "verify_tokens", "p_min",
                    "kv_pool_tokens", "temperature", "thinking", "version", "given_rate",
                    "given_length", "given_k", "given_conditional", "held_base", "plain_caching",
                    "held_spec"}  # fmt: skip


def test_a_row_of_the_seed() -> None:
    points, errors = encode_rows.from_rows([ROW])
    assert errors == [None]
    assert points.experts[0] == 256 and points.topk[0] == 8
    assert points.bw[0] == pytest.approx(273e9)
    assert points.prefix_caching[0] == 1.0
    assert points.kv_bytes[0] == 1.0
    assert points.version[0] == 1901
    assert P.PATHS[points.path[0]] == "vllm-cuda"
    assert P.METRICS[points.metric[0]] == "output_tok_s"
    assert imputation.impute(points).piecewise[0] == 1.0, (
        "FlashInfer on SM12x loses its FULL graphs"
    )


@pytest.mark.parametrize(
    "word,number",
    [("1", 1), ("on", 1), ("True", 1), ("0", 0), ("off", 0), ("false", 0), ("", None)],
)
def test_booleans(word: str, number: float | None) -> None:
    points, _ = encode_rows.from_rows([{**ROW, "prefix_caching": word}])
    assert (
        np.isnan(points.prefix_caching[0]) if number is None else points.prefix_caching[0] == number
    )


@pytest.mark.parametrize(
    "engine,hardware,extra,path",
    [
        ("llama.cpp", "rtx3090", "", "llamacpp-cuda"),
        ("llama-server", "apple-m4", "", "llamacpp-metal"),
        ("llama.cpp", "rx7900xtx", "", "llamacpp-rocm"),
        ("llama.cpp", "rx7900xtx", "Vulkan", "llamacpp-vulkan"),
        ("llama.cpp", "radeon-890m", "", "llamacpp-vulkan"),
        ("llama.cpp", "radeon-890m", "ROCm", "llamacpp-rocm"),
        ("llama.cpp", "strix-halo", "", "llamacpp-rocm"),
        ("ik_llama.cpp", "rtx3090", "", "llamacpp-cuda"),
        ("ollama", "rtx3090", "", "llamacpp-cuda"),
        ("lmstudio", "apple-m4", "", "llamacpp-metal"),
        ("mlx", "apple-m3-ultra", "", "mlx"),
        ("sglang", "b200", "", "sglang-cuda"),
        ("vllm", "strix-halo", "", "vllm-other"),
        ("tensorrt-llm", "b200", "", "other"),
        ("custom", "h200", "", "other"),
    ],
)
def test_kernel_paths(engine: str, hardware: str, extra: str, path: str) -> None:
    points, errors = encode_rows.from_rows(
        [{**ROW, "engine": engine, "hardware": hardware, "spec_extra": extra}]
    )
    assert errors == [None]
    assert P.PATHS[points.path[0]] == path


@pytest.mark.parametrize(
    "model,hardware,gpus,engine,family",
    [
        ("llama-3.1-8b", "a40", "1", "vllm", "bf16"),
        ("qwen3.8-27b", "h20", "2", "sglang", "bf16"),
        ("qwen3.8-27b", "rtx4090", "2", "vllm", "fp8"),
        ("qwen3.8-27b", "rtx3090", "2", "vllm", "int4"),
        ("qwen3.8-flash-next", "gb10", "1", "vllm", "int4"),
        ("deepseek-v3", "h200", "16", "sglang", "fp8"),
        ("qwen3.8-27b", "h20", "2", "llama.cpp", "gguf-k"),
    ],
)
def test_an_unstated_quantisation(
    model: str, hardware: str, gpus: str, engine: str, family: str
) -> None:
    row = {**ROW, "model": model, "hardware": hardware, "gpu_count": gpus, "engine": engine,
           "quant": ""}  # fmt: skip
    filled = imputation.impute(encode_rows.from_rows([row])[0])
    assert filled.bytes_ffn[0] == table("quant_families", "bytes_ffn")[family]


@pytest.mark.parametrize(
    "version,tiled", [("MTPLX", 1.0), ("mlx-dspark 0.2", 1.0), ("mlx-lm 0.31", 0.0), ("", 0.0)]
)
def test_forks_with_verify_kernels_of_their_own(version: str, tiled: float) -> None:
    row = {**ROW, "engine": "mlx", "hardware": "apple-m4-pro", "engine_version": version,
           "quant": "mlx-4bit"}  # fmt: skip
    points = encode_rows.from_rows([row])[0]
    assert points.tiled[0] == tiled
    assert encode_rows.from_rows([{**row, "engine": "vllm"}])[0].tiled[0] == 0.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"speedup_metric": ""}, "speedup_metric"),
        ({"speedup_metric": "latency"}, "speedup_metric"),
        ({"spec_method": ""}, "spec_method"),
        ({"spec_method": "medusa-7"}, "spec_method"),
        ({"model": "zzz", "total_params_b": ""}, "model"),
        ({"model": "", "total_params_b": "-3"}, "model"),
        *(
            ({column: cell}, f"{column} '{cell}' is not {wanted}; ")
            for wanted, column, *words in (
                ("a number above 0", "concurrency", "-5", "abc", "1,000", "0"),
                ("a whole number from 0 to 256", "k", "-3", "1000000", "1.5"),
                ("a number above 0", "output_tokens", "inf"),
                ("a number of at least 0", "temperature", "hot"),
                ("a number from 0 to 1", "prefix_share", "80"),
                ("a number from 0 to 1", "acceptance_rate", "1.2"),
                ("a number of at least 1", "acceptance_length", "0.4"),
                ("on or off", "prefix_caching", "maybe"),
                ("on or off", "is_moe", "perhaps"),
                ("a number above 0", "total_params_b", "35B"),
                ("a number above 0", "active_params_b", "-3"),
            )
            for cell in words
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error(change: dict[str, str], says: str) -> None:
    points, errors = encode_rows.from_rows([{**ROW, **change}, ROW])
    assert says in errors[0] and (";" not in says or errors[0].startswith(says))
    assert errors[1] is None and len(points) == 2


@pytest.mark.parametrize(
    "word", ["", "  ", "?", "-", "n/a", "N/A", "na", "none", "null", "unknown", "Unknown ", "nan"]
)
def test_words_for_unknown_are_no_error(word: str) -> None:
    columns = [column for column, _ in encode_rows.NUMBER_COLUMNS.values()]
    columns += ["total_params_b", "active_params_b", "is_moe"]
    points, errors = encode_rows.from_rows([{**ROW, **dict.fromkeys(columns, word)}])
    assert errors == [None]
    assert all(np.isnan(getattr(points, name)[0]) for name in encode_rows.NUMBER_COLUMNS)


def test_an_error_shows_the_start_of_a_long_cell() -> None:
    _, errors = encode_rows.from_rows([{**ROW, "k": "9\n" * 5000}])
    assert errors[0] is not None and len(errors[0]) < 160 and errors[0].isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"hardware": "unknown"},
        {"hardware": "nobody-makes-this"},
        {"model": "", "total_params_b": "70", "active_params_b": "70"},
        {"model": "zzz", "total_params_b": "200", "active_params_b": "20"},
        {"model": "somebody/Newmodel-14B"},
        {"quant": ""},
        {"quant": "q3_k_xxl"},
        {"k": ""},
        {"concurrency": "", "input_tokens": "", "output_tokens": ""},
    ],
)
def test_unknown_is_not_an_error(change: dict[str, str]) -> None:
    points, errors = encode_rows.from_rows([{**ROW, **change}])
    assert errors == [None]
    filled = imputation.impute(points)
    for name in P.FLOAT_FIELDS:
        if name not in MAY_STAY_UNKNOWN:
            assert np.isfinite(getattr(filled, name)).all(), name


def test_trees_and_drafts_in_free_text() -> None:
    points, _ = encode_rows.from_rows(
        [
            {**ROW, "spec_extra": "steps 4 topk 4 draft 16", "k": "4"},
            {**ROW, "spec_extra": "NEXTN steps 3 topk 1 draft 4", "k": "3"},
            {**ROW, "spec_method": "draft_model", "spec_extra": "Qwen3.5-0.8B-Q4_K_M draft"},
            {**ROW, "spec_extra": "p-min 0.60"},
        ]
    )
    assert points.verify_tokens[0] == 16 and np.isnan(points.verify_tokens[1])
    assert points.draft_params[2] == pytest.approx(0.8e9)
    assert points.p_min[3] == 0.6


def test_from_plans_and_rows_agree() -> None:
    from advisor.knowledge import store as knowledge

    model = knowledge.llm("qwen3.6-35b-a3b")
    facts = Facts(
        hardware=knowledge.hardware("gb10"),
        model=model,
        shape=knowledge.shape_of(model),
        quant=knowledge.quant("fp8"),
        concurrency=16,
        ctx_tokens=2048,
        output_tokens=512,
        engine_version="0.19.1",
    )
    plans = [Plan(engine="vllm", method="mtp", k=k, kv_cache_dtype="fp8_e4m3") for k in (1, 2)]
    planned = encode_plans.from_plans(facts, plans)
    rowed, _ = encode_rows.from_rows([ROW])
    assert planned.k.tolist() == [1.0, 2.0]
    alike = "bw fp8 experts expert_params state_bytes bytes_ffn kv_bytes input_tokens"
    for name in alike.split():
        assert getattr(planned, name)[1] == pytest.approx(getattr(rowed, name)[0])
    assert planned.path[0] == rowed.path[0] and planned.family[0] == rowed.family[0]


def test_a_schedule_by_batch_size() -> None:
    schedule = ((1, 8, 3), (9, 64, 1))
    plans = [
        Plan(engine="vllm", method="mtp", k=3, k_schedule=schedule),
        Plan(engine="vllm", method="mtp", k=3),
    ]
    made = encode_plans.from_plans(Facts(concurrency=16), plans)
    assert made.k.tolist() == [1.0, 3.0]
    assert made.piecewise[0] == 1.0 and np.isnan(made.piecewise[1])


@pytest.mark.parametrize(
    ("engine", "extra", "eager"),
    [
        ("vllm", ("--enforce-eager", None), True),
        ("vllm", ("--enforce-eager", "true"), True),
        ("vllm", ("--enforce-eager", "False"), False),
        ("vllm", ("--optimization-level", "0"), True),
        ("vllm", ("--optimization-level", "2"), False),
        ("vllm", ("--compilation-config", '{"cudagraph_mode": "NONE"}'), True),
        ("vllm", ("--compilation-config", '{"cudagraph_mode": "FULL"}'), False),
        ("sglang", ("--disable-cuda-graph", None), True),
        ("sglang", ("--cuda-graph-backend-decode", "disabled"), True),
        ("vllm", ("--port", "8000"), False),
    ],
)
def test_flags_against_cuda_graphs(
    engine: Engine, extra: tuple[str, str | None], eager: bool
) -> None:
    made = encode_plans.from_plans(
        Facts(concurrency=1), [Plan(engine=engine, method="mtp", k=2, extra=(extra,))]
    )
    assert made.eager[0] == 1.0 if eager else np.isnan(made.eager[0])
