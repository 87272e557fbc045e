"""Reading plan points, and the stand-ins for what they do not know."""

from itertools import product

import numpy as np
import pytest

from advisor.domain.nouns import METHODS, Engine, Facts, Plan
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf import imputation, rates
from advisor.perf.encoding import encode_plans, encode_rows
from advisor.perf.encoding.cells import row_text, version_number
from tests.tables import cells as cells_of
from tests.tables import fields, words

ROW = cells_of(
    "model=qwen3.6-35b-a3b quant=fp8 hardware=gb10 engine=vllm engine_version=0.19.1rc1.dev328 "
    "spec_method=mtp k=2 concurrency=16 input_tokens=2048 output_tokens=512 workload=random "
    "prefix_caching=on speedup_metric=output_tok_s acceptance_rate=0.72 kv_cache_dtype=fp8_e4m3 "
    "interconnect=none"
)
MAY_STAY_UNKNOWN = {"hardware_name", "model_name", "memory_bytes", "k", "verify_tokens", "p_min",
                    "kv_pool_tokens", "temperature", "thinking", "version", "given_rate",
                    "given_length", "given_k", "given_conditional", "held_base", "plain_caching",
                    "held_spec", "sparse_keys", "graph_tokens"}  # fmt: skip


def test_a_row_of_the_seed() -> None:
    points, errors = encode_rows.from_rows([ROW])
    assert errors == [None] and points.experts[0] == 256 and points.topk[0] == 8
    assert points.bw[0] == pytest.approx(273e9)
    assert imputation.impute(points).piecewise[0] == 1.0, "FlashInfer on SM12x: no FULL graphs"


EVERY = cells_of(
    "hardware=x model=y quant=q8_0 engine=llamacpp engine_version=b9860 spec_method=nextn k=2 tp=2 "
    "gpu_count=4 concurrency=8 input_tokens=0 output_tokens=100 depth_tokens=7 prefix_caching=ON "
    "prefix_share=0.25 max_num_seqs=16 max_num_batched_tokens=4096 kv_pool_tokens=1e5 "
    "n_requests=32 output_spread=0.5 temperature=0 thinking=off acceptance_rate=0.7 "
    "acceptance_length=2.5 total_params_b=8 active_params_b=1.5 is_moe=True workload=Code "
    "speedup_metric=throughput interconnect=RoCE kv_cache_dtype=fp8 cuda_graphs=piecewise"
)
POINT = fields(
    "version=9860 k=2 tp=2 gpus=4 concurrency=8 input_tokens=0 output_tokens=100 depth_tokens=7 "
    "prefix_caching=1 prefix_share=0.25 max_num_seqs=16 max_num_batched_tokens=4096 "
    "kv_pool_tokens=1e5 n_requests=32 output_spread=0.5 temperature=0 thinking=0 given_rate=0.7 "
    "given_length=2.5 total_params=8e9 active_params=1.5e9 is_moe=1 kv_bytes=1 piecewise=1"
)
WORDS = {"engine": (P.ENGINES, "llama-server"), "method": (METHODS, "mtp"),
         "metric": (P.METRICS, "output_tok_s"), "link": (P.LINKS, "roce"),
         "workload": (P.WORKLOADS, "code")}  # fmt: skip


def test_each_column_is_the_field_of_its_meaning() -> None:
    """8B are 8e9 parameters, fp8 is a byte; words are known in capitals and by other names."""
    made, errors = encode_rows.from_rows([EVERY])
    assert (errors, {name: getattr(made, name)[0] for name in POINT}) == ([None], POINT)
    found = {name: getattr(made, name)[0] for name in WORDS}
    assert found == {name: P.code(names, word) for name, (names, word) in WORDS.items()}


@pytest.mark.parametrize(
    ("columns", "good", "bad"),
    [
        ("k", "0 1 256", "-1 257 1.5 x"),
        ("tp gpu_count concurrency output_tokens max_num_seqs n_requests", "1 0.5", "0 -1 inf"),
        ("input_tokens depth_tokens temperature", "0 0.5", "-0.5 hot"),
        ("prefix_share output_spread acceptance_rate", "0 0.5 1", "-0.1 1.01"),
        ("acceptance_length", "1 1.5", "0.9"),
        ("prefix_caching thinking is_moe", "1 on True yes 0 OFF false no 1.0", "2 maybe"),
    ],
)
def test_the_ends_of_what_a_column_takes(columns: str, good: str, bad: str) -> None:
    for column, word in product(columns.split(), (good + " " + bad).split()):
        (error,) = encode_rows.from_rows([EVERY | {column: word}])[1]
        assert (error is None) == (word in good.split()), (column, word)


@pytest.mark.parametrize(
    ("engine", "text", "number"),
    [
        ("vllm", "0.25.1", 2501), ("vllm", "v1.2", 10200), ("vllm", "~0.9.0rc1", 900),
        ("llama-server", "b9860", 9860), ("llama-server", "build b123456", 123456),
        ("llama-server", "0.2.9", 10560), ("llama-server", "0.3", 10850),
        ("llama-server", "1.0", np.nan), ("vllm", "main", np.nan), ("vllm", "b12", np.nan),
    ],
)  # fmt: skip
def test_releases_and_builds_are_in_their_order(engine: str, text: str, number: float) -> None:
    assert version_number(engine, text) == pytest.approx(number, nan_ok=True)


def test_the_parts_of_an_unknown_dense_model_come_to_its_size() -> None:
    row = ROW | cells_of("model= total_params_b=70 active_params_b=70")
    p = imputation.impute(encode_rows.from_rows([row])[0])
    assert sum(rates.params(p)) + p.lm_head_params == pytest.approx(70e9)


TOTAL = cells_of("speedup_metric=output_tok_s output_tok_s=100 request_tok_s=50 concurrency=2")


@pytest.mark.parametrize(
    ("told", "made"),
    [
        ({"notes": "thinking"}, {"thinking": "1"}),
        ({"notes": "Thinking off"}, {"thinking": "0"}),
        ({"notes": "thinking", "thinking": "0"}, {"thinking": "0"}),
        ({"notes": "Vulkan", "spec_extra": "x"}, {"spec_extra": "x vulkan"}),
        ({"notes": "rocm", "spec_extra": "ROCm"}, {"spec_extra": "ROCm"}),
        (TOTAL | {"input_tokens": "4096"}, {"speedup_metric": "request_tok_s"}),
        (TOTAL | {"input_tokens": "4095"}, {"speedup_metric": "output_tok_s"}),
        (TOTAL | cells_of("input_tokens=4096 output_tok_s=96"), {"speedup_metric": "output_tok_s"}),
        (
            TOTAL | cells_of("input_tokens=9999 output_tok_s=98"),
            {"speedup_metric": "request_tok_s"},
        ),
        (TOTAL | {"notes": "PD disaggregation"}, {"speedup_metric": "request_tok_s"}),
    ],
)
def test_what_a_row_says_beside_its_columns(told: dict[str, str], made: dict[str, str]) -> None:
    """A total that is streams times a stream's speed, within 3 %, has no long prompt in it."""
    assert row_text(told) == told | made


PATHS = """
llamacpp-cuda: llama.cpp rtx3090, ik_llama.cpp rtx3090, ollama rtx3090
llamacpp-metal: llama-server apple-m4, lmstudio apple-m4
llamacpp-rocm: llama.cpp rx7900xtx, llama.cpp radeon-890m ROCm, llama.cpp strix-halo
llamacpp-vulkan: llama.cpp rx7900xtx Vulkan, llama.cpp radeon-890m
vllm-cuda: vllm gb10
vllm-other: vllm strix-halo
sglang-cuda: sglang b200
mlx: mlx apple-m3-ultra
other: tensorrt-llm b200, custom h200
"""


@pytest.mark.parametrize("line", PATHS.strip().splitlines())
def test_kernel_paths(line: str) -> None:
    path, rows = line.split(": ")
    for row in rows.split(", "):
        named = dict(zip(("engine", "hardware", "spec_extra"), row.split(), strict=False))
        points, errors = encode_rows.from_rows([ROW | named])
        assert errors == [None]
        assert P.PATHS[points.path[0]] == path, row


@pytest.mark.parametrize(
    ("family", "row"),
    [
        ("bf16", "model=llama-3.1-8b hardware=a40 gpu_count=1 engine=vllm"),
        ("bf16", "model=qwen3.8-27b hardware=h20 gpu_count=2 engine=sglang"),
        ("fp8", "model=qwen3.8-27b hardware=rtx4090 gpu_count=2 engine=vllm"),
        ("int4", "model=qwen3.8-27b hardware=rtx3090 gpu_count=2 engine=vllm"),
        ("int4", "model=qwen3.8-flash-next hardware=gb10 gpu_count=1 engine=vllm"),
        ("fp8", "model=deepseek-v3 hardware=h200 gpu_count=16 engine=sglang"),
        ("gguf-k", "model=qwen3.8-27b hardware=h20 gpu_count=2 engine=llama.cpp"),
    ],
)
def test_an_unstated_quantisation(family: str, row: str) -> None:
    made = encode_rows.from_rows([ROW | cells_of(row) | {"quant": ""}])[0]
    assert imputation.impute(made).bytes_ffn[0] == table("quant_families", "bytes_ffn")[family]


@pytest.mark.parametrize(
    "version,tiled", [("MTPLX", 1.0), ("mlx-dspark 0.2", 1.0), ("mlx-lm 0.31", 0.0), ("", 0.0)]
)
def test_forks_with_verify_kernels_of_their_own(version: str, tiled: float) -> None:
    row = {**ROW, "engine": "mlx", "hardware": "apple-m4-pro", "engine_version": version,
           "quant": "mlx-4bit"}  # fmt: skip
    assert encode_rows.from_rows([row])[0].tiled[0] == tiled
    assert encode_rows.from_rows([{**row, "engine": "vllm"}])[0].tiled[0] == 0.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"speedup_metric": "latency"}, "speedup_metric"),
        ({"spec_method": ""}, "spec_method"),
        ({"spec_method": "medusa-7"}, "spec_method"),
        ({"model": "zzz", "total_params_b": ""}, "model"),
        ({"model": "", "total_params_b": "-3"}, "model"),
        *(
            ({column: cell}, f"{column} '{cell}' is not {wanted}; ")
            for wanted, column, *words in (
                ("a number above 0", "concurrency", "-5", "abc", "1,000"),
                ("a whole number from 0 to 256", "k", "1000000"),
                ("a number of at least 0", "temperature", "hot"),
                ("a number from 0 to 1", "prefix_share", "80"),
                ("a number of at least 1", "acceptance_length", "0.4"),
                ("on or off", "is_moe", "perhaps"),
                ("a number above 0", "total_params_b", "35B", "-3"),
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
        "hardware=unknown", "hardware=nobody-makes-this", "quant=", "quant=q3_k_xxl", "k=",
        "model=somebody/Newmodel-14B", "concurrency= input_tokens= output_tokens=",
        "model= total_params_b=70 active_params_b=70",
        "model=zzz total_params_b=200 active_params_b=20",
    ],
)  # fmt: skip
def test_unknown_is_not_an_error(change: str) -> None:
    points, errors = encode_rows.from_rows([ROW | cells_of(change)])
    assert errors == [None]
    filled = imputation.impute(points)
    for name in P.FLOAT_FIELDS:
        if name not in MAY_STAY_UNKNOWN:
            assert np.isfinite(getattr(filled, name)).all(), name


@pytest.mark.parametrize(
    ("told", "made"),
    [
        ("steps 4 topk 4 draft 16", {"verify_tokens": 16}),
        ("NEXTN steps 3 topk 1 draft 4", {"verify_tokens": np.nan}),
        ("p-min 0.60", {"p_min": 0.6}),
        ("p_min=.75 0.6B", {"p_min": 0.75, "draft_params": np.nan}),
        ("spec_method=standalone Qwen3.5-0.8B-Q4_K_M", {"draft_params": 0.8e9}),
        ("cuda_graphs=eager", {"eager": 1, "piecewise": 0}),
        ("cuda_graphs=full", {"eager": np.nan, "piecewise": 0}),
        ("cuda_graphs=?", {"eager": np.nan, "piecewise": np.nan}),
    ],
)
def test_free_text_that_has_a_meaning(told: str, made: dict[str, float]) -> None:
    column, mark, word = told.partition(" ")[0].partition("=")
    named = {column: word} if mark and column in encode_rows.WORDS else {}
    points = encode_rows.from_rows([EVERY | {"spec_extra": told} | named])[0]
    found = {name: float(getattr(points, name)[0]) for name in made}
    assert found == pytest.approx(made, nan_ok=True)


def test_from_plans_and_rows_agree() -> None:
    from advisor.knowledge import store as knowledge

    model = knowledge.llm("qwen3.6-35b-a3b")
    known = {"hardware": knowledge.hardware("gb10"), "quant": knowledge.quant("fp8")}
    load = fields("concurrency=16 ctx_tokens=2048 output_tokens=512 engine_version=0.19.1")
    facts = Facts(model=model, shape=knowledge.shape_of(model), **known | load)
    plans = [Plan(engine="vllm", method="mtp", k=k, kv_cache_dtype="fp8_e4m3") for k in (1, 2)]
    plans += [Plan(engine="vllm", method="draft_model", k=1, draft_model="Qwen/Qwen3-0.6B")]
    planned = encode_plans.from_plans(facts, plans)
    rowed, _ = encode_rows.from_rows([ROW])
    assert planned.k.tolist() == [1.0, 2.0, 1.0] and planned.draft_params[2] == 0.6e9
    for name in words("bw fp8 experts expert_params state_bytes bytes_ffn kv_bytes input_tokens"):
        assert getattr(planned, name)[1] == pytest.approx(getattr(rowed, name)[0])
    assert (planned.path[0], planned.family[0]) == (rowed.path[0], rowed.family[0])


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
    ("engine", "option", "eager"),
    [
        ("vllm", "--enforce-eager", True), ("vllm", "--enforce-eager=true", True),
        ("vllm", "--enforce-eager=False", False), ("vllm", "--optimization-level=0", True),
        ("vllm", "--optimization-level=2", False), ("vllm", "--port=8000", False),
        ("vllm", '--compilation-config={"cudagraph_mode": "NONE"}', True),
        ("vllm", '--compilation-config={"cudagraph_mode": "FULL"}', False),
        ("sglang", "--disable-cuda-graph", True),
        ("sglang", "--cuda-graph-backend-decode=disabled", True),
    ],
)  # fmt: skip
def test_flags_against_cuda_graphs(engine: Engine, option: str, eager: bool) -> None:
    name, _, value = option.partition("=")
    plan = Plan(engine=engine, method="mtp", k=2, extra=((name, value or None),))
    made = encode_plans.from_plans(Facts(concurrency=1), [plan])
    assert made.eager[0] == 1.0 if eager else np.isnan(made.eager[0])
