"""One posterior decides: what is printed and what is decided never contradict each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import predict, recommend
from advisor.domain.normal import Z10
from advisor.prediction import documented
from advisor.prediction.artefact import load
from advisor.prediction.documented import Observed, move
from advisor.prediction.intervals import Predicted
from advisor.prediction.intervals import posterior as split


def prediction(median: float, width: float) -> Predicted:
    """One prediction whose 80 % interval reaches as far to both sides."""
    log, side = np.log([median]), np.array([width])
    model = load()
    none, known = np.zeros(1), np.zeros(1, dtype=bool)
    made = split(log, log - side, log + side, model.p_gain(log, side / Z10, known))
    basis = np.array([1], dtype=np.int8)
    quantiles = (np.exp(part) for part in made[:3])
    rest = (none, log, side / Z10, none, side, side, known, none, none, none)
    return Predicted(*quantiles, made.p_gain, basis, *rest)


def one_loss(speedup: float, sd: float, caution: bool = False) -> Observed:
    """One documented speed-up."""
    return Observed(np.log([speedup]), np.array([sd]), np.array([0.0 if caution else 1.0]))


@given(st.floats(0.5, 2), st.floats(0.05, 0.5), st.floats(0.4, 2.5), st.floats(0.05, 1))
def test_observations_pull_and_narrow(median: float, width: float, seen: float, sd: float) -> None:
    prior = prediction(median, width)
    after = documented.move(prior, one_loss(seen, sd), load())
    if median <= seen:  # a documented loss says nothing against a larger one
        assert after.p50 == prior.p50 and after.p10 == prior.p10
        return
    assert np.log(seen) <= after.mean[0] <= np.log(median)
    if median < seen * (1 + 1e-9):  # one number but for rounding
        return
    assert after.mean[0] < np.log(median) and after.below[0] + after.above[0] < 2 * width


@pytest.mark.parametrize("concurrency", [1, 4, 16, 64])
@pytest.mark.parametrize("hardware", ["gb10", "h100", "a100"])
def test_ttft_decides_only_where_its_interval_excludes_one(hardware: str, concurrency: int) -> None:
    advice = recommend(hardware=hardware, concurrency=concurrency, goal="ttft")
    span = advice.estimate.ttft_ms.speedup
    assert not any(finding.severity == "error" for finding in advice.findings)
    assert advice.decision == "measure" or not span.p10 <= 1 <= span.p90


@given(st.floats(0.5, 2), st.floats(0.05, 0.5), st.floats(-1, 0))
def test_a_loss_and_its_own_pair_count_once(median: float, width: float, evidence: float) -> None:
    """A sure loss holds all that its pair says of the sign; one that says nothing, none."""
    alone = prediction(median, width)
    pair = alone._replace(evidence=np.array([evidence]))
    sure = one_loss(0.5 * median, 1e-9)
    made, without = (move(one, sure, load()).p_gain[0] for one in (pair, alone))
    assert made == pytest.approx(without, abs=1e-6)
    vague = one_loss(0.5 * median, 1e9)
    assert move(pair, vague, load()).evidence[0] == pytest.approx(evidence, abs=1e-6)


@pytest.mark.parametrize("concurrency", [58, 60])
def test_a_wait_for_slots_is_weighed_against_a_few_percent(concurrency: int) -> None:
    """k = 2 gains 5 points and waits five times as long: its own for throughput alone."""
    asked = {"hardware": "h100", "model": "qwen3.6-27b", "concurrency": concurrency}
    made, fast = recommend(**asked), recommend(**asked, goal="throughput")
    assert made.decision == "on" and made.candidate.k == 1
    assert made.estimate.ttft_ms.speedup.p50 > 0.7 and fast.candidate.k == 2


def test_a_gain_measured_with_a_longer_draft_counts_for_a_shorter() -> None:
    """k = 4 was measured here and k = 3 was not; in a table of rows, k = 1 is on as k = 2 is."""
    made = recommend(hardware="h100", model="qwen3.6-35b-a3b", concurrency=64)
    seen = {c.plan.k: c.estimate.measured_gain for c in made.runners_up if c.estimate is not None}
    assert (made.decision, made.candidate.k, made.decided_by) == ("on", 3, "estimate")
    assert made.estimate.measured_gain > 0.5 and seen[4] > 0.8 > seen[5]
    row = {"model": "qwen3.6-27b", "hardware": "h100", "engine": "vllm", "spec_method": "mtp"}
    row |= {"concurrency": "48", "input_tokens": "2048", "output_tokens": "512", "quant": "fp8"}
    row |= {"prefix_caching": "0", "gpu_count": "1"}
    told = predict([row | {"k": str(k)} for k in (1, 2)])
    assert [one["decision"] for one in told] == ["on", "on"]


def test_a_loss_that_was_measured_elsewhere_does_not_turn_the_sign() -> None:
    """SD426 rests on one model and one chip: a caution for others, a loss there."""
    made = recommend(hardware="a100", gpus=8, model="deepseek-v3")
    assert made.decision != "off" and made.gain.p50 > 1
    assert {f.code: f.effect for f in made.findings}["SD426"] == "caution"


@pytest.mark.parametrize("caution", [False, True])
def test_a_caution_moves_the_middle_and_narrows_nothing(caution: bool) -> None:
    found = prediction(1.2, 0.3)
    moved = move(found, one_loss(0.6, 0.2, caution), load())
    assert moved.p50[0] < found.p50[0]
    before, after = (one.below[0] + one.above[0] for one in (found, moved))
    assert after == pytest.approx(before) if caution else after < 0.95 * before
    assert moved.p_gain[0] < found.p_gain[0]
