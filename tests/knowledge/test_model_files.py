"""A model by its own file: the known one of its shape, else one of the file's own numbers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from advisor import recommend
from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.knowledge import store


@pytest.fixture(autouse=True)
def _own_files() -> Iterator[None]:
    with store.model_files():
        yield


QWEN3_8B = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
}
UNKNOWN = {
    "model_type": "qwen3_next",
    "hidden_size": 2560,
    "num_hidden_layers": 44,
    "num_attention_heads": 20,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 640,
    "shared_expert_intermediate_size": 640,
    "full_attention_interval": 4,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "linear_key_head_dim": 128,
    "num_nextn_predict_layers": 1,
    "vocab_size": 151936,
}


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


def test_a_config_of_a_known_shape_names_the_known_model(tmp_path: Path) -> None:
    assert store.llm(config(tmp_path, QWEN3_8B)).id == "qwen3-8b"


def test_a_config_of_an_unknown_shape_is_priced_by_its_own_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    made = store.llm(config(folder, UNKNOWN))
    assert (made.id, made.arch, made.mtp_layers) == ("mine", "hybrid-gdn-moe", 1)
    assert (made.full_attention_layers, made.linear_layers) == (11, 33)
    experts = 128 * 44 * 3 * 2560 * 640 / 1e9
    assert made.total_params_b == pytest.approx(experts, rel=0.15)
    assert (made.active_params_b or 0) < 0.2 * (made.total_params_b or 0)
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


@pytest.mark.parametrize("content", ["", "[]", "{}", "{" * 5000, '{"hidden_size": "x"}'])
def test_a_config_that_tells_nothing_is_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(AdvisorError):
        store.llm(str(path))


@pytest.mark.parametrize("name", ["/etc/config.json", "weights.gguf", "./a/B.GGUF"])
def test_no_file_is_read_for_those_who_ask_over_a_socket(name: str) -> None:
    """tests/cli/serve/test_no_file.py tries each field; here the words."""
    with pytest.raises(UnknownFact, match="command line only"):
        Context().run(store.llm, name)  # as a request asks: outside of `model_files`


@pytest.mark.parametrize("name", ["./nothing.json", "weights.gguf", "/models/config.json"])
def test_a_file_that_is_not_there_is_said_to_be_missing(name: str) -> None:
    """And no model whose name is a little like it is proposed."""
    with pytest.raises(UnknownFact, match="no GGUF file is there"):
        store.llm(name)


def test_a_configuration_in_this_folder_is_served_from_it_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was called "." on the first screen and in the launch."""
    config(tmp_path, QWEN3_8B)
    monkeypatch.chdir(tmp_path)
    advice = recommend(hardware="h100", model="./config.json")
    assert advice.launch.argv[:3] == ("vllm", "serve", str(tmp_path))
