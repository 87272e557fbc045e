"""A stated acceptance is used as stated: both spellings are one fact, and nothing accepted is
nothing gained.
"""

from typing import Any

import numpy as np
import pytest

from advisor import recommend
from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import Estimate
from advisor.domain.question import Request
from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.prediction import acceptance as acc
from advisor.prediction import predict
from advisor.prediction.estimates import estimate
from advisor.prediction.intervals import pin_acceptance
from advisor.prediction.predict_table import predict_dicts

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
    facts = bare_facts(Request(**asked))
    return estimate(facts, [plan.model_copy(update={"k": k}) for k in ks])


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
    advice = recommend(**setup, **told)
    assert advice.decision == "off"
    for one in estimates_of((1, 2), **setup, **told):
        assert one.accepted_length.p50 == pytest.approx(1)
        assert one.p_gain < 1e-4
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
    cycle: hardly faster than they do (nearby runs pull a little), and without a step.
    """
    lengths = 1 + k * np.arange(0.3, 0.96, 0.02)
    row = {**setup, "model": "qwen3.6-27b", "k": str(k), "concurrency": "1"}
    row |= {"input_tokens": "1024", "output_tokens": "512", "speedup_metric": "output_tok_s"}
    found = predict_dicts([{**row, "acceptance_length": f"{length:.5f}"} for length in lengths])
    grows = np.diff(np.log([one["speedup_p50"] for one in found]))
    assert (grows > -0.01).all()
    assert (grows < np.diff(np.log(lengths)) + 0.02).all(), grows.max()
