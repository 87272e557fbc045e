"""Each part of a step and of drafting by its own arithmetic: all other constants at nothing."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from advisor.perf import arrays as P
from advisor.perf import drafting, imputation, links, load, physics, prompt_cost, rates, reads
from advisor.perf.constants import PROVENANCE, Constants, by_path
from advisor.perf.encoding import encode_rows
from advisor.prediction.artefact import load as load_model
from tests.perf.rows import DENSE
from tests.tables import fields

Floats = npt.NDArray[np.float64]
C = Constants()
SPEEDS = load_model().speeds
HYBRID = {"model": "qwen3.6-27b"}
MIXTURE = {"model": "qwen3.6-35b-a3b"}
LLAMA = fields("engine=llama-server engine_version=b10000 quant=q4_k_m hardware=rtx3090")
METAL = LLAMA | {"hardware": "apple-m1-max"}


def point(*changes: dict[str, str]) -> P.Points:
    row = DENSE
    for change in changes:
        row = row | change
    made, errors = encode_rows.from_rows([row])
    assert errors == [None]
    return imputation.impute(made)


def constants(**given: float) -> Constants:
    """Full speed, no time for anything but bytes, and what is given, on every path."""
    values: dict[str, float] = {}
    for name in PROVENANCE:
        if name.endswith("_s"):
            values[name] = 0.0
        elif name.startswith(("mfu", "mmvq")):
            values[name] = 1e15  # operations are free
        elif name.startswith(("eta", "expert_bw")):
            values[name] = 1.0
    values |= {"sampler_passes": 0.0, "hbm_read": 1.0, "wide_launch": 1.0} | given
    wide = {name for name in values if isinstance(getattr(C, name), tuple)}
    return C.replace(**{k: (v,) * len(P.PATHS) if k in wide else v for k, v in values.items()})


def step(p: P.Points, c: Constants, tokens: float = 1.0, spec: bool = False) -> physics.StepTerms:
    return physics.step_seconds(p, c, p.concurrency, np.full(1, tokens), spec, p.input_tokens)


def drafting_seconds(p: P.Points, c: Constants) -> float:
    return float(physics.draft_seconds(p, c, p.concurrency, p.input_tokens)[0])


def slower(p: P.Points, **given: float) -> float:
    """Seconds of drafting that these constants add."""
    return drafting_seconds(p, constants(**given)) - drafting_seconds(p, constants())


def kv_of_a_layer(p: P.Points) -> Floats:
    """Bytes that one layer's cache of all requests has."""
    return p.concurrency * p.input_tokens * p.kv_elems / p.global_layers * p.kv_bytes


@pytest.mark.parametrize(
    ("change", "constant", "tokens", "spec", "times"),
    [
        ({}, "layer_launch_s", 1, False, "layers"),
        ({}, "moe_layer_launch_s", 1, False, 0),  # a dense model has none
        (MIXTURE, "moe_layer_launch_s", 1, False, "layers"),
        ({}, "verify_layer_s", 3, False, "layers"),
        ({"concurrency": "1"}, "verify_layer_s", 1, False, 0),  # one token is no batch
        ({"concurrency": "2"}, "verify_layer_s", 1, False, "layers"),
        ({}, "host_s", 3, True, 1),
        ({}, "host_seq_s", 3, True, 4),  # requests
        ({}, "spec_step_s", 3, True, 1),
        ({}, "spec_step_s", 3, False, 0),
        ({}, "spec_seq_s", 3, True, 4),
        ({}, "spec_seq_s", 3, False, 0),
    ],
)
def test_what_a_launch_or_the_host_costs_is_paid_so_often(
    change: dict[str, str], constant: str, tokens: float, spec: bool, times: Any
) -> None:
    p = point(change)
    made = step(p, constants(**{constant: 1.0}), tokens, spec)
    expected = p.layers[0] if times == "layers" else times
    assert float((made.launch + made.host)[0]) == pytest.approx(expected)


@pytest.mark.parametrize(("lost", "spec"), [(1.0, True), (0.0, True), (1.0, False)])
def test_lost_graphs_cost_launches_of_layers_in_verify_steps_only(lost: float, spec: bool) -> None:
    p = point().replace(piecewise=lost)
    made = step(p, constants(piecewise_layer_s=2.0), 4, spec)
    assert made.launch[0] == pytest.approx(2.0 * p.layers[0] * lost * spec)


@pytest.mark.parametrize(
    ("change", "cached", "spec", "paid"),
    [
        (HYBRID, 1.0, True, True),
        (HYBRID, 1.0, False, False),
        (HYBRID, 0.0, True, False),
        ({}, 1.0, True, False),  # no recurrent state
        (HYBRID | {"engine": "sglang", "engine_version": "0.5.12"}, 1.0, True, False),
        (HYBRID | {"hardware": "mi300x"}, 1.0, True, True),
    ],
)
def test_states_are_copied_where_vllm_caches_prefixes_of_a_hybrid(
    change: dict[str, str], cached: float, spec: bool, paid: bool
) -> None:
    p = point(change).replace(prefix_caching=cached)
    assert step(p, constants(prefix_verify_s=1.0), 3, spec).host[0] == pytest.approx(float(paid))


@pytest.mark.parametrize("tokens", [1.0, 3.0])
def test_the_sampler_reads_float32_logits_of_every_token(tokens: float) -> None:
    p = point()
    vocabulary = p.lm_head_params / p.hidden
    logits = 4 * vocabulary * 4 * tokens  # float32, four requests
    seconds = step(p, constants(sampler_passes=6.0), tokens).sampler
    assert seconds[0] == pytest.approx(6 * logits[0] / p.bw[0])


@pytest.mark.parametrize(
    ("reads", "tokens", "spec"), [(1.0, 4.0, True), (5.0, 4.0, True), (1, 4, 0)]
)
def test_a_verify_step_writes_a_state_a_token(reads: float, tokens: float, spec: bool) -> None:
    """On an H200 its kernels move 3.4 TB/s with drafts and 4.0 without, weights 4.3."""
    writes = 1 + reads * (tokens - 1) if spec else 1
    for card, longer in (("a100-80gb", 1.0), ("h200", 1.28 if spec else 1.07)):
        p = point(HYBRID, {"hardware": card})
        seconds = step(p, constants(state_reads=reads), tokens, spec).state
        assert seconds[0] == pytest.approx(4 * p.state_bytes[0] * (1 + writes) * longer / p.bw[0])


@pytest.mark.parametrize(
    ("change", "latency"),
    [
        ({"hardware": "mi300x", "interconnect": "nvlink"}, 1.0),
        ({"hardware": "mi300x", "interconnect": "pcie"}, 10.0),
        ({"hardware": "mi300x", "interconnect": "roce"}, 100.0),
        ({"interconnect": "ethernet"}, 100.0),
        ({"interconnect": "nvlink", "gpu_count": "16"}, 100.0),  # two nodes
        ({"interconnect": "nvlink", "gpu_count": "1"}, 0.0),
    ],
)
def test_two_all_reduces_of_a_layer_without_table(change: dict[str, str], latency: float) -> None:
    p = point({"gpu_count": "2"}, change)
    c = constants(allreduce_s=1.0, allreduce_pcie_s=10.0, allreduce_net_s=100.0)
    seconds = links.link_seconds(p.replace(link_bw=1e30), c, np.ones(1), p.layers)
    assert seconds[0] == pytest.approx(2 * p.layers[0] * latency)


@pytest.mark.parametrize("tokens", [1.0, 8.0])
def test_activations_cross_the_link_twice_in_sixteen_bit(tokens: float) -> None:
    p = point({"gpu_count": "2", "interconnect": "nvlink", "hardware": "mi300x"})
    seconds = links.link_seconds(p, constants(), np.full(1, tokens), np.full(1, 10.0))
    one = 2 * tokens * 2 * p.hidden[0] / p.link_bw[0]
    assert seconds[0] == pytest.approx(2 * 10 * one)


def few(p: P.Points, c: Constants, tokens: float, distinct: float = 8.0) -> tuple[float, float]:
    dense, routed = physics.weight_seconds(p, c, np.full(1, tokens), np.full(1, distinct))
    return float(dense[0]), float(routed[0])


@pytest.mark.parametrize("change", [{}, MIXTURE])
def test_up_to_eight_tokens_each_is_computed_by_itself(change: dict[str, str]) -> None:
    p = point(LLAMA, change)
    mixer, ffn, routed = rates.params(p)
    rate = rates.small_batch_rate(p, C)[0]
    ops = 2 * float((mixer + ffn + p.lm_head_params)[0])
    first = few(p, C, 1)
    for tokens in (2, 3, 8):
        dense, mixture = few(p, C, tokens)
        assert dense - first[0] == pytest.approx((tokens - 1) * ops / rate)
        each = rates.at(C.unpack_tokens, p)[0] * 2 * float(routed[0]) / rate
        assert mixture == pytest.approx(max(first[1], tokens * each))


@pytest.mark.parametrize("change", [{}, MIXTURE])
def test_from_nine_tokens_on_the_tiled_kernel_computes(change: dict[str, str]) -> None:
    p = point(LLAMA, change)
    mixer, ffn, routed = rates.params(p)
    tiled = rates.prompt_rate(p)[0]
    ops = 2 * float((mixer + ffn + p.lm_head_params)[0])
    read = few(p, C.replace(unpack_tokens=by_path(0.0)), 1)
    rate = rates.small_batch_rate(p, C)[0]
    unpacking = rates.unpack_tokens(p, C)[0] / rate

    def tiles(read: float, overhead: float, work: float) -> float:
        return max(read, overhead * work * unpacking) if unpacking else overhead * read

    for tokens in (9, 20):
        dense, mixture = few(p, C, tokens)
        first = tiles(read[0], rates.tile_overhead(p, C)[0], ops)
        assert dense == pytest.approx(first + tokens * ops / tiled)
        more = tokens * 2 * float(routed[0]) / rate  # tiles that few tokens fill gain nothing
        more += p.moe_layers[0] * rates.at(C.mmq_moe_layer_s, p)[0]
        first = tiles(read[1], rates.at(C.mmq_moe, p)[0], 2 * float(routed[0]))
        assert mixture == pytest.approx(first + more)


@pytest.mark.parametrize(
    ("model", "card", "quant", "tokens", "measured", "within"),
    [
        # the dense part of 35.43 ms
        ("qwen3.6-27b", "3090", "q4_k_m", 9, 35.4e-3, 0.25),
        # 8.1 and 10.4 ms (llama-bench, docs/research/served.md), less 1 ms of launches
        ("llama-3.1-8b", "h100", "q4_k_m", 9, 7.1e-3, 0.25),
        ("llama-3.1-8b", "h100", "q4_k_m", 32, 9.4e-3, 0.25),
        # bound by unpacking: 16.3 ms a plain step, 31 ms at nine, sampling and launches beside
        ("qwen3.6-27b", "h100", "q8_0", 1, 14.3e-3, 0.1),
        ("qwen3.6-27b", "h100", "q8_0", 9, 28e-3, 0.2),
    ],
)
def test_dense_weights_cost_what_was_measured(
    model: str, card: str, quant: str, tokens: int, measured: float, within: float
) -> None:
    """Tiles take half a step more at nine tokens, then little each, as in prompts."""
    p = point(LLAMA, {"model": model, "hardware": card, "quant": quant})
    assert few(p, C, tokens)[0] == pytest.approx(measured, rel=within)


def test_a_ninth_token_costs_a_mixture_its_graph_and_sorting() -> None:
    """35B-A3B Q4_K, H100: 4.3 ms between 8 and 9 sequences beyond what one costs."""
    p = point(LLAMA, MIXTURE, {"hardware": "h100"})
    unsorted = C.replace(mmq_moe_layer_s=by_path(0.0))
    assert few(p, C, 9)[1] - few(p, unsorted, 9)[1] == pytest.approx(4.3e-3, rel=0.02)
    assert few(p, C, 8) == few(p, unsorted, 8)


def test_a_further_sequence_of_a_dense_model_costs_more_than_its_token() -> None:
    """Llama 3.1 8B, H100: 0.6 ms a sequence, 0.13 its token's; a mixture's is its state."""
    free = C.replace(dense_seq_s=by_path(0.0))

    def more(change: dict[str, str], batch: float) -> float:
        p = point(LLAMA, change, {"hardware": "h100"})
        args = (np.full(1, batch), np.ones(1), False, np.full(1, 128.0))
        with_it, without = (physics.step_seconds(p, c, *args).total[0] for c in (C, free))
        return float(with_it - without)

    dense = {"model": "llama-3.1-8b"}
    assert more(dense, 1) == 0.0
    assert more(dense, 32) - more(dense, 16) == pytest.approx(16 * 0.48e-3, rel=0.05)
    assert more(MIXTURE, 32) == 0.0


@pytest.mark.parametrize("card", ["h100", "h200"])
def test_unpacking_not_reading_bounds_the_vector_kernel_on_hopper(card: str) -> None:
    """27B Q4_K, one slot: 1.45 TB/s on both cards (docs/research/served.md)."""
    p = point(LLAMA, {"model": "qwen3.6-27b", "hardware": card})
    dense, _ = few(p, C, 1)
    assert dense == pytest.approx(11.5e-3, rel=0.1)
    assert few(p, C.replace(unpack_tokens=by_path(0.0)), 1)[0] < 0.6 * dense


def test_llamacpp_samples_each_verified_token_and_draft_on_the_host() -> None:
    """0.72 ms a sampled token and 0.29 ms a draft on an H200's host, 248,320 entries."""
    p = point(LLAMA, MIXTURE, {"hardware": "h200"})
    silent = C.replace(sample_s=by_path(0.0))

    def host(batch: float, tokens: float, spec: bool) -> float:
        args = (np.full(1, batch), np.full(1, tokens), spec, np.full(1, 2048.0))
        with_it, without = (physics.step_seconds(p, c, *args).host[0] for c in (C, silent))
        return float(with_it - without)

    one = host(1, 1, False)
    assert one == pytest.approx(0.72e-3, rel=0.1) and host(16, 1, False) == pytest.approx(16 * one)
    assert host(1, 2, True) == pytest.approx((1 + 0.7 + 0.4) * one)
    vllm = point(MIXTURE, {"hardware": "h200"})
    assert physics.step_seconds(
        vllm, C, np.ones(1), np.ones(1), False, np.full(1, 2048.0)
    ) == physics.step_seconds(vllm, silent, np.ones(1), np.ones(1), False, np.full(1, 2048.0))


def test_beyond_a_tuned_switch_point_only_tiled_operations_are_added() -> None:
    """Q4_K on Ada since b10530: eight tokens; Q2_K: four."""
    ada = LLAMA | {"hardware": "rtx4090", "engine_version": "b10600"}
    p = point(ada).replace(quant_bits=2.6)
    mixer, ffn, _ = rates.params(p)
    tiled = rates.prompt_rate(p)[0]
    ops = 2 * float((mixer + ffn + p.lm_head_params)[0])
    at_the_switch = few(p, C, 4)[0]
    for tokens in (5, 12):
        assert few(p, C, tokens)[0] - at_the_switch == pytest.approx((tokens - 4) * ops / tiled)
    assert few(point(ada), C, 8)[0] > at_the_switch  # untuned sizes go on by vectors


@pytest.mark.parametrize(
    ("hardware", "tokens", "factor"),
    [
        ("apple-m1-max", 2, 3.0), ("apple-m1-max", 3, 3.0), ("apple-m1-max", 4, 1.0),
        ("apple-m1-max", 8, 1.0), ("apple-m4", 3, 3.0), ("apple-m4", 4, 7.0), ("apple-m4", 8, 7.0),
    ],
)  # fmt: skip
def test_metal_reads_k_quants_anew_a_few_times(hardware: str, tokens: int, factor: float) -> None:
    p = point(METAL, {"hardware": hardware})
    c = C.replace(metal_repeat=3.0, metal_apple9=7.0)
    mixer, ffn, _ = rates.params(p)
    ops = 2 * float((mixer + ffn + p.lm_head_params)[0])
    more = few(p, c, tokens)[0] - few(p, c, 1)[0]
    assert more == pytest.approx((tokens - 1) * factor * ops / rates.small_batch_rate(p, c)[0])


@pytest.mark.parametrize(("tokens", "read"), [(1, 8), (3, 24), (8, 64)])
def test_few_tokens_read_their_experts_one_by_one(tokens: int, read: int) -> None:
    p = point(LLAMA, MIXTURE, {"concurrency": "1"})
    assert step(p, C, tokens).distinct_experts[0] == pytest.approx(read)
    tiny = step(p.replace(experts=20.0), C, tokens).distinct_experts[0]
    assert tiny == pytest.approx(min(read, 20))


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_a_scale_acts_on_what_verifying_adds(scale: float) -> None:
    p = point(LLAMA, HYBRID)
    plain = step(p, C).total
    verify = step(p, C, float(p.verify_tokens[0]), True).total
    draft = physics.draft_seconds(p, C, p.concurrency, p.input_tokens)
    c = C.replace(verify_scale=(scale,) * len(P.PATHS))
    cycle = physics.decode_seconds(p, c, p.concurrency, p.input_tokens, True)
    assert cycle[0] == pytest.approx(float((plain + scale * (verify - plain) + draft)[0]))
    alone = physics.decode_seconds(p, c, p.concurrency, p.input_tokens, False)
    assert alone[0] == pytest.approx(float(plain[0]))


def test_a_cache_that_is_walked_takes_the_place_of_shorter_attention() -> None:
    p = point({"hardware": "rtx4090", "k": "2"}).replace(kv_bytes=2.0)
    c = constants(verify_serial_s=1e-3)
    terms = step(p, c, float(p.verify_tokens[0]), True)
    walk = 2048 * p.global_layers[0] * 1e-3
    rest = (
        terms.total - terms.attention + physics.draft_seconds(p, c, p.concurrency, p.input_tokens)
    )
    cycle = physics.decode_seconds(p, c, p.concurrency, p.input_tokens, True)
    assert walk > terms.attention[0] and cycle[0] == pytest.approx(walk + float(rest[0]))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_an_mtp_layer_its_head_and_its_cache_are_read_every_pass(k: int) -> None:
    p = point(HYBRID, {"k": str(k)})
    each = p.mtp_params * p.bytes_mtp + p.draft_head_params * p.bytes_mtp_lm_head + kv_of_a_layer(p)
    assert drafting_seconds(p, constants()) == pytest.approx(k * float((each / p.bw)[0]))


@pytest.mark.parametrize("k", [1, 3])
def test_an_mtp_layer_of_experts_reads_those_that_its_tokens_reach(k: int) -> None:
    p, c = point(MIXTURE, {"k": str(k)}), constants()
    mixture = float(np.fmin(p.experts * p.expert_params, 0.95 * p.mtp_params)[0])
    core = float(p.mtp_params[0]) - mixture
    assert 0 < core < mixture
    many = reads.reached_experts(p, c, p.concurrency, np.full(1, k + 1.0)) / p.experts
    one = reads.reached_experts(p, c, p.concurrency, np.ones(1)) / p.experts
    block = (k * core + mixture * float(many[0] + (k - 1) * one[0])) * p.bytes_mtp
    passes = k * (p.draft_head_params * p.bytes_mtp_lm_head + kv_of_a_layer(p))
    assert drafting_seconds(p, c) == pytest.approx(float(((block + passes) / p.bw)[0]))


@pytest.mark.parametrize("method", ["eagle", "eagle3"])
@pytest.mark.parametrize("k", [1, 4])
def test_an_eagle_head_is_one_layer_and_a_vocabulary(method: str, k: int) -> None:
    p = point({"spec_method": method, "k": str(k)})
    h, head = float(p.hidden[0]), float(p.lm_head_params[0])
    head = min(head, 32_000 * h) if method == "eagle3" else head
    each = (17 * h * h + head) * 2 + kv_of_a_layer(p)[0]
    assert drafting_seconds(p, constants()) == pytest.approx(k * each / p.bw[0])


@pytest.mark.parametrize(("change", "bytes_each"), [({}, 2.0), (LLAMA, 4.85 / 8)])
def test_a_draft_model_is_read_whole_every_pass(change: dict[str, str], bytes_each: float) -> None:
    p = point(change, {"spec_method": "draft_model", "k": "4"})
    p = p.replace(quant_bits=4.85, draft_params=0.6e9)
    assert drafting_seconds(p, constants()) == pytest.approx(4 * 0.6e9 * bytes_each / p.bw[0])


def test_a_block_drafter_is_read_once_and_each_layer_has_a_cache() -> None:
    p, layers = point({"spec_method": "dflash", "k": "7"}), C.dflash_layers
    h = float(p.hidden[0])
    weights = layers * 12 * h * h * 2 + float((p.lm_head_params * p.bytes_mtp_lm_head)[0])
    each = weights + layers * float(kv_of_a_layer(p)[0])
    assert drafting_seconds(p, constants()) == pytest.approx(each / p.bw[0])
    markov = p.replace(method=P.METHODS.index("dspark"))
    assert drafting_seconds(markov, constants(dspark_token_s=1.0)) == pytest.approx(
        7 + each / p.bw[0]
    )


def test_a_walked_cache_takes_the_place_of_a_read_one_in_a_block_drafter() -> None:
    p = point({"spec_method": "dflash", "hardware": "rtx4090"}).replace(kv_bytes=2.0)
    one = 2048 * 1e-3 - float((kv_of_a_layer(p) / p.bw)[0])
    assert slower(p, verify_serial_s=1e-3) == pytest.approx(C.dflash_layers * one)


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        (MIXTURE | {"engine": "vllm"}, 8),  # of width 2,048
        (MIXTURE | {"engine": "sglang"}, 8),
        ({"model": "gpt-oss-120b"}, 8),  # 2,880
        ({"model": "kimi-k2.5"}, 5),  # a wide mixture
        ({"model": "qwen3-8b"}, 5),
        (MIXTURE | {"spec_method": "dspark"}, 5),
        (MIXTURE | LLAMA, 7),  # fitted
    ],
)
def test_a_block_drafter_has_its_published_layers(change: dict[str, str], layers: int) -> None:
    p = point({"spec_method": "dflash"}, change)
    slow, free = (constants(layer_launch_s=s, dflash_layers=7.0) for s in (1.0, 0.0))
    assert drafting_seconds(p, slow) - drafting_seconds(p, free) == pytest.approx(layers)


@pytest.mark.parametrize(
    ("method", "constant", "times"),
    [
        ("mtp", "draft_pass_s", 3), ("eagle", "draft_pass_s", 3), ("eagle3", "draft_pass_s", 3),
        ("draft_model", "draft_pass_s", 0), ("dflash", "draft_pass_s", 1),
        ("ngram", "draft_pass_s", 0), ("none", "draft_pass_s", 0), ("mtp", "layer_launch_s", 3),
        ("eagle3", "layer_launch_s", 3), ("draft_model", "layer_launch_s", 0),
        ("dflash", "layer_launch_s", 5), ("draft_model", "host_s", 3), ("mtp", "host_s", 0),
        ("draft_model", "draft_layer_s", 3 * 24.4),  # 0.6B: 22 + 4 x 0.6 layers
        ("ngram", "ngram_host_s", 1), ("mtp", "ngram_host_s", 0),
    ],
)  # fmt: skip
def test_what_a_pass_costs_beside_its_bytes(method: str, constant: str, times: float) -> None:
    p = point({"spec_method": method}).replace(draft_params=0.6e9, k=3.0)
    assert slower(p, **{constant: 1.0}) == pytest.approx(times)


@pytest.mark.parametrize(("method", "times"), [("mtp", 3), ("eagle3", 3), ("dflash", 8)])
def test_a_layer_of_experts_launches_more(method: str, times: int) -> None:
    for change, expected in ((MIXTURE, times), ({}, 0)):
        p = point(change, {"spec_method": method})
        assert slower(p, moe_layer_launch_s=1.0) == pytest.approx(expected)


@pytest.mark.parametrize(("method", "launches"), [("eagle3", 3), ("dflash", 5)])
def test_without_graphs_the_host_launches_layers_of_a_drafter(method: str, launches: int) -> None:
    p = point({"spec_method": method}).replace(k=3.0, eager=1.0)
    assert slower(p, eager_layer_s=2.0) == pytest.approx(2 * launches)
    assert slower(p.replace(eager=0.0), eager_layer_s=2.0) == 0


@pytest.mark.parametrize(("billions", "layers"), [(0.5, 24), (1.5, 28), (8.0, 36), (70.0, 36)])
def test_larger_draft_models_have_more_layers_up_to_a_bound(billions: float, layers: int) -> None:
    p = point({"spec_method": "draft_model", "k": "1"}).replace(draft_params=billions * 1e9)
    assert slower(p, draft_layer_s=1.0) == pytest.approx(layers)
    by_host = slower(p.replace(eager=1.0), draft_layer_s=1.0, eager_layer_s=3.0)
    assert by_host == pytest.approx(3 * layers)


def test_ngram_looks_up_every_request_and_none_drafts_nothing() -> None:
    p = point({"spec_method": "ngram"})
    assert drafting_seconds(p, constants()) == pytest.approx(4 * 10e-6)
    assert drafting_seconds(p.replace(method=P.METHODS.index("none")), C) == 0.0


@pytest.mark.parametrize(
    ("stated", "share"),
    [
        ({}, drafting.LOOKUPS_FOUND),
        ({"acceptance_length": "2.4", "k": "2"}, 1.0),
        ({"acceptance_length": "1.28", "k": "2"}, 0.2),
        ({"acceptance_rate": "0.35", "k": "2"}, 0.5),
        ({"acceptance_length": "1.0", "k": "2"}, 0.0),
    ],
)
def test_a_lookup_copies_states_of_slots_that_draft(stated: dict[str, str], share: float) -> None:
    copies = constants(lookup_copy_layer_s=1.0)
    p = point(LLAMA, HYBRID, {"spec_method": "ngram"} | stated)
    assert drafting_seconds(p, copies) == pytest.approx(4 * 48 * share + 4 * 10e-6, rel=1e-6)
    for other in (LLAMA | stated, HYBRID):  # a dense model, and vLLM
        p = point(other, {"spec_method": "ngram"})
        assert drafting_seconds(p, copies) == pytest.approx(4 * 10e-6)


@pytest.mark.parametrize(
    ("card", "engine", "factor"),
    [("h100-sxm", "vllm", 1.12), ("h200", "sglang", 1.12), ("a100-80gb", "vllm", 1.0)],
)
def test_hopper_reads_nearer_to_its_bandwidth(card: str, engine: str, factor: float) -> None:
    p = point({"hardware": card, "engine": engine})
    read = rates.read_rate(p, constants(eta_bw=0.5, hbm_read=1.12))
    assert read == pytest.approx(p.bw * p.tp * 0.5 * factor)
    most = rates.read_rate(p, constants(eta_bw=0.95, hbm_read=1.12))
    assert most <= 0.98 * p.bw * p.tp, "never faster than the memory"


def test_layers_of_16_bits_launch_less() -> None:
    c = constants(layer_launch_s=1.0, wide_launch=0.4)
    wide, narrow = (point({"quant": quant}) for quant in ("bf16", "fp8"))
    assert rates.layer_launch(wide, c) == pytest.approx(0.4)
    assert rates.layer_launch(narrow, c) == pytest.approx(1.0)
    assert rates.layer_launch(point(LLAMA, {"quant": "bf16"}), c) == pytest.approx(1.0)


def operations(p: P.Points) -> dict[str, float]:
    """Multiplications and additions of one cycle, by method."""
    b, k, h = float(p.concurrency[0]), float(p.k[0]), float(p.hidden[0])
    head, lm = float(p.draft_head_params[0]), float(p.lm_head_params[0])
    core, draft = float(p.mtp_params[0]), float(p.draft_params[0])
    block = C.dflash_layers * 12 * h * h + lm
    return {
        "mtp": 2 * b * (core * (k + 1 + k - 1) + k * head),
        "eagle": 2 * b * k * (17 * h * h + lm),
        "eagle3": 2 * b * k * (17 * h * h + 32_000 * h),
        "draft_model": 2 * b * k * draft,
        "dflash": 2 * b * (k + 1) * block,
    }


@pytest.mark.parametrize("method", ["mtp", "eagle", "eagle3", "draft_model", "dflash"])
@pytest.mark.parametrize(("gpus", "share"), [("1", 1.0), ("2", 0.25)])
def test_tensor_cores_compute_a_drafter_at_their_rate(method: str, gpus: str, share: float) -> None:
    p = point(HYBRID, {"spec_method": method, "gpu_count": gpus})
    p = p.replace(draft_params=0.6e9)
    fast = constants(eta_bw=1e30, mfu_gemm_wgmma=share, mfu_gemm=share)
    expected = operations(p)[method] / (float((p.bf16 * p.tp)[0]) * share)
    assert drafting_seconds(p, fast) == pytest.approx(expected)


PRODUCTS = [("h100-sxm", "bf16", 4, 0.65), ("h100-sxm", "fp8", 2, 0.5), ("b200", "fp8", 4, 0.65),
            ("a100-80gb", "bf16", 2, 0.5)]  # fmt: skip


@pytest.mark.parametrize(("card", "quant", "power", "share"), PRODUCTS)
def test_products_take_the_longer_part(card: str, quant: str, power: float, share: float) -> None:
    """Nearly, and nearer to the peak, but for Hopper's FP8, whose sums vector units add up."""
    p = point({"hardware": card, "quant": quant})
    assert rates.gemm_share(p, C) == pytest.approx(share)
    made = [float(rates.overlap(p, np.full(1, a), np.full(1, b))[0]) for a, b in ((3, 3), (3, 1))]
    assert made[0] == pytest.approx(3 * 2 ** (1 / power)), "both are as long"
    assert made[1] == pytest.approx((3**power + 1) ** (1 / power))
    assert rates.overlap(p, np.zeros(1), np.zeros(1)) < 1e-20


LLAMA_8B = 8.03e9 - 128_256 * 4096  # its embedding is looked up


@pytest.mark.parametrize(
    ("model", "quant", "part", "weights", "rate"),
    [
        ("llama-3.1-8b", "bf16", 0, LLAMA_8B, 0.5 * 989e12),
        ("llama-3.1-8b", "fp8", 0, LLAMA_8B, 0.5 * 1979e12),
        # config.json: 48 layers, 8 experts a token, each 3 x 2,048 x 768
        ("qwen3-30b-a3b", "bf16", 1, 48 * 8 * 3 * 2048 * 768, 0.15 * 989e12),
    ],
)
def test_each_weight_takes_two_operations_a_token(
    model: str, quant: str, part: int, weights: float, rate: float
) -> None:
    """NVIDIA's dense peaks of an H100 SXM, half of which is reached, and 15 % by experts."""
    p = point({"model": model, "quant": quant, "hardware": "h100-sxm"})
    free = {"eta_bw": 1e30} if part == 0 else {"mfu_prefill": 0.15}
    seconds = few(p, constants(mfu_gemm_wgmma=0.5, mfu_gemm=0.5, **free), 4096)[part]
    assert seconds == pytest.approx(2 * 4096 * weights / rate, rel=0.01)


def test_192_tokens_of_an_8b_cost_what_64_do_on_hopper() -> None:
    """Own runs, 64 requests and one or three tokens each: 0.5 ms more at most, all else counted."""
    p = point({"model": "llama-3.1-8b", "quant": "bf16", "hardware": "h100-sxm"})
    p = p.replace(concurrency=64.0)
    few, many = (1e3 * float(step(p, C, tokens).dense[0]) for tokens in (1.0, 3.0))
    assert 4.5 < few < 5.5 and few < many < few + 0.8


def test_vector_kernels_compute_the_first_token_while_they_read() -> None:
    p = point(LLAMA, {"spec_method": "eagle"})
    c = constants(eta_bw=1e30).replace(mmvq_share=C.mmvq_share)
    rate = rates.small_batch_rate(p, c)[0]
    params = 17 * float(p.hidden[0]) ** 2 + float(p.lm_head_params[0])
    for requests in (1, 2, 4):
        few = p.replace(concurrency=float(requests))
        expected = 3 * (requests - 1) * 2 * params / rate
        assert drafting_seconds(few, c) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (LLAMA, True),
        (LLAMA | {"hardware": "apple-m1-max"}, True),
        (LLAMA | {"hardware": "radeon-890m"}, True),  # Vulkan
        (LLAMA | {"hardware": "rx7900xtx"}, True),  # ROCm
        (LLAMA | {"model": "qwen3-32b"}, False),
        ({"quant": "fp8"}, False),
    ],
)
def test_llama_cpp_keeps_states_beside_a_hybrids_draft(change: dict[str, str], kept: bool) -> None:
    p = point(HYBRID, {"spec_method": "draft_model"}, change)
    assert slower(p, state_checkpoint_s=1.0) == pytest.approx(float(kept))
    assert bool(drafting.replays_states(p)[0]) is kept
    assert not drafting.replays_states(point(HYBRID, change, {"spec_method": "mtp"}))[0]


@pytest.mark.parametrize(("tokens", "ranks"), [(1, 8), (4, 2), (16, 4), (64, 8)])
def test_the_busiest_rank_reads_most_of_the_experts(tokens: int, ranks: int) -> None:
    """Against drawn experts: each token reaches eight of 256, which lie in order on the ranks."""
    draw, most, reached = np.random.default_rng(5), [], []
    for _ in range(300):
        found = np.unique([draw.choice(256, 8, replace=False) for _ in range(tokens)])
        reached.append(len(found))
        most.append(np.bincount(found * ranks // 256, minlength=ranks).max())
    p = point(MIXTURE).replace(expert_ranks=float(ranks))
    share = reads.busiest_reads(p, np.full(1, np.mean(reached)))[0]
    assert share == pytest.approx(np.mean(most) / (np.mean(reached) / ranks), rel=0.08)
    assert reads.busiest_reads(p, np.full(1, 256.0))[0] == 1  # all of them: the same on each


def test_a_lone_prompt_has_the_attention_of_one_group() -> None:
    p = point(MIXTURE, {"tp": "8", "gpu_count": "8", "input_tokens": "4096"})
    apart = p.replace(attention_groups=8.0)
    c, before = constants(prefill_call_s=0.0), np.zeros(1)
    c = c.replace(mfu_prefill=0.2, mfu_prefill_dense=0.5)
    times = {
        n: [prompt_cost.prefill_seconds(q, c, np.full(1, n), before, False)[0] for q in (p, apart)]
        for n in (4096.0, 32_768.0)
    }
    assert times[4096.0][1] > 1.2 * times[4096.0][0]  # its ranks alone compute
    assert times[32_768.0][1] < 1.05 * times[32_768.0][0]  # a prompt for each group


@pytest.mark.parametrize(("method", "layers"), [("mtp", 1), ("eagle3", 1), ("draft_model", 0)])
def test_a_prompt_passes_the_layer_of_its_own_head_once_more(method: str, layers: int) -> None:
    p, c = point({"spec_method": method}), constants().replace(mfu_prefill_dense=0.5)
    off, on = (
        prompt_cost.prefill_seconds(p, c, np.full(1, 4096.0), np.zeros(1), spec)
        for spec in (False, True)
    )
    assert on[0] / off[0] == pytest.approx(1 + layers / p.layers[0])


@pytest.mark.parametrize(("engine", "gb"), [("llama.cpp", 12.1), ("vllm", 13.8)])
def test_a_gguf_of_mxfp4_experts_has_q8_0_beside_them(engine: str, gb: float) -> None:
    """gpt-oss-20b: GGUF and safetensors as published (ggml-org and openai, 2025-08-05)."""
    p = point({"model": "gpt-oss-20b", "quant": "mxfp4", "engine": engine})
    assert load.weight_bytes(p)[0] == pytest.approx(gb * 1e9, rel=0.01)


def test_tiles_cost_a_card_that_waits_for_its_weights_nothing() -> None:
    """Qwen2.5-Coder 7B Q8_0 on a GB10, ms of a step without sampling (llama.cpp
    benches/dgx-spark.md, llama-batched-bench of b6918 behind prompts of 512).
    """
    for slots, ms in ((1, 34.2), (8, 40.9), (16, 47.8), (32, 53.9)):
        own = fields("model=qwen2.5-7b hardware=gb10 quant=q8_0 input_tokens=512 engine=llama.cpp")
        made = step(point(LLAMA, own | {"concurrency": str(slots)}), SPEEDS)
        assert 1e3 * float((made.total - made.host)[0]) == pytest.approx(ms, rel=0.1)


def test_sparse_attention_reads_what_it_picks_and_the_keys_to_pick_by() -> None:
    """DeepSeek-V3.2 beside V3.1, the same shape: 2,048 keys of 35,136 elements, and 132 bytes of
    each token in 61 layers (index_topk, index_head_dim); two tokens pick for themselves.
    """
    told = fields("hardware=h200 gpu_count=8 tp=8 quant=fp8 kv_cache_dtype=fp8 engine=sglang")
    told |= fields("concurrency=1 input_tokens=65536 engine_version=0.5.19")
    sparse, dense = (point(told, {"model": f"deepseek-v3.{x}"}) for x in (2, 1))
    whole = 65_536 * 35_136
    for tokens in (1.0, 2.0):
        read = [float(step(p, constants(), tokens).attention[0]) for p in (sparse, dense)]
        picked = tokens * 2048 * 35_136 + 65_536 * 61 * 132
        assert read[0] / read[1] == pytest.approx(picked / whole, rel=1e-6)
