"""The memory bill against two engines' own logs, and what must always hold."""

import math
import re
from typing import Any

import pytest

from advisor.advice.plans.memory_relief import shortfall
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Facts, Plan
from advisor.knowledge import store as knowledge
from advisor.perf import memory, prompt_queue
from advisor.perf.sizes import device
from advisor.perf.sizes import pools as kv_sizes
from advisor.perf.sizes.weights import GIB
from advisor.render.text import advice_text


def facts(hardware: str, quant: str, model: str = "qwen3.6-35b-a3b", **known: object) -> Facts:
    llm = knowledge.llm(model)
    about = {"model": llm, "shape": knowledge.shape_of(llm), "quant": knowledge.quant(quant)}
    return Facts(hardware=knowledge.hardware(hardware), **about, **known)


def plan(k: int = 0, **parts: object) -> Plan:
    return Plan(**{"engine": "vllm", "method": "mtp" if k else "none", "k": k, **parts})  # type: ignore[arg-type]


GB10 = {
    "engine_version": "0.19.1", "max_model_len": 131_072, "memory_fraction": 0.45,
    "kv_cache_dtype": "fp8_e4m3", "max_num_batched_tokens": 16_384, "max_num_seqs": 32,
}  # fmt: skip


def test_gb10_bill() -> None:
    """Seed: 360k -> 323,456 tokens (-10 %)."""
    known = facts("gb10", "fp8")
    off, on = memory.bill(known, plan(**GB10)), memory.bill(known, plan(2, **GB10))
    assert off.kv_tokens == pytest.approx(360_000, rel=0.04)
    assert on.kv_tokens == pytest.approx(323_456, rel=0.04)
    assert on.kv_tokens_lost / off.kv_tokens == pytest.approx(0.10, abs=0.03)


def test_vllms_default_share_is_that_of_its_release() -> None:
    """--gpu-memory-utilization: 0.9 up to vLLM 0.19, 0.92 later, as its parser says."""
    known, told = facts("h200", "fp8"), {"max_model_len": 32_960}
    for release, share in (("0.19.1", 0.9), ("0.33.0", 0.92)):
        unset = memory.bill(known, plan(**told, engine_version=release))
        given = memory.bill(known, plan(**told, engine_version=release, memory_fraction=share))
        assert unset == given


@pytest.mark.parametrize(
    ("card", "engine", "tokens"),
    [("rtx4090", "vllm", 2048), ("a100-80gb", "vllm", 2048), ("h100", "vllm", 8192),
     ("rtx4060ti", "sglang", 2048), ("rtx4090", "sglang", 4096), ("h200", "sglang", 8192)],
)  # fmt: skip
def test_a_bill_has_the_engines_own_token_budget(card: str, engine: Any, tokens: int) -> None:
    """vllm/engine/arg_utils.py get_batch_defaults: 8192 from 70 GiB on but on an A100; SGLang
    0.5.23 memory_hook.py: chunked_prefill_size by gpu_mem.
    """
    known = facts(card, "fp8").replace(engine=engine)
    asked = [plan(engine=engine, max_num_batched_tokens=n) for n in (None, tokens)]
    unset, given = (memory.bill(known, one) for one in asked)
    assert unset == given


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_sliding_layers_keep_their_window_of_every_request(engine: str) -> None:
    """Gemma 4 31B: 50 layers of 16 heads of 256 over 1024 tokens are 0.78 GiB a request in 16 bit,
    4096 tokens of the other ten layers 0.31: fewer requests fit, and a longer answer costs only
    those ten.
    """
    quant = "q4_k_m" if engine == "llama-server" else "fp8"
    known = facts("h200", quant, "gemma-4-31b", concurrency=8, ctx_tokens=3584)
    sizes = [kv_sizes.window_bytes(known.shape, None, n) for n in (512, 4096, 1_000_000)]
    window = 1024 * 50 * 2 * 16 * 256 * 2
    assert sizes == [window / 2, window, window]
    assert kv_sizes.window_bytes(facts("h200", "fp8").shape, None, 4096) == 0  # type: ignore[arg-type]
    short, long = (
        memory.bill(known, plan(engine=engine, max_num_seqs=8, max_model_len=n))
        for n in (4096, 8192)
    )
    token = kv_sizes.bytes_per_token(known.shape, None) or 0.0
    if engine == "llama-server":
        assert (short.kv_gib or 0.0) * GIB == pytest.approx(8 * (4096 * token + window), rel=0.01)
        return
    # what is left for KV holds whole requests: their tokens and their windows
    requests = (short.kv_gib or 0.0) * GIB / (4096 * token + window)
    assert short.kv_tokens == pytest.approx(4096 * requests, rel=0.01)
    assert long.kv_tokens > 1.4 * short.kv_tokens


def test_shortfall_says_by_how_much_and_what_fits() -> None:
    known = facts("rtx4090", "fp8", concurrency=1, ctx_tokens=2048)
    text = shortfall(known, plan(), memory.bill(known, plan()))
    assert "GiB short" in text and "--quant " in text and "--gpus 2" in text and "\n" not in text
    huge = facts("rtx3060", "fp8", "deepseek-r1", concurrency=1)
    assert "smaller model" in shortfall(huge, plan(), memory.bill(huge, plan()))


def test_ranks_beyond_the_kv_heads_hold_copies() -> None:
    """MLA's latent vector is on every rank; two KV heads on four ranks are kept twice."""
    indexed = facts("b200", "nvfp4", "minimax-m3", gpus=8).shape  # vllm#51494 has a log
    each = 60 * 2 * 128 * 2 + 57 * 128 * 2  # one of four heads in 60 layers, all index keys in 57
    assert [kv_sizes.token_bytes(indexed, plan(tp=tp)) for tp in (4, 8)] == [4 * each, 8 * each]
    mla, hybrid = facts("h200", "fp8", "deepseek-r1", gpus=8), facts("h200", "fp8")
    assert [kv_sizes.copies(mla.shape, plan(tp=tp)) for tp in (1, 8)] == [1, 8]
    assert [kv_sizes.copies(hybrid.shape, plan(tp=tp)) for tp in (1, 2, 4)] == [1, 1, 2]
    assert kv_sizes.copies(mla.shape, plan(tp=8).model_copy(update={"engine": "llama-server"})) == 1
    bill = memory.bill(mla, plan(tp=8, max_model_len=4096))
    token_gib = (kv_sizes.bytes_per_token(mla.shape, None) or 0.0) / GIB
    assert bill.kv_gib and bill.kv_tokens == pytest.approx(bill.kv_gib / token_gib, rel=0.01)


def test_hybrids_with_mla_and_windows_are_copied_by_their_own_heads() -> None:
    """GLM-5.3: MLA on every rank; Gemma 4 31B: 4 KV heads over the context, 16 in windows."""
    models = ("glm-5.3-flash", "gemma-4-31b")
    glm, gemma = (facts("h200", "fp8", name, gpus=8).shape for name in models)
    assert [kv_sizes.copies(glm, plan(tp=tp)) for tp in (1, 4, 8)] == [1, 4, 8]
    assert [kv_sizes.copies(gemma, plan(tp=8), sliding=one) for one in (False, True)] == [2, 1]


def test_replicas_of_a_mixture_share_whole_experts_in_vllm() -> None:
    """DeepSeek-R1, FP8: 58 x 256 experts of 44.04M are 609 GiB, the rest 18 (vLLM's docs)."""
    known = facts("h200", "fp8", "deepseek-r1", gpus=8)
    for told, gib in (((), 627), (((kv_sizes.EXPERTS, None),), 94)):
        bill = memory.bill(known, plan(dp=8, extra=told))
        assert bill.weights_gib == pytest.approx(gib, rel=0.02)


@pytest.mark.parametrize("asked", [
    {"hardware": "rtx3090", "gpus": 2, "model": "qwen3.6-27b", "concurrency": 8},
    {"hardware": "rtx4060ti", "model": "qwen3.5-9b"},
    {"hardware": "rtx5090", "model": "qwen3-32b", "method": "eagle3", "no_thinking": True},
    {"hardware": "h200", "gpus": 8, "model": "deepseek-r1", "concurrency": 64},
    {"hardware": "gb10", "concurrency": 16},
])  # fmt: skip
def test_beside_sglangs_share_is_room_for_what_it_keeps_outside(asked: dict[str, Any]) -> None:
    """Weights and KV alone (server_args.py): activations, graphs and drafter lie beside."""
    told = {name: value for name, value in asked.items() if name != "no_thinking"}
    made = recommend(**told, engine="sglang", thinking=False if "no_thinking" in asked else None)
    usable, shape, quant = device.usable_gib(made.facts), made.facts.shape, made.facts.quant
    for one in (made.plan, made.candidate):
        assert (1 - one.memory_fraction) * usable >= memory.outside_gib(
            made.facts, one, shape, quant
        )
    shares = {p.memory_fraction for p in (made.plan, made.candidate) if p is not None}
    assert len(shares) == 1  # the arms differ in speculation alone


def test_slots_that_do_not_fit_choose_the_next_four_bit_quantisation() -> None:
    """Allocated at the start: 48 slots beside Q4_K_M do not fit a 4090, a smaller mix does."""
    asked = {"hardware": "rtx4090", "model": "qwen3.6-35b-a3b", "engine": "llama-server"}
    few, many = recommend(**asked), recommend(**asked, concurrency=48)
    assert few.facts.quant.id == "q4_k_m"
    assert 4 <= (many.facts.quant.bits or 0) < (few.facts.quant.bits or 0)
    assert any("with all 48 slots" in why for _, _, why in many.facts.defaults)


@pytest.mark.parametrize("asked", [
    # FP8 leaves no room for the activations of 8192 tokens a step
    {"hardware": "h100", "model": "llama-3.3-70b"},
    # 64 heads do not go into three ranks: each card holds all
    {"hardware": "h100", "gpus": 3, "model": "llama-3.3-70b"},
    # nor 32 into six; llama-server takes all six
    {"hardware": "rtx3090", "gpus": 6, "model": "qwen3.5-122b-a10b"},
])  # fmt: skip
def test_the_quantisation_that_is_chosen_fits_as_it_is_launched(asked: dict[str, Any]) -> None:
    made = recommend(**asked)
    assert memory.bill(made.facts, made.plan).fits
    assert "quant" in [field for field, _, _ in made.facts.defaults]


def test_no_replica_is_left_without_a_request() -> None:
    """Two KV heads make two replicas of two cards; one request leaves half of them idle."""
    asked = {"hardware": "rtx-pro-6000", "gpus": 4, "model": "qwen3.5-122b-a10b"}
    one, two = (recommend(**asked, concurrency=n).plan for n in (1, 2))
    assert (one.tp, one.dp) == (4, 1) and (two.tp, two.dp) == (2, 2)
    block = recommend(hardware="rtx4090", gpus=8, quant="fp8").plan  # eight would cut FP8 blocks
    assert (block.tp, block.dp) == (4, 2)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_the_parts_of_a_printed_bill_add_up_to_no_more_than_there_is(engine: str) -> None:
    text = advice_text(recommend(hardware="gb10", engine=engine, concurrency=64), explain=True)
    told = dict(re.findall(r"^  (\w[\w ]+?)\s+([\d.]+) GiB$", text, re.M))
    available = float(told.pop("available"))
    assert 0 < sum(map(float, told.values())) <= available + 0.05, told


def test_cards_with_ecc_have_what_their_driver_reports() -> None:
    """46,068 MiB of an L40S: 44.4 GiB to CUDA, and not the 47.8 of "48 GB" (modal-client#2797)."""
    cards = dict.fromkeys(("l40s", "a40", "l20", "rtx-a6000"), 44.5) | {"l4": 22.3}
    for name, gib in cards.items():
        found = device.usable_gib(Facts(hardware=knowledge.hardware(name)))
        assert found == pytest.approx(gib, abs=0.1)


def test_each_kind_of_memory_has_its_usable_share() -> None:
    """Metal gives 3/4, CUDA on a unified chip 93.5 %; a card's driver reports its own."""
    apple = next(
        found
        for found in map(knowledge.hardware, knowledge.hardware_ids())
        if found.vendor == "apple" and found.memory_reported_mib is None and found.memory_gb
    )
    gb10 = knowledge.hardware("gb10").model_copy(update={"memory_reported_mib": None})
    for chip, share in ((apple, 0.75), (gb10, 0.935)):
        found = device.usable_gib(Facts(hardware=chip))
        assert found == pytest.approx(share * chip.memory_gb.value)
    assert device.usable_gib(Facts()) is None


@pytest.mark.parametrize(("requests", "share"), [(1, 1), (4, 2), (5, 3), (None, 1)])
def test_a_replica_has_its_share_of_requests_rounded_up(requests: int | None, share: int) -> None:
    two = memory.replica(Facts(concurrency=requests, gpus=4), plan(tp=2, dp=2))
    assert (two.concurrency, two.gpus) == (share, 2)
    alone = Facts(concurrency=requests, gpus=4)
    assert memory.replica(alone, plan(tp=4)) is alone


@pytest.mark.parametrize(
    ("number", "published"),
    [(device.USABLE_DISCRETE, 140.4 / 141), (device.USABLE_UNIFIED, 119.7 / 128),  # H200, GB10
     (device.USABLE_REPORTED, 79.1 * 1024 / 81_559), (device.USABLE_REPORTED, 44.4 * 1024 / 46_068),
     (prompt_queue.SPREAD, 2 * math.sqrt(math.pi))],
)  # fmt: skip
def test_a_number_is_that_of_its_source(number: float, published: float) -> None:
    assert number == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("mib", "chunk", "graphs", "wide"),
    [(15_360, 2048, 8, 8), (40_960, 4096, 32, 160), (81_559, 8192, 256, 512),
     (143_771, 8192, 256, 512), (183_359, 16_384, 512, 512)],
)  # fmt: skip
def test_sglangs_sizes_by_card(mib: float, chunk: int, graphs: int, wide: int) -> None:
    """Its rule of bounds at 20, 35, 60, 90, 160 GiB, for a T4, A100 40GB, H100, H200 and B200."""
    assert device.card_of(mib)[1:] == (chunk, graphs, wide)
