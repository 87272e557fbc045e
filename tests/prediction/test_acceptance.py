"""Acceptance: the algebra, the prior's sense, and a measured acceptance as an update."""

import math

import numpy as np
import pytest

from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.prediction import acceptance as acc
from advisor.prediction import predict
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
    expected = (1 - a ** (k + 1)) / (1 - a)
    assert acc.tokens_per_step(conditional, k) == pytest.approx(expected)


def test_seed_acceptance() -> None:
    """GB10: 0.8157 and 0.6348 of the drafts reach positions 1 and 2, which makes 2.45 tokens per
    step.
    """
    conditional = np.full((1, arrays.MAX_K), 0.7)
    conditional[0, :2] = 0.8157, 0.6348 / 0.8157
    assert acc.tokens_per_step(conditional, np.array([2.0]))[0] == pytest.approx(2.4505)


def test_gradient_matches_differences() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(0.8, 0.7, (5, arrays.MAX_K))
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
    assert taus == sorted(taus)
    assert 1.6 < taus[0] < 2.0


def test_measured_acceptance_moves_the_prior_and_narrows_it() -> None:
    prior, given = infer(), infer(acceptance_rate="0.55")
    assert given.known[0] and not prior.known[0]
    assert given.log_tau_sd[0] < 0.5 * prior.log_tau_sd[0]
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
