"""What is said to change the answer does: the other question is answered as the line says."""

import re
from typing import Any

import pytest

from advisor.advice import decide, judge, resolve
from advisor.advice import recommend as recommend_module
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Advice, AdvisorError
from tests.tables import fields

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"hardware": "gb10", "concurrency": 16, "ctx_tokens": 2048},
    {"hardware": "gb10", "quant": "nvfp4", "concurrency": 4, "ctx_tokens": 32768},
    {"hardware": "rtx3090", "gpus": 2, "model": "qwen3.6-27b"},
    {"hardware": "h100", "gpus": 4, "model": "glm-4.5-air", "concurrency": 64, "goal": "tpot"},
    {"hardware": "rtx3060", "model": "qwen3.5-9b", "concurrency": 8, "ctx_tokens": 8192},
    {"hardware": "rtx4090", "model": "qwen3.5-9b", "concurrency": 1},
    fields("hardware=h200 gpus=8 model=qwen3.6-35b-a3b engine=sglang concurrency=64 goal=tpot"),
    fields("hardware=rtx3090 model=qwen3-8b engine=vllm concurrency=32 goal=throughput"),
    {"hardware": "l40s", "model": "qwen3.6-27b", "concurrency": 16, "ctx_tokens": 8192},
)
LINES: tuple[tuple[str, str, Any], ...] = (  # the line, and how it is asked
    (r"about (\d+) concurrent requests or (?:more|fewer): (.+)", "concurrency", int),
    (r"one (request) at a time: (.+)", "concurrency", lambda _: 1),
    (r"about (\d+) prompt tokens per request or (?:more|fewer): (.+)", "ctx_tokens", int),
    (
        r"a measured acceptance length of ([\d.]+) at k=\d+ or (?:less|more) \(.+\): (.+)",
        "acceptance_length",
        float,
    ),
)


def others(advice: Advice) -> list[tuple[dict[str, Any], str]]:
    """The question behind each line that names one, and the decision that it promises."""
    found: list[tuple[dict[str, Any], str]] = []
    for line in advice.would_change:
        for pattern, field, read in LINES:
            if told := re.fullmatch(pattern, line):
                changed = {field: read(told[1])}
                if field == "acceptance_length":
                    changed["acceptance_k"] = advice.candidate.k
                found.append((changed, told[2].replace("measure first", "measure")))
    return found


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_each_condition_is_what_that_question_is_answered(asked: dict[str, Any]) -> None:
    advice = recommend(**asked)
    told = others(advice)
    assert told
    for changed, decision in told:
        assert decision != advice.decision
        assert recommend(**asked | changed).decision == decision, changed


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_what_the_other_questions_leave_out_decides_nothing(asked: dict[str, Any]) -> None:
    """With all rules and near pairs, or with what can decide only: one verdict at each load."""
    for streams in (1, 16, 64):
        request = recommend_module.check_request({**asked, "concurrency": streams})
        try:
            full = judge.candidate_plans(resolve.facts_for_request(request))
        except AdvisorError:
            continue
        estimates = judge.estimate_plans(full.facts, full.all_plans)
        brief = judge.candidate_plans(resolve.bare_facts(request), judge.weigh)
        assert brief.plans == full.plans and brief.bills == full.bills == tuple(
            one.memory for one in estimates[: len(full.plans)]
        )
        one = decide.decide(full.facts, judge.judge_plans(full, estimates)[0])
        other = decide.decide(brief.facts, judge.judge_plans(brief, estimates, judge.weigh)[0])
        assert (one.decision, one.best, one.rule) == (other.decision, other.best, other.rule)


def test_a_load_with_another_answer_is_named() -> None:
    """SD402 is of four long prompts on a GB10: shorter prompts speculate on any release."""
    advice = recommend(hardware="gb10", quant="nvfp4", concurrency=4, ctx_tokens=32768)
    assert advice.decision == "off" and "SD402" in {f.code for f in advice.findings if f.effect}
    shorter = r"about \d+ prompt tokens per request or fewer: on"
    assert any(re.match(shorter, line) for line in advice.would_change)


def test_a_load_that_cannot_be_served_is_not_named() -> None:
    advice = recommend(
        hardware="rtx3090", model="qwen3-8b", engine="vllm", concurrency=32, goal="throughput"
    )
    assert (advice.facts.model.max_context_tokens or 0) < 131072
    assert not [line for line in advice.would_change if "131072" in line]


@pytest.mark.parametrize(
    ("asked", "word", "offered"),
    [
        # a drafter that only vLLM loads is no way out on Apple Silicon
        ("hardware=apple-m4-max model=llama-3.1-8b", "--engine vllm", False),
        ("hardware=rtx4070-laptop model=qwen3-8b", "--gpus", False),
        ("hardware=h100-sxm model=llama-3.1-8b engine=llama-server", "--engine vllm", True),
    ],
)
def test_what_is_offered_is_for_the_hardware(asked: str, word: str, offered: bool) -> None:
    assert (word in " ".join(recommend(**fields(asked)).would_change)) == offered


def test_a_smaller_cache_is_named_where_reading_it_is_most_of_a_step() -> None:
    """By hand: 60 x 9,192 tokens x 131 kB are 72 GB of the 81 of a step; half leave 45: 1.8x."""
    asked = {"hardware": "gb10", "model": "llama-3.1-8b", "ctx_tokens": 8192, "output_tokens": 2000}
    option, gain = recommend(**asked, concurrency=60).quicker.removesuffix(" %").split(": +")
    assert option == "--kv-cache-dtype fp8" and 1.65 < 1 + int(gain) / 100 < 1.85
    given, only_so = recommend(**asked, kv_cache_dtype="fp8"), recommend(**asked, concurrency=61)
    assert {one.quicker for one in (given, only_so, recommend(hardware="gb10"))} == {""}
    assert only_so.plan.kv_cache_dtype == "fp8"
    odd = {"hardware": "3090", "gpus": 3, "engine": "llama-server", "concurrency": 64}
    assert recommend(**odd, model="qwen3.6-27b", ctx_tokens=1500).quicker.startswith("--gpus 2: +")
