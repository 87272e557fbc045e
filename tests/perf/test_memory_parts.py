"""The parts of a memory bill, each by its own arithmetic."""

from __future__ import annotations

import pytest

from advisor.domain.nouns import Facts, Plan
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import kv as kv_sizes
from advisor.perf.sizes.weights import GIB

HYBRID, DENSE, MOE = "qwen3.6-35b-a3b", "qwen3-14b", "glm-4.5-air"


def facts(hardware: str, quant: str | None, model: str, **known: object) -> Facts:
    llm = knowledge.llm(model)
    return Facts(
        hardware=knowledge.hardware(hardware),
        model=llm,
        shape=knowledge.shape_of(llm),
        quant=knowledge.quant(quant) if quant else None,
        **known,  # type: ignore[arg-type]
    )


def plan(engine: str = "vllm", method: str = "none", k: int = 0, **parts: object) -> Plan:
    return Plan(engine=engine, method=method, k=k, **parts)  # type: ignore[arg-type]


def state_bytes(model: str) -> float:
    mb = knowledge.shape_of(knowledge.llm(model)).state_mb_per_seq
    assert mb
    return mb * 1e6


@pytest.mark.parametrize(
    ("engine", "concurrency", "slots", "running"),
    [
        ("vllm", 4, 8, 4),
        ("vllm", 8, 4, 4),
        ("vllm", None, 3, 3),
        ("vllm", 5, None, 5),
        ("llama-server", 2, 3, 2),
    ],
)
@pytest.mark.parametrize("k", [0, 2])
def test_each_running_request_keeps_a_state_of_every_draft(
    engine: str, concurrency: int | None, slots: int | None, running: int, k: int
) -> None:
    known = facts("h200", "fp8", HYBRID, concurrency=concurrency, ctx_tokens=2048)
    made = memory.bill(known, plan(engine, "mtp" if k else "none", k, max_num_seqs=slots))
    expected = state_bytes(HYBRID) * (1 + k) * running / GIB
    assert made.state_gib == pytest.approx(expected, rel=1e-9)


def test_no_more_states_than_requests_that_memory_holds() -> None:
    known = facts("rtx3090", "awq-int4", HYBRID, concurrency=500, ctx_tokens=32_768)
    made = memory.bill(known, plan(max_num_seqs=500))
    assert made.requests is not None and made.requests < 500
    assert made.state_gib <= state_bytes(HYBRID) * made.requests / GIB * (1 + 1e-9)


def test_a_request_that_is_not_described_has_2048_and_512_tokens() -> None:
    made = memory.bill(facts("h200", "fp8", DENSE), plan())
    assert made.request_tokens == 2_560
    told = facts("h200", "fp8", DENSE, ctx_tokens=100, output_tokens=11)
    assert memory.bill(told, plan()).request_tokens == 111


def test_without_a_known_quantisation_nothing_is_said() -> None:
    made = memory.bill(facts("h200", None, DENSE), plan())
    assert made.fits is None and made.weights_gib == 0 and made.kv_tokens is None


@pytest.mark.parametrize("engine", ["vllm", "llama-server"])
def test_weights_alone_that_do_not_fit_are_known_not_to(engine: str) -> None:
    known = facts("rtx3090", "bf16", MOE)
    assert known.shape is not None
    blind = known.model_copy(
        update={
            "shape": known.shape.model_copy(
                update={"kv_elems_per_token": None, "kv_heads": None, "head_dim": None}
            )
        }
    )
    if kv_sizes.bytes_per_token(blind.shape, None) is None:  # type: ignore[arg-type]
        assert memory.bill(blind, plan(engine)).fits is False
    assert memory.room(known, plan("vllm"), 100) == 0.0


@pytest.mark.parametrize("tp", [1, 2])
def test_what_one_request_lacks(tp: int) -> None:
    length = 4_000_000
    known = facts("rtx3090", "awq-int4", DENSE, gpus=tp)
    asked = plan(tp=tp, max_model_len=length)
    made = memory.bill(known, asked)
    assert known.shape is not None
    token = kv_sizes.bytes_per_token(known.shape, None)
    left = memory.left_gib(made)
    assert token is not None and left is not None
    one = length * token * kv_sizes.copies(known.shape, asked) / GIB / tp
    assert made.fits is False and made.short_gib == pytest.approx(one - left, abs=0.006)


def test_copies_of_kv_heads_count_in_what_lacks() -> None:
    known = facts("rtx3090", "awq-int4", DENSE, gpus=16)
    asked = plan(tp=16, max_model_len=40_000_000)
    made = memory.bill(known, asked)
    assert known.shape is not None and kv_sizes.copies(known.shape, asked) == 2
    token, left = kv_sizes.bytes_per_token(known.shape, None), memory.left_gib(made)
    assert token is not None and left is not None
    assert made.short_gib == pytest.approx(40_000_000 * token * 2 / GIB / 16 - left, abs=0.006)


def test_a_drafting_layer_takes_its_share_of_every_request() -> None:
    known = facts("h200", "fp8", MOE)
    assert known.shape is not None
    free, length = 1e11, 10_000
    plain = memory._requests(known, plan("sglang"), known.shape, free, length)
    drafted = memory._requests(known, plan("sglang", "mtp", 2), known.shape, free, length)
    assert plain and drafted
    layers = kv_sizes.full_layers(known.shape)
    assert plain / drafted == pytest.approx(1 + 1 / layers, rel=1e-6)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_sglang_keeps_a_share_of_its_pool_for_states(k: int) -> None:
    known = facts("h200", "fp8", HYBRID)
    assert known.shape is not None
    free = 4e10
    held = memory._requests(known, plan("sglang", "mtp" if k else "none", k), known.shape, free, 1)
    states = memory.SGLANG_STATE_SHARE * free / (memory.SGLANG_STATES * state_bytes(HYBRID))
    assert held == pytest.approx(max(states, memory.SGLANG_FEW), rel=1e-6)


def test_a_cache_of_eight_bits_is_half_of_one_of_sixteen() -> None:
    known = facts("h200", "fp8", DENSE, concurrency=2)
    whole, half = (
        memory.bill(known, plan("llama-server", max_model_len=8_192, kv_cache_dtype=kind))
        for kind in ("f16", "q8_0")
    )
    assert half.kv_gib / whole.kv_gib == pytest.approx(8.5 / 16, rel=1e-3)
