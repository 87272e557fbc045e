"""Classes that share a server: closed formulas against an event-by-event simulation."""

from math import isclose, log

import advice_cases as cases
import numpy as np
import pytest

from advisor.advice import judge, resolve
from advisor.advice.explore.servers import (
    Times,
    average,
    chance,
    chance_of_all,
    mix_estimates,
    times,
    together,
    widen,
)
from advisor.domain.nouns import Estimate, Facts, Interval, MetricEstimate, Plan, Request
from advisor.perf.encoding.encode_plans import from_plans
from advisor.prediction import predict
from tests.advice.explore.simpy_server import ClientClass, Server, budget_of, play

SETTINGS = [
    ("gb10", "qwen3.6-35b-a3b", [(12, 2048, 256), (4, 8192, 256)]),
    ("gb10", "qwen3.6-35b-a3b", [(2, 2048, 256), (4, 8192, 256)]),
    ("h100", "qwen3.6-35b-a3b", [(32, 1024, 256), (8, 16384, 512)]),
    ("h100", "qwen3.6-27b", [(8, 512, 512), (8, 4096, 128)]),
    ("h200", "qwen3.6-35b-a3b", [(60, 2048, 512), (4, 32768, 256)]),
]


def facts_of(hardware: str, model: str, load: int, prompt: int, output: int) -> Facts:
    asked = {"hardware": hardware, "model": model, "engine": "vllm", "quant": "fp8"}
    asked |= {"concurrency": load, "ctx_tokens": prompt, "output_tokens": output}
    return resolve.bare_facts(Request(**asked))


def plan_of(facts: Facts) -> Plan:
    """The plan without speculation; the simulation knows no pages of a prefix cache."""
    plan = judge.candidate_plans(facts, judge.weigh).base.plan
    return plan.model_copy(update={"prefix_caching": False})


def formula(hardware: str, model: str, classes: list[tuple[int, int, int]]) -> list[Times]:
    total = sum(clients for clients, _, _ in classes)
    alone, single = [], []
    for _, prompt, output in classes:
        for load, into in ((total, alone), (1, single)):
            facts = facts_of(hardware, model, load, prompt, output)
            into.append(times(judge.estimate_plans(facts, [plan_of(facts)])[0], "baseline"))
    shares = [clients / total for clients, _, _ in classes]
    return together(alone, single, shares, [output for _, _, output in classes])


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s[0]}-{s[1]}-{s[2]}")
def test_a_mix_follows_the_simulation(setting: tuple[str, str, list[tuple[int, int, int]]]) -> None:
    """TPOT within 20 %, tokens 15 %, TTFT a factor of three: which prompts meet is chance."""
    hardware, model, classes = setting
    first = facts_of(hardware, model, sum(c for c, _, _ in classes), *classes[0][1:])
    point, constants = from_plans(first, [plan_of(first)]), predict.load().speeds
    asked = [ClientClass(*one) for one in classes]
    server = Server(point, constants, asked, budget_of(point, constants))
    expected = formula(hardware, model, classes)
    stay = sum(
        a.clients * (one.ttft_ms + one.tpot_ms * a.output)
        for one, a in zip(expected, asked, strict=True)
    )
    rounds = 5  # of a benchmark whose number of requests is not stated
    found = play(server, asked, rounds * stay / sum(a.clients for a in asked) / 1e3)
    for ours, theirs, one in zip(expected, found, asked, strict=True):
        tokens = one.clients * one.output / np.mean(theirs.stay)
        assert abs(log(ours.tpot_ms / 1e3 / np.mean(theirs.tpot))) < log(1.2)
        assert abs(log(ours.output_tok_s / tokens)) < log(1.15)
        assert abs(log(ours.ttft_ms / 1e3 / np.mean(theirs.ttft))) < log(3.0)


def estimate(value: float, gain: tuple[float, float, float]) -> Estimate:
    low, middle, high = gain
    speedup = Interval(p10=low, p50=middle, p90=high)
    return Estimate(
        output_tok_s=MetricEstimate(speedup=speedup, baseline=value, value=value * middle),
        tpot_ms=MetricEstimate(speedup=speedup, baseline=value, value=value / middle),
        ttft_ms=MetricEstimate(speedup=speedup, baseline=value, value=value / middle),
        accepted_length=speedup,
        p_gain=0.7,
    )


def test_one_class_stays_as_it_is() -> None:
    one = estimate(40.0, (0.9, 1.2, 1.5))
    assert mix_estimates([one], [one], [1.0], [256]) == [one]
    alone = Times(100.0, 20.0, 300.0)
    assert together([alone], [alone], [1.0], [256]) == [alone]


def test_intervals_are_averaged_and_widened() -> None:
    gain = average(
        [Interval(p10=0.8, p50=1.0, p90=1.2), Interval(p10=1.1, p50=1.3, p90=1.6)], [0.5, 0.5]
    )
    assert isclose(gain.p50, 1.3**0.5) and widen(gain, 0.0) == gain
    wide = widen(gain, 0.2)
    assert wide.p10 < gain.p10 and wide.p90 > gain.p90 and wide.p50 == gain.p50
    assert chance(Interval(p10=1.1, p50=1.3, p90=1.6)) >= 0.9
    assert chance(Interval(p10=0.7, p50=0.8, p90=0.9)) <= 0.2
    assert isclose(chance_of_all([0.8, 0.8], [0.3, 0.7]), 0.8)
    assert 0.6 < chance_of_all([0.6, 0.9], [0.5, 0.5]) < 0.9
    assert 0.4 < chance(Interval(p10=0.8, p50=1.0, p90=1.25)) < 0.6


def test_the_estimates_of_two_classes_by_hand() -> None:
    """A quarter and three quarters of the requests share a step; nobody waits for a prompt. Of 100
    tokens after the first a stay is the time to the first and 100 steps.
    """
    alone = [cases.estimate(1.2).replace(basis="measured"), cases.estimate(1.5)]
    made = mix_estimates(alone, alone, (0.25, 0.75), (101, 101))
    step = 61.2 * (0.25 / 1.2 + 0.75 / 1.5)
    for own, gain, share in zip(made, (1.2, 1.5), (0.25, 0.75), strict=True):
        stays = (1727 + 100 * 61.2 / gain) / (1727 + 100 * step)
        assert (own.tpot_ms.baseline, own.tpot_ms.value) == pytest.approx((61.2, step))
        assert own.tpot_ms.speedup.p50 == pytest.approx(61.2 / step)
        assert own.ttft_ms.value == pytest.approx(1727) and own.ttft_ms.predictable
        assert own.output_tok_s.baseline == pytest.approx(share * 216.3)
        assert own.output_tok_s.value == pytest.approx(share * 216.3 * gain * stays)
        assert own.output_tok_s.speedup.p90 == pytest.approx(1.12 * gain * stays)
    assert mix_estimates(alone[:1], alone[:1], (1.0,), (101,)) == alone[:1]
