"""The second line of the first screen: what it says holds, and what it costs is said."""

from typing import Any

import advice_cases as cases
import pytest

from advisor import recommend
from advisor.advice.objectives import p_objective
from advisor.domain.nouns import Advice, Interval, MetricEstimate
from advisor.engines import no_mtp_answer
from advisor.render.layout import Paper
from advisor.render.text import advice_text
from advisor.render.verdict import ab_heading, verdict


def screen(advice: Advice, width: int = 80) -> str:
    return " ".join(advice_text(advice, Paper(width)).split())


@pytest.mark.parametrize("limit", [10.0, 100.0, 400.0])
@pytest.mark.parametrize("concurrency", [1, 16, 64])
def test_an_objective_that_is_probably_missed_is_said_to_be(limit: float, concurrency: int) -> None:
    advice = recommend(hardware="gb10", concurrency=concurrency, max_tpot_ms=limit)
    chances = [p_objective(advice.request, advice.estimate, run) for run in ("value", "baseline")]
    likely = (chances[advice.decision != "on"] or 0.0) >= 0.5
    if advice.decided_by == "objective":
        assert (" ms missed: " in screen(advice)) != likely
    assert (" ms met: " in screen(advice)) == (
        advice.objective is not None and advice.objective.met
    )


@pytest.mark.parametrize(
    ("speedup", "said"),
    [(0.4, "is 2.5 times as long (16 instead of 32 requests run at once)"), (0.7, "")],
)
def test_a_first_token_that_takes_much_longer_is_said(speedup: float, said: str) -> None:
    """From one and a half times as long on: 1 / 0.7 is 1.43."""
    first = MetricEstimate(speedup=Interval(p10=0.9 * speedup, p50=speedup, p90=1.1 * speedup))
    terms = {"requests_base": 32.0, "requests_verify": 16.0}
    priced = cases.estimate().model_copy(update={"ttft_ms": first, "terms": terms})
    text = verdict(cases.on(estimate=priced))
    assert text.partition("; the time to first token ")[2].rstrip(".") == said


def test_the_ab_takes_as_long_as_its_requests() -> None:
    """By hand: 16 users send 64 requests, 4 rounds, twice, and one to warm up; a round of both arms
    is two first tokens of 3,989 ms and 512 of 61.2 + 60 ms: 9 x 70.0 s.
    """
    assert ab_heading(cases.measure()).startswith("A/B, about 11 min and two server starts (then")


def test_a_measured_first_token_is_not_called_unknown() -> None:
    text = screen(recommend(hardware="gb10", concurrency=16, goal="ttft"))
    assert "Likely a gain: TTFT was measured 2.31x here" in text
    assert "TTFT measured here: 2.31x (16 x 2,048 tokens, k=2)" in text


def test_nobody_is_told_to_test_drafts_that_cannot_run() -> None:
    advice = recommend(hardware="rtx4090", model="deepseek-v3.1")
    told = " ".join(reason.text for reason in advice.reasons)
    assert advice.candidate is None and advice.decided_by == "no_method"
    assert "then test k" not in told
    assert "nothing can draft" in told and "less memory cannot run it" in told


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_screen_keeps_levels_and_interval(width: int) -> None:
    text = screen(recommend(hardware="rtx4090"), width)
    assert "80 % interval" in text and " -> " in text.split("TPOT")[0]
    assert " ms (" in text.split("TPOT")[1]


def test_tensorrt_llm_is_not_said_to_lack_mtp_for_every_model() -> None:
    said = no_mtp_answer("tensorrt-llm") or ""
    assert "MTP is published for DeepSeek-R1 there" in said and "Where it has no MTP" in said


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"hardware": "h100", "model": "gemma-4-31b"}, "at least 94 % (no benchmark near"),
        ({"hardware": "gb10"}, "chance of a gain 9"),
        ({"hardware": "h100", "model": "qwen3.6-27b", "concurrency": 64}, "where a gain was"),
        ({"hardware": "h200", "model": "gpt-oss-120b", "concurrency": 64},
         "without a benchmark of this setting it takes 94 %"),
    ],
)  # fmt: skip
def test_a_chance_that_others_exceed_says_what_bounds_it(asked: dict[str, Any], words: str) -> None:
    """+61 % to +270 % and +5 % to +106 % are not both 94 %, and 88 % on beside 90 % measure has
    its reason on the screen.
    """
    advice = recommend(**asked)
    text = screen(advice)
    assert words in text and ("at least" in text) == ("at least" in words)


def test_measure_never_prints_the_chance_that_is_enough() -> None:
    answers = [
        recommend(hardware=hardware, model=model)
        for hardware in ("h100", "l40s", "mi300x", "gb10", "rtx4090", "jetson-thor")
        for model in ("qwen3.6-27b", "qwen3.6-35b-a3b", "gemma-4-31b")
    ]
    unsure = [one for one in answers if one.decided_by == "unsure" and one.estimate is not None]
    assert unsure
    assert not [one for one in unsure if "chance of a gain 90 %" in screen(one)]
