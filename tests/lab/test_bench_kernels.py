"""Sweeps of long blocks and of block-FP8 paths, and times of single kernels: what they ask for,
checked without a GPU.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from advisor.knowledge import store
from advisor.lab.bench import cells, kernels, served_cells, shapes, worker
from advisor.lab.bench.rows import campaign


def test_paths_of_block_fp8_differ_in_their_switches_alone() -> None:
    jobs = cells.deepgemm_sweep()
    switches = {job.label.rpartition("-")[2]: job.env for job in jobs}
    assert switches["default"] != switches["deepgemm"] != switches["cutlass"]
    assert worker.ENV["VLLM_USE_DEEP_GEMM"] == "0"
    assert "VLLM_USE_DEEP_GEMM" not in switches["cutlass"]
    for one in jobs:
        for other in jobs:
            if one.k == other.k:
                alike = {**one.as_dict(), "label": "", "env": {}}
                assert alike == {**other.as_dict(), "label": "", "env": {}}
    assert [job.k for job in jobs if job.label.endswith("default")] == [0, 2, 1, 3]


def test_blocks_are_drafted_by_a_head_of_their_own(tmp_path: Path) -> None:
    for number, job in enumerate(cells.blocks_sweep()):
        folder = tmp_path / str(number)
        folder.mkdir()
        worker.write_shape(job.as_dict(), folder)
        told = worker.engine_arguments(job.as_dict(), str(folder))["speculative_config"]
        assert campaign(job.label) == f"{job.model}-{job.quant}-blocks"
        if not job.k:
            assert told is None and not (folder / "dflash").exists()
            continue
        assert told["method"] == "dflash" and len(told["synthetic_acceptance_rates"]) == job.k
        head = json.loads(Path(told["model"], "config.json").read_text())
        target = shapes.config(job.model, job.quant)
        target = target.get("text_config", target)
        assert head["architectures"] == ["DFlashDraftModel"] and job.k < head["block_size"] == 16
        for name in ("vocab_size", "hidden_size"):
            assert head[name] == target[name]
        assert max(head["dflash_config"]["target_layer_ids"]) < target["num_hidden_layers"]
    assert list(cells.RATES) == sorted(cells.RATES, reverse=True)


def test_long_blocks_of_a_slot_have_rates_for_every_draft() -> None:
    for job in served_cells.llama_blocks_sweep(Path("m.gguf"), model="qwen3.6-27b", quant="q4_k_m"):
        assert len(job.rates) == job.k
        if job.k:
            rates = job.command[job.command.index("--spec-synth-rates") + 1].split(",")
            assert list(map(float, rates)) == list(job.rates)


def test_products_are_the_models_own_weights() -> None:
    """The 27B's mixers and its feed-forward layers: all but its vocabulary and its head."""
    listed = kernels.matrices("qwen3.6-27b")
    params = sum(rows * columns * count for rows, columns, count in listed.values())
    known = store.llm("qwen3.6-27b")
    billions = (known.mixer_params_b or 0) + (known.dense_ffn_params_b or 0)
    assert params == pytest.approx(1e9 * billions, rel=0.01)
    rows = [{"path": "cutlass", "tokens": 4, "matrix": name, "us": 10.0} for name in listed]
    layers = shapes.SHAPES["qwen3.6-27b"].layers
    assert kernels.model_ms(rows, "qwen3.6-27b") == {
        ("cutlass", 4): pytest.approx(4 * layers * 10.0 / 1e3)
    }


@pytest.mark.parametrize("routing", kernels.ROUTINGS)
def test_a_token_never_asks_twice_for_an_expert(routing: str) -> None:
    asked = kernels.draw(routing, 64, 256, 8, random.Random(3))
    assert len(asked) == 64 and all(len(set(one)) == 8 for one in asked)
    reached = len({expert for one in asked for expert in one})
    if routing.startswith("pool"):
        assert reached <= int(routing[4:])
    if routing == "uniform":
        # 1 - (1 - 8/256)^64 of 256 experts
        assert reached == pytest.approx(223, abs=10)


def test_skew_reaches_fewer_experts() -> None:
    def experts(routing: str) -> int:
        asked = kernels.draw(routing, 64, 256, 8, random.Random(5))
        return len({expert for one in asked for expert in one})

    assert experts("zipf1.5") < experts("zipf1") < experts("zipf0.5") < experts("uniform")
