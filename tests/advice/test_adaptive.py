"""Adaptive verification beside a fixed block, against ratio_at pairs: no pair is priced by its own
owner's runs.
"""

import json
from math import log

import pytest
from cli_run import run

from advisor import recommend
from advisor.advice.adaptive import SURE
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge.rule_data import table
from advisor.prediction.estimates import ratio_at

NOISE = log(1.02)
# sglang#36136 (open): DFlash2 of 7 with and without verification by confidence, GSM8K and MT-Bench;
# another engine's, and none of them is among the runs that price
CONFIDENCE = {
    1: (881.46 / 914.20, 679.7 / 704.6),
    4: (2796.50 / 3052.92, 1902.7 / 2043.1),
    8: (3879.85 / 4141.16, 2627.3 / 2671.3),
    12: (4519.04 / 4320.43, 3166.2 / 2857.7),
    16: (4825.99 / 4793.00, 3482.7 / 3087.7),
    32: (5773.28 / 5267.26, 4101.2 / 3411.1),
}


def outside() -> list[tuple[str, float, float]]:
    """Owner, tokens of a fixed step, log of adaptive over fixed speed."""
    (row,) = table("regime")["adaptive_verification"]
    own = [
        (each["owner"], requests * (each["k"] + 1.0), log(adaptive / fixed))
        for each in row["runs"]
        for requests, fixed, adaptive in each["tok_s"]
    ]
    # vllm#52362 beyond the captured graphs
    own += [
        ("tuukkjs", 1024.0, log(10356.48 / 8778.87)),
        ("tuukkjs", 2048.0, log(13324.67 / 7852.42)),
    ]
    others = [("", 8.0 * n, log(ratio)) for n, pair in CONFIDENCE.items() for ratio in pair]
    return own + others


def probability(size: float, owner: str) -> float:
    """That adaptive is the faster one, without the owner's own runs."""
    ratio = ratio_at(size, without=owner)
    return ratio.beside(ratio.log)


def test_adaptive_is_named_where_it_was_faster() -> None:
    """Named where fixed was faster: one pair at most; the pick loses less than each way alone."""
    named = [(probability(size, owner) >= SURE, y) for owner, size, y in outside()]
    assert sum(y < -NOISE for chosen, y in named if chosen) <= 1
    assert sum(chosen for chosen, _ in named) >= 3
    lost = [max(0.0, -y if chosen else y) for chosen, y in named]
    always = [max(0.0, -y) for _, y in named]
    never = [max(0.0, y) for _, y in named]
    assert sum(lost) < sum(never)
    assert max(lost) < max(*always, *never)


def test_pairs_lie_where_they_are_priced() -> None:
    """80 % intervals of owners left out hold 70 to 100 % of the pairs."""
    priced = [(ratio_at(size, without=owner), y) for owner, size, y in outside()]
    inside = [abs(y - one.log) <= 1.2816 * one.sd for one, y in priced]
    assert 0.7 <= sum(inside) / len(inside) <= 1.0


@pytest.mark.parametrize(
    ("requests", "adaptive"), [(4, False), (8, False), (16, False), (64, True), (256, True)]
)
def test_crossing_of_deepseek_v4_on_mi355x(requests: int, adaptive: bool) -> None:
    """vllm#52362: fixed is faster up to 32 requests, adaptive verification from 64 on."""
    answer = recommend(hardware="mi355x", gpus=8, tp=8, engine="vllm", engine_version="0.33.0",
                       what_if=False, model="deepseek-v4-flash", workload="chat", ctx_tokens=256,
                       output_tokens=512, concurrency=requests)  # fmt: skip
    assert answer.candidate is not None and answer.launch_on is not None
    assert verifies_adaptively(answer.candidate) is adaptive
    assert ('"enable_adaptive_verification":true' in answer.launch_on.text) is adaptive
    assert any("Adaptive verification" in reason.text for reason in answer.reasons)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"hardware": "h200", "model": "qwen3.6-35b-a3b", "method": "dflash"}, "Gated DeltaNet"),
        ({"hardware": "h200", "gpus": 8, "model": "glm-5.2", "method": "dspark"}, "latent"),
        ({"hardware": "mi355x", "gpus": 4, "model": "deepseek-v4.1-flash"}, "ROCm"),
    ],
)
def test_refused_where_the_release_does_not_run_it(asked: dict[str, object], why: str) -> None:
    """By the rules, whatever it is priced."""
    answer = recommend(
        **asked, engine="vllm", engine_version="0.33.0", concurrency=128, what_if=False
    )
    assert answer.candidate is not None and not verifies_adaptively(answer.candidate)
    said = [reason.text for reason in answer.reasons if "daptive" in reason.text]
    assert len(said) == 1 and why in said[0]


@pytest.mark.parametrize("version", ["0.27.1", "0.28.0"])
def test_older_releases_have_none_of_it(version: str) -> None:
    """DSpark from 0.28.0 on, other drafters from 0.30.0 on."""
    answer = recommend(hardware="h200", engine="vllm", engine_version=version, model="qwen3-8b",
                       method="dflash", thinking=False, concurrency=256, what_if=False)  # fmt: skip
    assert not any("daptive verification" in reason.text for reason in answer.reasons)


@pytest.mark.parametrize(("loads", "adaptive"), [("4..16", False), ("64..256", True)])
def test_a_range_of_loads_is_verified_adaptively_where_faster(loads: str, adaptive: bool) -> None:
    """vllm#52362 again: one launch for the few requests, and one for the many."""
    ran = run("recommend", "--hw", "mi355x", "--gpus", "8", "--tp", "8", "--engine",
              "vllm@0.33.0", "--model", "deepseek-v4-flash", "--workload", "chat", "--ctx", "256",
              "--concurrency", loads, "--format", "json")  # fmt: skip
    told = json.loads(ran.out)
    assert told["decision"] == "on"
    assert ('"enable_adaptive_verification":true' in told["launch"]["text"]) is adaptive
