"""Experts in the machine's memory: one count of layers, and what a step pays for them."""

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.plans import offload
from advisor.advice.recommend import recommend
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, Facts, Plan, Request
from advisor.lab.measurements.schema import measurements_dir
from advisor.perf import arrays as P
from advisor.perf import host_memory, imputation, memory, physics
from advisor.perf.constants import Constants
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.reads import union
from advisor.perf.sizes import weights
from advisor.perf.sizes import weights as overrides
from advisor.prediction import estimates
from advisor.prediction.predict_table import predict_dicts

CARD = {"hardware": "rtx3090", "model": "qwen3.6-35b-a3b", "quant": "ud-q4_k_xl"}
LOAD = {"engine": "llama-server", "concurrency": 1, "ctx_tokens": 512, "output_tokens": 256}


def facts(**changes: Any) -> Facts:
    return facts_for_request(Request.model_validate({**CARD, **LOAD, **changes}))


def plan(slots: int, k: int = 0, length: int = 1024, **more: Any) -> Plan:
    method = "mtp" if k else "none"
    return Plan(
        engine="llama-server", method=method, k=k, max_num_seqs=slots, max_model_len=length, **more
    )


def test_options_say_how_many_layers_are_moved() -> None:
    asked = facts()
    assert host_memory.host_layers(asked, plan(1)) == 0
    assert host_memory.host_layers(asked, plan(1, extra=(("--n-cpu-moe", "7"),))) == 7
    assert host_memory.host_layers(asked, plan(1, extra=(("--cpu-moe", None),))) == 40


def test_llama_server_makes_room_for_what_is_billed_too_large() -> None:
    """Sixteen slots with nine states each do not fit 24 GB; the bill says by how much."""
    asked, wide = facts(concurrency=16), plan(16, 8)
    short = memory.bill(asked, wide).short_gib
    assert short is not None and short > 0
    each = weights.layer_gib(asked.shape or asked.model, asked.quant)
    found = host_memory.host_layers(asked, wide)
    assert (found - 1) * each < short + host_memory.FIT_MARGIN_GIB <= found * each


def test_a_stated_margin_is_left_free() -> None:
    """What fits with the usual margin missing is left alone; a margin that is asked for counts."""
    asked, fits = facts(), plan(1, 2)
    made = memory.bill(asked, fits)
    free = made.left_gib - made.state_gib - made.kv_gib
    assert 0 < free < 3
    layers = [
        host_memory.host_layers(asked, plan(1, 2, extra=(("--fit-target", str(mib)),)))
        for mib in (int(free * 1024) - 1, int(free * 1024) + 2, 4096, 6144)
    ]
    assert (host_memory.host_layers(asked, fits), layers[:2]) == (0, [0, 1])
    assert layers[1] < layers[2] < layers[3]


@pytest.mark.parametrize(
    "changes",
    [{"hardware": "gb10"}, {"model": "qwen3.6-27b", "quant": "q4_k_m"}],
    ids=["one memory", "dense"],
)
def test_nothing_is_moved_where_it_would_not_help(changes: dict[str, Any]) -> None:
    assert host_memory.host_layers(facts(**changes, concurrency=64), plan(64, 8, 65536)) == 0


def test_the_bill_the_plan_and_the_estimate_count_the_same_layers() -> None:
    asked = facts(hardware="rtx3060")
    found = offload.offload(asked)
    assert found is not None and found.layers > 0
    assert host_memory.host_layers(asked, found.plan) == found.layers
    points = from_plans(asked, [found.plan])
    assert points.host_spec[0] == points.host_base[0] == found.layers


def test_drafts_alone_can_push_experts_out() -> None:
    asked = facts(concurrency=8)
    made = [plan(8, k) for k in (0, 2, 4, 8)]
    layers = from_plans(asked, made).host_spec
    assert layers[0] == 0 and layers[-1] > 0 and (np.diff(layers) >= 0).all()
    assert (from_plans(asked, made).host_base == 0).all()


def points(layers: float, n: int = 1) -> P.Points:
    made = from_plans(facts(), [plan(8, 2)] * n).replace(host_base=layers, host_spec=layers)
    return imputation.impute(made)


def step(layers: float, batch: float, tokens: float) -> float:
    each = np.array([tokens])
    terms = physics.step_seconds(
        points(layers), Constants(), np.array([batch]), each, tokens > 1, np.array([512.0])
    )
    return float(terms.total[0])


def test_a_layer_is_read_on_the_card_or_on_the_host() -> None:
    """30 of 40 layers at the card's cost, 10 of 8 experts each from the machine's memory."""
    c, here, moved = Constants(), points(0), points(10)
    terms = [
        physics.step_seconds(p, c, np.ones(1), np.ones(1), False, np.array([512.0]))
        for p in (here, moved)
    ]
    rate = 45e9 * c.host_memory_share  # two channels of DDR4
    expert = float(moved.expert_params[0] * moved.bytes_ffn[0])
    host = 10 * (c.host_layer_s + 8 * expert / rate)
    assert float(terms[1].experts[0]) == pytest.approx(float(terms[0].experts[0]) * 30 / 40 + host)


def test_from_32_tokens_on_experts_are_copied_to_the_card() -> None:
    slow, quick = (Constants(host_copy_bw=rate) for rate in (5e9, 50e9))
    for tokens, differs in ((31.0, False), (32.0, True)):
        columns = np.array([tokens]), np.array([100.0]), np.array([True])
        times = [host_memory.moved_seconds(points(10), c, *columns)[1][0] for c in (slow, quick)]
        assert (times[0] > 2 * times[1]) == differs and (times[0] == times[1]) != differs


def test_a_row_whose_drafts_push_experts_out_gains_less() -> None:
    asked = {"engine": "llama.cpp", "engine_version": "b10622", "spec_method": "mtp", "k": 4}
    load = {"concurrency": 8, "max_num_seqs": 8, "acceptance_rate": 0.7, "workload": "chat"}
    row = {**CARD, **asked, **load, "speedup_metric": "output_tok_s"}
    fits, over = predict_dicts([{**row, "context_tokens": n} for n in (2048, 262144)])
    assert over["speedup_p50"] < 0.9 * fits["speedup_p50"]
    wide = [one["speedup_p90"] / one["speedup_p10"] for one in (fits, over)]
    assert wide[1] > wide[0]


def test_prompts_copy_the_experts_once_a_batch() -> None:
    full, c = points(10, 3), Constants(host_copy_bw=10e9)
    tokens, all_reached = np.array([100.0, 512.0, 1024.0]), np.ones(3)
    found = host_memory.prompt_seconds(full, c, tokens, all_reached, False)
    gib = weights.layer_gib(facts().shape or facts().model, facts().quant)
    assert found[1] == pytest.approx(10 * gib * weights.GIB / 10e9, rel=0.02)
    np.testing.assert_allclose(found / found[1], [1, 1, 2])
    assert not host_memory.prompt_seconds(points(0, 3), c, tokens, all_reached, False).any()


def own_cells() -> dict[tuple[int, int, int], float]:
    """Milliseconds of a cycle by layers moved, draft tokens and slots."""
    folder = measurements_dir() / "raw" / "bench-h100-llama-host" / "server"
    found = {}
    for line in (folder / "serve.jsonl").read_text().splitlines():
        row = json.loads(line)
        made = row["slots"] * row["tokens"]
        length = made / (made - row["draft_n_accepted"])
        found[row["ncmoe"], row["k"], row["slots"]] = row["ms_per_token"] * length
    return found


def test_own_cells_are_priced() -> None:
    """What they add to a cycle: within 30 %, the middle one 8 %; random weights route evenly."""
    asked = facts(hardware="h100-sxm", quant="q4_k_m")
    cells, c = own_cells(), Constants(rho=0.0, skew=0.0)
    misses = []
    for (layers, k, slots), cycle in cells.items():
        if layers:
            full = imputation.impute(from_plans(asked, [plan(slots, k)]))
            tokens = np.array([slots * (k + 1.0)])
            reached = union(full.experts, full.topk, tokens)
            full = full.replace(host_base=layers, host_spec=layers)
            _, seconds = host_memory.moved_seconds(full, c, tokens, reached, np.array([k > 0]))
            misses.append(1e3 * float(seconds[0]) / (cycle - cells[0, k, slots]) - 1)
    assert len(misses) == 14 and np.abs(misses).max() < 0.3 and np.median(np.abs(misses)) < 0.08


def test_an_answer_that_moves_experts_says_what_it_expects() -> None:
    """The question's own estimate of the launch that it emits."""
    told = recommend(Request.model_validate({"hardware": "rtx3060", "model": "qwen3.6-35b-a3b"}))
    assert isinstance(told, Advice) and told.decision == "measure" and told.candidate is not None
    found = estimates.estimate(told.facts, [told.candidate])[0].tpot_ms
    assert f"about {1e3 / found.baseline:.0f} tokens/s" in told.reasons[0].text
    assert f"{found.speedup.p50:.2f}x that" in told.reasons[0].text
    assert host_memory.host_layers(told.facts, told.candidate) > 0


NAMES = [f"blk.{n}.ffn_{kind}_exps.weight" for n in range(24) for kind in overrides.TENSORS]
PARTS = st.sampled_from(
    [*"bkl.0129_fu()|*+?^$", r"\d", r"\.", ".*", "(a|b)", "[0-9]", "[^x]", "{2}", "(?:", "exps"]
)


@given(st.lists(PARTS, max_size=9).map("".join))
def test_a_pattern_is_searched_as_a_regular_expression_is(pattern: str) -> None:
    try:
        expected = [re.search(pattern, name) is not None for name in NAMES[3:]]
    except re.error:
        expected = [True] * 69  # the engine stops on it
    override = overrides.Override(pattern, host=True)
    if overrides._readings(pattern) <= overrides.MAX_READINGS:
        assert overrides.host_layers((override,), 1, 23) == pytest.approx(sum(expected) / 3)


@pytest.mark.parametrize(
    ("told", "layers"),
    [
        ([r"\.ffn_(up|down|gate)_exps\.weight=CPU"], 23),
        ([r"blk\.[0-9]+\.ffn_(gate|up|down)_exps\.weight=CUDA_Host"], 23),
        (["exps=CUDA0"], 0),
        ([r"blk\.(1[0-9])\.ffn=CPU"], 10),
        ([r"blk\.(1[0-9])\.=CPU,blk\.[2-5]\.=CPU"], 14),
        ([r"\.ffn_(up|gate)_exps=CPU"], 23 * 2 / 3),
        ([r"blk\.[1-4]\.=CUDA0,exps=CPU"], 19),  # the first that matches decides
        ([r"blk\.[1-4]\.=CUDA0", "exps=CPU"], 19),
        (["exps=CPU", r"blk\.[1-4]\.=CUDA0"], 23),
        (["attn=CPU"], 0),
        (["blk.1.ffn_up_exps=CPU"], 1 / 3),
        (["exps"], 0),  # no buffer
        (["(?!x)y=CPU"], 23),  # not read: nothing is said to be too large
    ],
)
def test_layers_of_a_value(told: list[str], layers: float) -> None:
    """Of 24, the first one having no experts."""
    found = tuple(one for value in told for one in overrides.read_overrides(value))
    assert overrides.host_layers(found, 1, 23) == pytest.approx(layers, abs=1e-5)


@pytest.mark.parametrize(
    ("pattern", "tried"),
    [
        (r"([6-8]|[1-9][0-9])\.ffn_(gate|up|down)_exps\.", True),
        (r"blk\.\d+\.ffn_.*_(gate|up|down)_exps", True),
        (f"blk.({'|'.join(map(str, range(40)))}).ffn.*", True),
        ("(.*)*" * 30 + "Q", False),
        ("(.|.)" * 55 + "Q", False),
        (".*" * 140 + "Q", False),
        (".?" * 30 + "Q", False),
        ("((.?){9}){9}" * 20, False),
        (r"(.)\1*\1*Q", False),
        ("(" * 300, False),
    ],
)
def test_a_pattern_with_too_many_readings_is_not_tried(pattern: str, tried: bool) -> None:
    assert (overrides._readings(pattern) <= overrides.MAX_READINGS) == tried
    if not tried:
        assert overrides.host_layers((overrides.Override(pattern, host=True),), 0, 60) == 60
