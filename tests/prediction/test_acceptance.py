"""Acceptance: the algebra, the prior's sense, and a measured acceptance as an update."""

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
