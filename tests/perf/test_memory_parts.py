"""The parts of a memory bill, each by its own arithmetic."""

import pytest

from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import LLM, Facts, MemoryBill, Plan, Request
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import pools as kv_sizes
from advisor.perf.sizes.weights import GIB, draft_gib, target_gib
from tests.perf.test_memory import facts as facts_of
from tests.tables import fields

HYBRID, DENSE, MOE = "qwen3.6-35b-a3b", "qwen3-14b", "glm-4.5-air"


def facts(hardware: str, quant: str | None, model: str, **known: object) -> Facts:
    found = facts_of(hardware, quant or "fp8", model, **known)
    return found if quant else found.model_copy(update={"quant": None})


def plan(engine: str = "vllm", method: str = "none", k: int = 0, **parts: object) -> Plan:
    return Plan(engine=engine, method=method, k=k, **parts)  # type: ignore[arg-type]


def state_bytes(model: str) -> float:
    return 1e6 * knowledge.shape_of(knowledge.llm(model)).state_mb_per_seq


@pytest.mark.parametrize(
    ("engine", "concurrency", "slots", "running"),
    [
        ("vllm", 4, 8, 4),
        ("vllm", 8, 4, 4),
        ("vllm", None, 3, 3),
        ("vllm", 5, None, 5),
        ("llama-server", 2, 3, 3),  # states of all slots lie there from the start
    ],
)
@pytest.mark.parametrize("k", [0, 2])
def test_each_running_request_keeps_a_state_of_every_draft(
    engine: str, concurrency: int | None, slots: int | None, running: int, k: int
) -> None:
    known = facts("h200", "fp8", HYBRID, concurrency=concurrency, ctx_tokens=2048)
    made = memory.bill(known, plan(engine, "mtp" if k else "none", k, max_num_seqs=slots))
    assert made.state_gib == pytest.approx(state_bytes(HYBRID) * (1 + k) * running / GIB, rel=1e-9)


def test_a_request_that_is_not_described_has_2048_and_512_tokens() -> None:
    assert memory.bill(facts("h200", "fp8", DENSE), plan()).request_tokens == 2_560
    told = facts("h200", "fp8", DENSE, ctx_tokens=100, output_tokens=11)
    assert memory.bill(told, plan()).request_tokens == 111


def test_without_a_known_quantisation_nothing_is_said() -> None:
    made = memory.bill(facts("h200", None, DENSE), plan())
    assert made.fits is None and made.weights_gib == 0 and made.kv_tokens is None
    assert memory.bill(Facts(), plan()) == MemoryBill(weights_gib=0.0, fits=None)
    bare = memory.bill(facts("h200", "fp8", HYBRID).replace(hardware=None), plan("vllm", "mtp", 2))
    assert bare.weights_gib > 30 and bare.fits is None and bare.kv_tokens is None


@pytest.mark.parametrize("tp", [1, 2])
def test_what_one_request_lacks(tp: int) -> None:
    length = 4_000_000
    known = facts("rtx3090", "awq-int4", DENSE, gpus=tp)
    asked = plan(tp=tp, max_model_len=length)
    made = memory.bill(known, asked)
    token = kv_sizes.bytes_per_token(known.shape, None)
    left = made.left_gib
    one = length * token * kv_sizes.copies(known.shape, asked) / GIB / tp
    assert made.fits is False and made.short_gib == pytest.approx(one - left, abs=0.006)


def test_requests_beside_those_that_run_share_with_their_states() -> None:
    """Of what states leave: one more layer's cache with drafts, and a state more a draft token."""
    moe, hybrid = facts("h200", "fp8", MOE), facts("h200", "q8_0", HYBRID)
    for running in (None, 0.0):
        plain, drafted = (
            memory._requests(moe, one, moe.shape, 1e11, 10_000, running)
            for one in (plan("sglang"), plan("sglang", "mtp", 2))
        )
        assert plain / drafted == pytest.approx(1 + 1 / kv_sizes.full_layers(moe.shape), rel=1e-6)
    token = kv_sizes.bytes_per_token(hybrid.shape, None)
    one = 2_048 * token * (1 + 1 / kv_sizes.full_layers(hybrid.shape))
    for k in (1, 3):
        drafts = plan("llama-server", "mtp", k)
        found = memory._requests(hybrid, drafts, hybrid.shape, 4e11, 2_048, 4.0)
        assert found == pytest.approx((4e11 - 4 * (1 + k) * state_bytes(HYBRID)) / one, rel=1e-6)


@pytest.mark.parametrize(
    ("k", "caching"), [(0, True), (1, True), (3, True), (0, False), (3, False)]
)
def test_sglang_keeps_a_share_of_its_pool_for_states(k: int, caching: bool) -> None:
    known = facts("h200", "fp8", HYBRID)
    launch = plan("sglang", "mtp" if k else "none", k).replace(prefix_caching=caching)
    held = memory._requests(known, launch, known.shape, 4e10, 1)
    # without a prefix cache one state a request, and one more for each draft token
    share = memory.SGLANG_STATE_SHARE / (memory.SGLANG_STATES if caching else 1.0)
    states = min(share, 1 / (1 + k)) * 4e10 / state_bytes(HYBRID)
    assert held == pytest.approx(max(states, memory.SGLANG_FEW), rel=1e-3)


def test_a_cache_of_eight_bits_is_half_of_one_of_sixteen() -> None:
    known = facts("h200", "fp8", DENSE, concurrency=2)
    whole, half = (
        memory.bill(known, plan("llama-server", max_model_len=8_192, kv_cache_dtype=kind))
        for kind in ("f16", "q8_0")
    )
    assert half.kv_gib / whole.kv_gib == pytest.approx(8.5 / 16, rel=1e-3)


@pytest.mark.parametrize("slots", [1, 4])
def test_llama_servers_pool_is_what_states_and_windows_leave(slots: int) -> None:
    known = facts("h200", "q8_0", "gemma-4-31b")
    made = memory.bill(known, plan("llama-server", max_num_seqs=slots, max_model_len=8_192))
    left, token = made.left_gib, kv_sizes.bytes_per_token(known.shape, None)
    window = kv_sizes.window_bytes(known.shape, None, 8_192)
    assert left is not None and token is not None and window > 0
    assert made.kv_tokens == int((left * GIB - slots * window) / token)
    assert made.kv_gib == pytest.approx(slots * (8_192 * token + window) / GIB, rel=1e-9)


@pytest.mark.parametrize("hardware", ["h200", "rtx3090"])
@pytest.mark.parametrize("engine", ["vllm", "llama-server"])
def test_where_no_cache_is_known_only_the_weights_are_judged(hardware: str, engine: str) -> None:
    known = facts(hardware, "bf16", DENSE)
    blind = known.model_copy(
        update={"shape": known.shape.model_copy(update={"kv_elems_per_token": None})}
    )
    made = memory.bill(blind, plan(engine))
    left = made.left_gib
    assert left is not None and (left > 1) == (hardware == "h200")
    assert made.fits is (None if hardware == "h200" else False) and made.kv_tokens is None


def test_prefix_caching_keeps_one_more_state_of_each_group() -> None:
    """35B-A3B: 249 pages of 1,056 tokens hold 262,144, and 3 groups of 10 layers a state each."""
    known, whole = facts("h200", "fp8", HYBRID), {"max_model_len": 262_144}
    pools = [
        memory.bill(known, plan(engine_version="0.25.1", prefix_caching=on, **whole)).kv_tokens
        for on in (None, False, True)
    ]
    assert pools[0] == pools[1]
    assert pools[2] / pools[0] == pytest.approx((249 + 3) / (249 + 6), rel=1e-6)
    off, on = (memory.room(known, plan(prefix_caching=on), 2_048) for on in (False, True))
    assert on < off


def test_vllm_reported_whole_groups_up_to_0_19() -> None:
    known, share = facts("gb10", "fp8", HYBRID), {"memory_fraction": 0.8}
    releases = [plan(engine_version=release, **share) for release in ("0.19.1", "0.25.1")]
    old, new = (
        memory.bill(known, one.model_copy(update={"max_model_len": 32_768})).kv_tokens
        for one in releases
    )
    assert old < new
    rooms = {memory.room(known, one, 32_768) for one in releases}
    assert len(rooms) == 1  # the report changed, not the memory


def test_windows_are_copied_where_ranks_exceed_their_heads() -> None:
    known = facts("h200", "fp8", "gemma-4-31b", gpus=8)
    few = known.shape.model_copy(update={"swa_kv_heads": 4, "kv_heads": 8})
    made = memory.bill(known.model_copy(update={"shape": few}), plan(tp=8, max_model_len=8_192))
    left, token = made.left_gib, kv_sizes.bytes_per_token(few, None)
    window = kv_sizes.window_bytes(few, None, 8_192)
    expected = left * 8 * GIB / (8_192 * token + 2 * window) * 8_192
    assert made.kv_tokens == pytest.approx(expected, rel=1e-6)


def test_states_take_no_more_than_is_left_where_they_are_paged() -> None:
    tight = facts("rtx3090", "fp8", HYBRID, concurrency=64)
    paged = memory.bill(tight, plan(max_num_seqs=64))
    left = paged.left_gib
    assert left is not None and left < 0 and paged.state_gib == 0.0
    fixed = memory.bill(tight, plan("llama-server", max_num_seqs=64))
    assert fixed.state_gib == pytest.approx(64 * state_bytes(HYBRID) / GIB, rel=1e-9)


def test_a_shortage_of_less_than_a_gibibyte_is_told() -> None:
    known = facts("h200", "fp8", DENSE)
    made = memory.bill(known, plan(max_model_len=8_192))
    token = kv_sizes.bytes_per_token(known.shape, None)  # type: ignore[arg-type]
    left = made.left_gib
    short = memory.bill(known, plan(max_model_len=int((left + 0.5) * GIB / token)))
    assert short.fits is False and short.short_gib == pytest.approx(0.5, abs=0.006)
    exact = memory.bill(known, plan(max_model_len=int(left * GIB / token)))
    assert exact.fits is True and exact.short_gib is None


@pytest.mark.parametrize(
    ("engine", "tp", "pp", "gpus", "count"),
    [
        ("vllm", 2, 2, 8, 4),
        ("sglang", 1, 3, 8, 3),
        ("vllm", 4, 1, 4, 4),
        ("llama-server", 1, 1, 3, 3),
    ],
)
def test_the_devices_of_a_replica(engine: str, tp: int, pp: int, gpus: int, count: int) -> None:
    known = facts("h200", "fp8", DENSE, gpus=gpus)
    assert memory.replica_gpus(known, plan(engine, tp=tp, pp=pp)) == count


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        ((("--n-cpu-moe", "11"),), 10),  # its first layer has no experts
        ((("--n-cpu-moe", "1"),), 0),
        ((("--n-cpu-moe", "999"),), 45),
        ((("--cpu-moe", None),), 45),
        ((("--override-tensor", r"\.ffn_.*_exps\.=CPU"),), 45),
        ((("--override-tensor", r"\.ffn_(up|down|gate)_exps\.weight=CPU"),), 45),
        ((("--override-tensor", r"blk\.(1[0-9])\.=CPU"),), 10),
        ((("--override-tensor", "_exps=CUDA0"), ("--cpu-moe", None)), 0),  # the first decides
        ((("--n-cpu-moe", "many"),), 0),
    ],
)
def test_moved_experts_leave_the_bill(
    options: tuple[tuple[str, str | None], ...], layers: float
) -> None:
    known = facts("rtx4090", "q4_k_m", MOE)
    shape = known.shape
    assert shape is not None and shape.moe_layers == 45 and shape.layers == 46
    whole = memory.bill(known, plan("llama-server", max_num_seqs=1))
    made = memory.bill(known, plan("llama-server", max_num_seqs=1, extra=options))
    assert known.quant is not None and shape.experts and shape.expert_params_m
    one = shape.experts * shape.expert_params_m * 1e6 * known.quant.bytes_ffn / GIB
    assert whole.weights_gib - made.weights_gib == pytest.approx(layers * one, rel=1e-6)
    vllm = memory.bill(known, plan("vllm", extra=options))
    assert vllm.weights_gib == memory.bill(known, plan("vllm")).weights_gib


@pytest.mark.parametrize(
    ("method", "engine", "shape", "drafter", "gb", "within"),
    [
        ("mtp", "vllm", "mtp_params_b=0.8", "", 0.8 * 2, 1e-9),
        ("mtp", "vllm", "mtp_params_b=0.8 assistant_params_b=0.4", "", 0.4 * 2, 1e-9),
        ("eagle", "vllm", "hidden=4096", "", 17 * 4096**2 * 2e-9, 1e-9),
        ("eagle3", "vllm", "hidden=4096", "", (17 * 4096**2 + 32_000 * 4096) * 2e-9, 1e-9),
        ("eagle3", "vllm", "experts=8", "", (17 * 4096**2 + 32_000 * 4096) * 2e-9, 1e-9),
        # as published: Llama-3.1-8B-Instruct-DFlash, Kimi-K2.5-DFlash (a wide mixture), gpt-oss-20b
        ("dflash", "vllm", "hidden=4096", "", 2.09, 0.05),
        ("dflash", "vllm", "hidden=7168 experts=384", "", 6.96, 0.15),
        ("dflash", "vllm", "hidden=2880 experts=32", "", 1.57, 0.05),
        ("dflash", "vllm", "hidden=3072 experts=32", "", 5 * 12 * 3072**2 * 2e-9, 1e-9),
        ("dspark", "vllm", "hidden=2880 experts=32", "", 5 * 12 * 2880**2 * 2e-9, 1e-9),
        ("draft_model", "vllm", "hidden=4096", "Qwen/Qwen3-0.6B", 0.6 * 2, 1e-9),
        ("draft_model", "llama-server", "hidden=4096", "Qwen/Qwen3-0.6B", 0.6 * 0.5, 1e-9),
        ("draft_model", "vllm", "hidden=4096", "a/small", 1 * 2, 1e-9),
        ("ngram", "vllm", "hidden=4096", "", 0, 1e-9),
    ],
)
def test_what_a_drafter_adds(
    method: str, engine: str, shape: str, drafter: str, gb: float, within: float
) -> None:
    """Two bytes a weight of the model's own head and of drafters, which stay wide beside a server;
    an EAGLE layer is 17 squared widths, a block drafter's 12, five of them or eight.
    """
    model = LLM(id="m", source="test", **fields(shape))
    quant = knowledge.quant("q8_0").replace(bytes_ffn=0.5, bytes_mtp=2.0)
    made = draft_gib(model, quant, plan(engine, method, 2, draft_model=drafter or None))
    assert made * 2**30 / 1e9 == pytest.approx(gb, rel=within)


@pytest.mark.parametrize(
    ("model", "quant", "engine", "gb"),
    [("kimi-k2.5", "int4", "vllm", 594), ("gpt-oss-120b", "mxfp4", "llama-server", 63.4)],
)
def test_a_checkpoint_has_its_own_size(model: str, quant: str, engine: str, gb: float) -> None:
    known = facts("b200", quant, model)
    assert target_gib(known, plan(engine), known.shape, known.quant) == gb * 1e9 / 2**30
    other = target_gib(
        known, plan("sglang" if gb < 100 else "llama-server"), known.shape, known.quant
    )
    assert other == pytest.approx(gb * 1e9 / 2**30, rel=0.1) and other != gb * 1e9 / 2**30


@pytest.mark.parametrize(("sees", "gib"), [(True, memory.VISION_GIB), (False, 0.0)])
def test_a_model_that_sees_pays_for_its_encoder(sees: bool, gib: float) -> None:
    asked = facts_for_request(Request(hardware="h100", model="qwen3.6-35b-a3b", engine="vllm"))

    def weights(multimodal: bool) -> float:
        model = asked.model.model_copy(update={"multimodal": multimodal})
        facts = asked.model_copy(update={"model": model})
        return memory.bill(facts, Plan(engine="vllm")).weights_gib

    assert weights(sees) - weights(False) == pytest.approx(gib) and memory.VISION_GIB > 0
