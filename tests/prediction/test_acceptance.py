"""Acceptance: the algebra, the prior's sense, and a measured acceptance as an update."""

import math
import random
from math import ceil
from typing import Any

import numpy as np
import pytest

from advisor import recommend
from advisor.advice.explore.sweep import sweep
from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import Estimate, Request
from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.perf.load import decode_steps, fewest_steps
from advisor.prediction import acceptance as acc
from advisor.prediction import predict
from advisor.prediction.estimates import estimate
from advisor.prediction.intervals import pin_acceptance
from advisor.prediction.predict_table import predict_dicts
from tests.perf import rows
from tests.tables import cells

ROW = cells(
    "model=qwen3.6-27b hardware=rtx3090 engine=llama.cpp spec_method=mtp k=3 quant=q4_k_m "
    "workload=mixed speedup_metric=request_tok_s concurrency=1"
)


def infer(hide: bool = False, **change: str) -> acc.AcceptanceBelief:
    points, errors = encode_rows.from_rows([ROW | change])
    assert errors == [None]
    return acc.believe(predict.load().acceptance, points, hide)


def test_tokens_per_step_is_leviathans_sum() -> None:
    a, k = 0.8, np.array([1.0, 3.0, 8.0, 15.0])
    conditional = np.full((4, arrays.MAX_K), a)
    assert acc.tokens_per_step(conditional, k) == pytest.approx((1 - a ** (k + 1)) / (1 - a))


def test_gradient_matches_differences() -> None:
    logits = np.random.default_rng(3).normal(0.8, 0.7, (5, arrays.MAX_K))
    k = np.array([1.0, 2.0, 5.0, 8.0, 12.0])
    gradient = acc.log_gradient(acc.sigmoid(logits), k)
    for j in range(arrays.MAX_K):
        step = np.zeros_like(logits)
        step[:, j] = 1e-5
        up, down = (np.log(acc.tokens_per_step(acc.sigmoid(logits + s * step), k)) for s in (1, -1))
        assert gradient[:, j] == pytest.approx((up - down) / 2e-5, abs=1e-6)


def test_prior_knows_code_from_creative_text_and_more_drafts_emit_more() -> None:
    code, creative = infer(workload="code").tau[0], infer(workload="creative").tau[0]
    assert code > creative
    taus = [infer(k=str(k)).tau[0] for k in (1, 2, 3, 4, 6)]
    assert taus == sorted(taus) and 1.6 < taus[0] < 2.0


def test_measured_acceptance_moves_the_prior_and_narrows_it() -> None:
    prior, given = infer(), infer(acceptance_rate="0.55")
    assert given.known[0] and not prior.known[0] and given.log_tau_sd[0] < 0.5 * prior.log_tau_sd[0]
    measured = 1 + 3 * 0.55
    assert abs(given.tau[0] - measured) < abs(prior.tau[0] - measured)
    assert given.tau[0] == pytest.approx(measured, rel=0.03)
    assert infer(hide=True, acceptance_rate="0.55").tau[0] == pytest.approx(prior.tau[0])


def test_length_measured_at_another_k_carries_over() -> None:
    points, _ = encode_rows.from_rows([ROW | {"k": "4"}])
    at_two = points.replace(given_length=2.2, given_k=2.0)
    low = acc.believe(predict.load().acceptance, at_two)
    high = acc.believe(predict.load().acceptance, at_two.replace(given_length=2.8))
    assert acc.tokens_per_step(low.conditional, np.array([2.0]))[0] == pytest.approx(2.2, rel=0.03)
    assert low.tau[0] < high.tau[0]


def test_stated_positions_are_followed() -> None:
    points, _ = encode_rows.from_rows([ROW])
    given = np.full((1, arrays.MAX_K), np.nan)
    given[0, :2] = (0.9, 0.5)
    belief = acc.believe(predict.load().acceptance, points.replace(given_conditional=given))
    assert belief.conditional[0, 0] == pytest.approx(0.9, abs=0.05)
    assert belief.conditional[0, 1] == pytest.approx(0.5, abs=0.1)


def test_the_numbers_of_a_setting() -> None:
    """Temperature, thinking, depth (4,096 tokens a unit, in doublings), bits below 4.2, size over
    20 B in log, mixture, early stop, branches of a tree over 10.
    """
    row = ROW | {"temperature": "0.7", "input_tokens": "12288", "k": "3"}
    points, _ = encode_rows.from_rows([row])
    points = points.replace(
        depth_tokens=12288.0, quant_bits=2.2, active_params=4e10, is_moe=1.0, thinking=1.0,
        verify_tokens=14.0, p_min=0.3,
    )  # fmt: skip
    expected = [0.7, 0.5, 2.0, 2.0, math.log(2), 0.5, 0.3, 1.0]
    assert acc._numbers(points)[0] == pytest.approx(expected)
    design, model = acc.common_design(points), predict.load().acceptance
    width = design.shape[1]
    mean, sd = model.prior(points)
    single = (acc.position_design(points)[0] @ model.beta[width : width + 3]) * acc.STEPS_DOWN
    each = design[0] @ model.beta[:width] + single + model.beta[width + 3 :]
    assert mean[0] == pytest.approx(each)
    spread = design[0] @ model.covariance[:width, :width] @ design[0]
    assert sd[0] == pytest.approx(math.sqrt(spread + model.source_sd**2))


def test_a_stated_length_is_believed_within_its_noise() -> None:
    """One draft: its logit follows the stated one by the share of its variance, with noise of 0.03
    in the log of the tokens per step and 0.12 logits of a position.
    """
    mean, sd = np.zeros((1, arrays.MAX_K)), np.array([0.5])
    told = np.array([math.log(1.6)])
    found, left = acc._update(mean, sd, told, np.array([1.0]), np.array([True]), acc.POSITION_SD)
    x = found[0, 0]
    slope = acc.sigmoid(x) * (1 - acc.sigmoid(x)) / (1 + acc.sigmoid(x))
    pull = (told[0] - math.log(1 + acc.sigmoid(x))) * (0.25 + 0.12**2) * slope / 0.03**2
    assert x == pytest.approx(pull, rel=0.02)  # where the prior and the statement balance
    kept = 0.25 - (0.25 * slope) ** 2 / ((0.25 + 0.12**2) * slope**2 + 0.03**2)
    assert left[0] ** 2 == pytest.approx(kept, rel=0.02)


SETUPS: tuple[dict[str, Any], ...] = (
    {"hardware": "gb10"},
    {"hardware": "gb10", "concurrency": 16, "goal": "throughput"},
    {"hardware": "rtx4090"},
    {"hardware": "h100", "model": "qwen3.6-27b", "concurrency": 8, "goal": "tpot"},
    {"hardware": "gb10", "concurrency": 16, "goal": "ttft"},
    {"hardware": "h100", "model": "qwen3.6-27b", "concurrency": 64},
)


@pytest.mark.parametrize("given_k", [1.0, 2.0, 3.0, 8.0, 16.0])
def test_the_stated_length_comes_back(given_k: float) -> None:
    rows = [{"spec_method": "mtp", "k": f"{given_k:g}", "model": "qwen3.6-27b"}] * 9
    points, _ = encode_rows.from_rows(rows)
    rates = np.array([0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1])
    lengths = 1 + given_k * rates
    for told in ({"given_length": lengths}, {"given_rate": rates}):
        asked = points.replace(**told, given_k=np.full(9, given_k))
        belief = pin_acceptance(acc.believe(predict.load().acceptance, asked), asked)
        assert belief.tau == pytest.approx(lengths, rel=3e-3)


def test_the_stated_rates_come_back() -> None:
    rows = [{"spec_method": "mtp", "k": "2", "model": "qwen3.6-27b"}] * 3
    points, _ = encode_rows.from_rows(rows)
    rates = np.full((3, arrays.MAX_K), np.nan)
    rates[:, :2] = [[0.0, 0.5], [1.0, 1.0], [0.6, 0.3]]
    points = points.replace(given_conditional=rates)
    belief = pin_acceptance(acc.believe(predict.load().acceptance, points), points)
    assert belief.tau == pytest.approx([1.0, 3.0, 1.78], rel=1e-6)


def estimates_of(ks: tuple[int, ...], **asked: Any) -> list[Estimate]:
    """Of plans with MTP at these k."""
    bare = {name: asked[name] for name in asked if not name.startswith("acceptance")}
    plan = recommend(**bare).candidate
    return estimate(bare_facts(Request(**asked)), [plan.model_copy(update={"k": k}) for k in ks])


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.6, 0.97, 1.0])
def test_rates_and_length_are_one_fact(rate: float) -> None:
    """At k = 1 a length fixes the rate."""
    (one,) = estimates_of((1,), hardware="gb10", acceptance=(rate,))
    (other,) = estimates_of((1,), hardware="gb10", acceptance_length=1 + rate, acceptance_k=1)
    assert one.accepted_length.p50 == pytest.approx(1 + rate, rel=1e-3)
    assert other.accepted_length.p50 == pytest.approx(1 + rate, rel=1e-3)
    assert other.output_tok_s.speedup.p50 == pytest.approx(one.output_tok_s.speedup.p50, rel=0.02)


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize(
    "told", [{"acceptance_length": 1.0, "acceptance_k": 2}, {"acceptance": (0.0, 0.0)}]
)
def test_nothing_accepted_is_nothing_gained(setup: dict[str, Any], told: dict[str, Any]) -> None:
    assert recommend(**setup, **told).decision == "off"
    for one in estimates_of((1, 2), **setup, **told):
        assert one.accepted_length.p50 == pytest.approx(1) and one.p_gain < 1e-4
        for name in ("output_tok_s", "tpot_ms", "ttft_ms"):
            assert getattr(one, name).speedup.p90 <= 1.0


@pytest.mark.parametrize("length", [1.0, 1.1, 1.5, 2.0, 2.5, 3.0])
def test_tokens_do_not_come_faster_than_by_a_cycle(length: float) -> None:
    (one,) = estimates_of((2,), hardware="gb10", acceptance_length=length, acceptance_k=2)
    assert one.accepted_length.p50 == pytest.approx(length, rel=1e-3)
    for name in ("output_tok_s", "tpot_ms"):
        assert getattr(one, name).speedup.p90 <= max(one.accepted_length.p90 * 1.02, 1.0)


@pytest.mark.parametrize("length,taken", [(2.5, 2), (1.3, 2), (3.7, 3)])
@pytest.mark.parametrize("hardware", ["h100", "gb10"])
def test_a_length_without_k_says_which_is_taken(hardware: str, length: float, taken: int) -> None:
    alone = recommend(hardware=hardware, acceptance_length=length)
    said = recommend(hardware=hardware, acceptance_length=length, acceptance_k=taken)
    assert alone.decision == said.decision and alone.estimate == said.estimate
    assert ("acceptance_k", str(taken)) in {default[:2] for default in alone.facts.defaults}
    assert any(f"taken as measured at k={taken}" in reason.text for reason in alone.reasons)
    assert not any("taken as measured" in reason.text for reason in said.reasons)


LADDERS: tuple[dict[str, str], ...] = (
    {"hardware": "rtx3090", "engine": "llama.cpp", "quant": "q4_k_m", "spec_method": "mtp"},
    {"hardware": "gb10", "engine": "vllm", "quant": "fp8", "spec_method": "mtp"},
    {"hardware": "h100-sxm", "engine": "vllm", "quant": "fp8", "spec_method": "eagle3"},
    {"hardware": "rtx-pro-6000", "engine": "vllm", "quant": "fp8", "spec_method": "dflash"},
    {"hardware": "b200", "engine": "sglang", "quant": "fp8", "spec_method": "dspark"},
    {"hardware": "h100-sxm", "engine": "sglang", "quant": "fp8", "spec_method": "draft_model"},
    {"hardware": "h200", "engine": "vllm", "quant": "fp8", "spec_method": "ngram"},
)


@pytest.mark.parametrize("setup", LADDERS, ids=lambda row: row["spec_method"])
@pytest.mark.parametrize("k", [1, 3, 15])
def test_speed_follows_the_tokens_that_are_accepted(setup: dict[str, str], k: int) -> None:
    """At one k a cycle costs the same whatever is accepted, so the speed grows with the tokens of a
    cycle: hardly faster than they do (nearby runs and chances pull a little), and without a step.
    """
    lengths = 1 + k * np.arange(0.3, 0.96, 0.02)
    row = {**setup, "model": "qwen3.6-27b", "k": str(k), "concurrency": "1"}
    row |= {"input_tokens": "1024", "output_tokens": "512", "speedup_metric": "output_tok_s"}
    found = predict_dicts([{**row, "acceptance_length": f"{length:.5f}"} for length in lengths])
    grows = np.diff(np.log([one["speedup_p50"] for one in found]))
    assert (grows > -0.012).all()
    assert (grows < np.diff(np.log(lengths)) + 0.033).all(), grows.max()


MACHINES = (("gb10", "vllm"), ("h100", "vllm"), ("h100", "sglang"), ("rtx3090", "llama-server"),
            ("m3-ultra", "llama-server"), ("mi300x", "vllm"), ("h200", "sglang"))  # fmt: skip
LENGTHS = (2, 3, 4, 5, 8, 13, 32, 64)
EPS = 1e-9


@pytest.mark.parametrize(("hardware", "engine"), MACHINES)
def test_no_gain_beyond_whole_steps(hardware: str, engine: str) -> None:
    draw = random.Random(hardware + engine)
    lengths = sorted({*LENGTHS[:3], *draw.sample(range(4, 65), 4)})
    request = Request(hardware=hardware, engine=engine, goal="tpot", output_spread=0.0,
                      concurrency=draw.choice((1, 4, 8, 64, 512)),
                      ctx_tokens=draw.choice((128, 2048, 8192)))  # fmt: skip
    loads = sweep(request, {"output_tokens": lengths, "k": [0, 1, 2, 3, 5]}).loads
    seen = 0
    for load in loads:
        tokens = load.request.output_tokens - 1
        for point in load.points[1:]:
            most = tokens / ceil(tokens / (point.k + 1)) + EPS
            seen += 1
            assert point.tpot_ms.speedup.p90 <= most and point.output_tok_s.speedup.p90 <= most
    assert seen >= len(lengths)
    two = next(load for load in loads if load.request.output_tokens == 2)
    assert two.decision == "off" and all((p.p_gain or 0.0) < 0.01 for p in two.points)


def _count_steps(tokens: int, accepted: float) -> float:
    """Steps of k = 1, by hand: one token, or two with this chance, until all are there."""
    steps = [0.0]
    for left in range(1, tokens + 1):
        steps.append(1 + (1 - accepted) * steps[left - 1] + accepted * steps[max(left - 2, 0)])
    return steps[tokens]


@pytest.mark.parametrize("accepted", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 9, 40])
def test_steps_are_those_of_the_renewal_process(tokens: int, accepted: float) -> None:
    p = rows.points({"k": 1, "output_tokens": tokens + 1, "output_spread": 0})
    assert decode_steps(p, None)[0] == tokens
    steps = decode_steps(p, np.array([1 + accepted]))[0]
    assert steps == pytest.approx(_count_steps(tokens, accepted), rel=0.14 if tokens < 3 else 0.05)


def test_lengths_count_one_by_one() -> None:
    # 3 to 7 tokens at k = 2: 2, 3, 4, 5, 6 after the first, in 1, 1, 2, 2 and 2 steps
    p = rows.points({"k": 2, "output_tokens": 5, "output_spread": 0.4})
    assert fewest_steps(p)[0] == pytest.approx(8 / 5)
