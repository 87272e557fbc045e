"""The first screen over drawn questions: every decision, goal and objective in 22 lines of 80."""

import json
import random
import re
from typing import Any

import pytest

from advisor import recommend
from advisor.advice.explore.within import with_users
from advisor.advice.questions import advice_for
from advisor.domain.nouns import Advice, AdvisorError
from advisor.engines import no_mtp_answer
from advisor.render.json_out import advice_json
from advisor.render.layout import Paper
from advisor.render.text import SCREEN_LINES, advice_text, first_screen

DRAWN: dict[str, tuple[Any, ...]] = {
    "hw": ("gb10", "h100", "rtx3090", "rtx5090", "mi300x", "apple-m4-max", "strix-halo", "h200"),
    "model": ("qwen3.6-35b-a3b", "qwen3.6-27b", "gpt-oss-120b", "gemma-4-31b"),
    "engine": (None, None, "sglang", "llama-server"),
    "gpus": (1, 1, 2, 8),
    "concurrency": (1, 4, 16, 64, 256),
    "ctx_tokens": (512, 2048, 8192, 32_768),
    "goal": ("balanced", "throughput", "tpot", "ttft"),
    "max_tpot_ms": (None, None, 20.0, 50.0),
    "max_ttft_ms": (None, None, None, 2000.0),
}
ALSO = (
    {"hw": "gb10", "concurrency": 16},
    {"hw": "gb10", "concurrency": 16, "goal": "ttft"},
    {"hw": "gb10", "concurrency": 4, "ctx_tokens": 8192},
    {"hw": "gb10", "concurrency": 4, "ctx_tokens": 16_384},
    {"hw": "gb10", "gpus": 2, "model": "qwen3.8-flash-next"},
    {"hw": "rtx4090", "model": "qwen3.8-flash-next"},
    {"hw": "h200", "model": "gemma-4-31b", "concurrency": 256, "goal": "tpot"}
    | {"max_tpot_ms": 50.0, "max_ttft_ms": 2000.0},
    {"hw": "h100", "gpus": 2, "model": "gemma-4-31b", "concurrency": 256, "method": "eagle3"}
    | {"max_tpot_ms": 50.0},
    {"hw": "gb10", "gpus": 8, "model": "deepseek-v4-flash", "engine": "sglang", "ctx_tokens": 8192}
    | {"goal": "throughput"},
    {"hw": "h100", "gpus": 8, "model": "qwen3.6-27b", "concurrency": 512},
    {"hw": "b200", "concurrency": 260},
    {"hw": "mix-rtx3090x2-rtx3090ti", "model": "qwen3-8b", "max_tpot_ms": 50.0},
)


Answers = tuple[Advice, ...]
# how many are drawn -> how many have an objective, and an acceptance to watch
DRAWS = {5: (5, 4), 40: (24, 10)}


@pytest.fixture(scope="module", params=[5, pytest.param(40, marks=pytest.mark.slow)])
def answers(request: pytest.FixtureRequest) -> tuple[Advice, ...]:
    draw, told = random.Random(7), [with_users(advice_for(asked, False)) for asked in ALSO]
    while len(told) < request.param + len(ALSO):
        asked = {name: draw.choice(values) for name, values in DRAWN.items()}
        try:
            told.append(with_users(advice_for(asked, False)))
        except AdvisorError:
            continue
    return tuple(told)


def lines_of(advice: Advice, start: str) -> list[str]:
    return [line for line in first_screen(advice, Paper(80)) if line.startswith(start)]


def test_every_decision_goal_and_objective_was_drawn(answers: Answers) -> None:
    assert {a.decision for a in answers} == {"on", "off", "measure"}
    assert {a.request.goal for a in answers} == {"balanced", "throughput", "tpot", "ttft"}
    drawn = len(answers) - len(ALSO)
    assert sum(a.objective is not None for a in answers) == DRAWS[drawn][0]


def test_a_screen_has_22_lines(answers: Answers) -> None:
    tall = {len(advice_text(a).splitlines()): a.request for a in answers}
    assert {n: asked for n, asked in tall.items() if n > 22 or n > SCREEN_LINES} == {}
    assert all(len(line) <= 80 for a in answers for line in lines_of(a, "output tok/s"))


def test_one_line_says_why_and_the_first_risk_has_a_way_back(answers: Answers) -> None:
    watched = 0
    for advice in answers:
        assert len(lines_of(advice, "Why: ")) == 1, advice.request
        if advice.decision == "on" and not any(reason.risk for reason in advice.reasons):
            watched += 1
            text = " ".join("\n".join(first_screen(advice, Paper(80))).split())
            assert re.search(r"Risk: watch acceptance: below [\d.]+ (tokens|% of drafts)", text)
            flag = text.partition(", drop ")[2].split()[0].rstrip("*-")
            assert any(word.startswith(flag) for word in advice.launch.argv)
            assert not any(word.startswith(flag) for word in advice.launch_off.argv)
    assert watched == DRAWS[len(answers) - len(ALSO)][1]


def test_the_acceptance_to_watch_is_where_the_steps_gain_nothing(
    answers: Answers,
) -> None:
    """A cycle of c plain steps gains nothing at c tokens, and at what is expected what is said."""
    screens = [(advice, "\n".join(first_screen(advice, Paper(80)))) for advice in answers]
    said = [(a.estimate, re.search(r"below ([\d.]+) tokens a step", text)) for a, text in screens]
    levels = [(estimate, float(found[1])) for estimate, found in said if found]
    assert levels
    for estimate, level in levels:
        gain = estimate.tpot_ms.speedup.p50
        assert level * gain == pytest.approx(estimate.accepted_length.p50, rel=0.01)
    for advice, text in screens:  # beside a price of a step stands the gain that it makes
        for cost, tokens in re.findall(r"costs ([\d.]+) plain ones and yields ([\d.]+)", text):
            made = float(tokens) / float(cost) / advice.estimate.output_tok_s.speedup.p50
            assert 0.8 < made < 1.25, advice.request


def test_measure_first_leans_and_holds_the_command(answers: Answers) -> None:
    asked = [advice for advice in answers if advice.decision == "measure"]
    assert any(advice.measure_with for advice in asked)
    for advice in (advice for advice in asked if advice.measure_with):
        screen = "\n".join(first_screen(advice, Paper(80)))
        assert "Likely a gain" in screen or "Likely a loss" in screen, screen
        assert re.search(r"^A/B(, about \d+ min .*)? \(then advisor bench run", screen, re.M)
        assert advice.measure_with[0] in " ".join(screen.replace(" \\\n   ", "").split())


def test_an_objective_is_the_second_line_and_a_field(answers: Answers) -> None:
    for advice in answers:
        told = advice_json(advice)["objective"]
        asked = advice.request.max_tpot_ms, advice.request.max_ttft_ms
        assert (told is None) == (asked == (None, None))
        if told is None:
            continue
        screen = first_screen(advice, Paper(80))
        assert screen[1].startswith("Objective T"), screen
        chance = told["chance"] if advice.decision == "on" else told["chance_without"]
        assert told["met"] == (None if chance is None else chance >= 0.5)
        assert {True: " met: ", False: " missed: ", None: " not known: "}[told["met"]] in screen[1]
        if chance is not None and (advice.decision != "measure" or told["users_without"]):
            assert re.search(r"users? at 90 %", " ".join(screen[1:4]))


def test_no_sign_where_it_is_not_predictable(answers: Answers) -> None:
    """Neither text, the quiet line nor JSON has a ratio of a time to first token of which neither
    sign nor size is known, nor a chance of a gain in it.
    """
    priced = [advice for advice in answers if advice.estimate is not None]
    bare = [advice for advice in priced if not advice.estimate.ttft_ms.predictable]
    assert {"ttft"} < {advice.facts.goal for advice in bare}
    for advice in bare:
        row = lines_of(advice, "TTFT ")[0]
        assert "not predictable" in row and not re.search(r"[\d.]+x", row)
        told = json.loads(json.dumps(advice_json(advice)))
        metric = told["estimate"]["ttft_ms"]
        assert metric["speedup"] is None and metric["value"] is None
        if metric["value_range"] is not None:
            assert metric["value_range"]["p50"] is None
            assert metric["value_range"]["p10"] < metric["value_range"]["p90"]
        if advice.facts.goal == "ttft":
            assert told["gain"] is None and told["estimate"]["p_gain"] is None


def screen(advice: Advice, width: int = 80) -> str:
    return " ".join(advice_text(advice, Paper(width)).split())


def test_nobody_is_told_to_test_drafts_that_cannot_run() -> None:
    advice = recommend(hardware="rtx4090", model="deepseek-v3.1")
    told = " ".join(reason.text for reason in advice.reasons)
    assert advice.candidate is None and advice.decided_by == "no_method"
    assert "then test k" not in told
    assert "nothing can draft" in told and "less memory cannot run it" in told


def test_tensorrt_llm_is_not_said_to_lack_mtp_for_every_model() -> None:
    said = no_mtp_answer("tensorrt-llm") or ""
    assert "MTP is published for DeepSeek-R1 there" in said and "Where it has no MTP" in said
