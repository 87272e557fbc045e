"""A model by its own file: the known one of its shape, else one of the file's own numbers."""

import json
import struct
from collections.abc import Iterator, Mapping
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from advisor import recommend
from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.knowledge import own_files, store


@pytest.fixture(autouse=True)
def _own_files() -> Iterator[None]:
    with own_files.model_files():
        yield


QWEN3_8B = {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "intermediate_size": 12288, "vocab_size": 151936}  # fmt: skip
UNKNOWN = {"model_type": "qwen3_next", "hidden_size": 2560, "num_hidden_layers": 44,
           "num_attention_heads": 20, "num_key_value_heads": 2, "head_dim": 256,
           "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 640,
           "shared_expert_intermediate_size": 640, "full_attention_interval": 4,
           "linear_num_value_heads": 32, "linear_value_head_dim": 128, "linear_key_head_dim": 128,
           "num_nextn_predict_layers": 1, "vocab_size": 151936}  # fmt: skip


def config(folder: Path, fields: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return str(path)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(folder: Path, tensors: Mapping[str, tuple[int, ...]], **keys: int) -> Path:
    """A GGUF header of the dense architecture qwen3: whole numbers, a vocabulary, tensors."""
    body = text("general.architecture") + struct.pack("<I", 8) + text("qwen3")
    for key, value in keys.items():
        name = f"qwen3.{key.replace('__', '.')}"
        body += text(name) + struct.pack("<II", 4, value)
    words = ["a", "bc", "def"]
    body += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(words))
    body += b"".join(map(text, words))
    for name, dims in tensors.items():
        body += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        body += struct.pack("<IQ", 0, 0)
    path = folder / "mine-Q4_K_M.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys) + 2) + body)
    return path


def test_a_config_of_an_unknown_shape_is_priced_by_its_own_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    made = store.llm(config(folder, UNKNOWN))
    assert (made.id, made.arch, made.mtp_layers) == ("mine", "hybrid-gdn-moe", 1)
    assert (made.full_attention_layers, made.linear_layers) == (11, 33)
    types = {"layer_types": ["linear_attention"] * 4 + ["full_attention"] * 40}
    by_name = store.llm(config(folder, UNKNOWN | types))
    assert (by_name.full_attention_layers, by_name.linear_layers) == (40, 4)
    mixer, head, expert = 2 * 2560 * 256 * 22 * 44, 151936 * 2560, 3 * 2560 * 640
    shared = expert * 44
    parts = {"total_params_b": (mixer + shared + 2 * head + 128 * 44 * expert) / 1e9,
             "active_params_b": (mixer + shared + head + 8 * 44 * expert) / 1e9,
             "mixer_params_b": mixer / 1e9, "shared_params_b": shared / 1e9,
             "lm_head_params_b": head / 1e9, "expert_params_m": expert / 1e6,
             "mtp_params_b": (mixer + shared) / 44e9, "kv_elems_per_token": 2 * 2 * 256 * 11,
             "state_mb_per_seq": 4e-6 * 32 * 128 * 128 * 33}  # fmt: skip
    assert {name: getattr(made, name) for name in parts} == pytest.approx(parts)
    advice = recommend(hardware="h100", model=str(folder / "config.json"))
    assert advice.estimate is not None and str(folder) in advice.launch.argv


def test_a_gguf_header_gives_shape_and_counted_size(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": (1000, 3), "blk.0.ffn_up.weight": (1000, 1_000_000)}
    path = gguf(
        tmp_path,
        tensors,
        block_count=21,
        embedding_length=1000,
        attention__head_count=10,
        attention__head_count_kv=2,
        feed_forward_length=3000,
    )
    made = store.llm(str(path))
    assert (made.layers, made.hidden, made.kv_heads, made.vocab) == (21, 1000, 2, 3)
    assert made.total_params_b == pytest.approx(1.000003)
    advice = recommend(hardware="rtx3090", model=str(path))
    assert advice.plan.engine == "llama-server" and str(path) in advice.launch.argv


@pytest.mark.parametrize("cut", [0, 3, 10, 30, 100, 150])
def test_a_gguf_that_is_cut_off_is_one_sentence(tmp_path: Path, cut: int) -> None:
    path = gguf(tmp_path, {"a": (2, 2)}, block_count=3, embedding_length=8)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(AdvisorError, match="GGUF"):
        store.llm(str(path))


def test_counts_beyond_bounds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60))
    with pytest.raises(AdvisorError, match="too long"):
        store.llm(str(path))


@pytest.mark.parametrize(
    "name", ["/etc/config.json", "weights.gguf", "./a/B.GGUF", "./nothing.json"]
)
def test_no_file_is_read_for_those_who_ask_over_a_socket(name: str) -> None:
    """Here the words, elsewhere each field: it is missing, and no model like it proposed."""
    with pytest.raises(UnknownFact, match="command line only"):
        Context().run(store.llm, name)  # as a request asks: outside of `model_files`
    if not Path(name).exists():
        with pytest.raises(UnknownFact, match="no GGUF file is there"):
            store.llm(name)


SIBLING = {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
           "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
           "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
           "vocab_size": 151936}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    ("told", "context"),
    [
        ({"max_position_embeddings": 262144}, 262144),  # the -2507 models
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 40960, "rope_scaling": YARN}, 131072),  # vLLM's rule
        ({"max_position_embeddings": 32768, "rope_parameters": YARN}, 131072),
        ({"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": 2}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"type": "llama3", "factor": 8}},
         131072),
        ({}, 40960),  # not told: the known sibling's
    ],
)  # fmt: skip
def test_a_file_keeps_its_own_context(tmp_path: Path, told: dict[str, Any], context: int) -> None:
    made = store.llm(config(tmp_path, SIBLING | told))
    assert (made.id, made.max_context_tokens) == ("qwen3-30b-a3b", context)
    advice = recommend(hardware="h100", gpus=2, model=str(tmp_path), what_if=False)
    assert (advice.plan.max_model_len or 0) <= context
    with pytest.raises(AdvisorError, match="context"):
        recommend(hardware="h100", gpus=2, model=str(tmp_path), ctx_tokens=context)


@pytest.mark.parametrize(
    ("told", "quant"),
    [
        (None, "bf16"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "awq-int4"),
        ({"quant_method": "gptq", "bits": 4}, "awq-int4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
          "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}, "nvfp4"),
        ({"quant_method": "compressed-tensors", "format": "float-quantized",
          "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, "fp8"),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized",
          "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}, "awq-int4"),
        ({"quant_method": "compressed-tensors", "format": "int-quantized",
          "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, "int8-w8a8"),
    ],
)  # fmt: skip
def test_a_model_keeps_its_files_quantisation(
    tmp_path: Path, told: dict[str, Any] | None, quant: str
) -> None:
    for fields in (SIBLING, UNKNOWN):
        more = {"quantization_config": told} if told is not None else {}
        made = store.llm(config(tmp_path, fields | more))
        assert [one.quant for one in made.checkpoints] == [quant]
    advice = recommend(hardware="b200", gpus=2, model=str(tmp_path), engine="vllm", what_if=False)
    if quant == "bf16":  # which the engine may quantise while it loads
        assert advice.facts.quant.id in ("bf16", "fp8")
    else:
        assert advice.facts.quant.id == quant and "--quantization" not in advice.launch.argv


@pytest.mark.parametrize(
    "told",
    [*("", "[]", "{}", "{" * 5000, '{"hidden_size": "x"}'),
     {"num_attention_heads": 0}, {"head_dim": 10**12}, {"head_dim": -1}, {"head_dim": 1.5},
     {"num_hidden_layers": True}, {"num_experts_per_tok": 9999}, {"num_key_value_heads": 64},
     {"max_position_embeddings": 0}, {"max_position_embeddings": 10**30}, {"vocab_size": "many"},
     {"hidden_size": float("inf")}, {"hidden_size": float("nan")},
     {"num_hidden_layers": 47, "mamba_d_state": 128}, {**UNKNOWN, "num_attention_heads": None},
     *({"quantization_config": {"quant_method": how, "bits": bits}} for how, bits in
       (("gptq", 8), ("gptq", 3), ("bitsandbytes", 4), ("exl3", 4), ("hqq", 4), ("quark", 8)))],
)  # fmt: skip
def test_what_no_model_has_is_one_sentence(tmp_path: Path, told: dict[str, Any] | str) -> None:
    path = tmp_path / "config.json"
    path.write_text(told if isinstance(told, str) else json.dumps(SIBLING | told))
    with pytest.raises(AdvisorError) as refused:
        store.llm(str(path))
    assert "\n" not in str(refused.value) and "config.json" in str(refused.value)


@pytest.mark.parametrize("written", ["{}", "{}/", "./mine", "mine", "mine/config.json"])
def test_a_configured_folder_is_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    config(folder, SIBLING | {"max_position_embeddings": 4096})
    monkeypatch.chdir(tmp_path)
    name = written.format(folder)
    assert store.llm(name).max_context_tokens == 4096
    advice = recommend(hardware="h100", model=name, what_if=False)
    assert advice.plan.max_model_len == 4096 and advice.launch.argv[2].strip("./").endswith("mine")


@pytest.mark.parametrize(("words", "model"), [(32768, "mistral-7b"), (128256, "llama-3.1-8b")])
def test_models_of_one_shape_differ_by_their_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: int, model: str
) -> None:
    """Mistral-7B-v0.3 has the layers of Llama-3.1-8B; its folder is no misspelt Mixtral."""
    shape = QWEN3_8B | {"model_type": "mistral", "num_hidden_layers": 32, "vocab_size": words}
    (tmp_path / "m" / "mistral").mkdir(parents=True)
    config(tmp_path / "m" / "mistral", shape | {"intermediate_size": 14336})
    monkeypatch.chdir(tmp_path)
    assert store.llm("m/mistral").id.startswith(model)


def test_a_known_name_is_a_folder_only_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("qwen3-8b", "Qwen"):
        (tmp_path / name / "Qwen3-8B").mkdir(parents=True)
        config(tmp_path / name, SIBLING)
    config(tmp_path / "Qwen" / "Qwen3-8B", SIBLING)
    monkeypatch.chdir(tmp_path)
    assert store.llm("qwen3-8b").id == "qwen3-8b"
    for path in ("./qwen3-8b", "Qwen/Qwen3-8B"):
        assert store.llm(path).id == "qwen3-30b-a3b"


KNOWN = {"hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
         "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "layers"),
    [  # of a known shape: what the file does not tell is that model's, what it tells its own
        (UNKNOWN | {"num_nextn_predict_layers": None}, None), (KNOWN, 1),
        (UNKNOWN | {"num_nextn_predict_layers": 0}, 0), (KNOWN | {"mtp_num_hidden_layers": 0}, 0),
    ],
)  # fmt: skip
def test_a_head_may_be_none(tmp_path: Path, fields: dict[str, Any], layers: int | None) -> None:
    path = config(tmp_path, fields)
    advice = recommend(hardware="h100-sxm", model=path, engine="vllm", concurrency=1)
    assert store.llm(path).mtp_layers == layers
    assert ((advice.candidate or advice.plan).method == "mtp") == bool(layers)
