"""A balanced goal where the first token comes much later: the whole answer counts, which output
tok/s has in it and TPOT has not.
"""

from typing import Any

import numpy as np
import pytest

from advisor import recommend
from advisor.advice.explore.sweep import sweep
from advisor.domain.nouns import Request
from advisor.prediction.decision import GOAL_WEIGHTS, LATE, goal_weights, token_wait
from advisor.render.text import advice_text


def test_tokens_are_paid_from_one_growth_of_the_wait_to_another() -> None:
    first = np.array([1.2, 1.0, 1 / LATE[0], 1 / np.sqrt(LATE[0] * LATE[1]), 1 / LATE[1], 0.01])
    paid = token_wait(np.zeros(6, dtype=bool), first)
    assert paid == pytest.approx([0, 0, 0, 0.5, 1, 1])
    assert (token_wait(np.ones(6, dtype=bool), first) == 1).all()
    weights = np.array(goal_weights("balanced", paid))
    assert weights.sum(axis=0) == pytest.approx(1)
    assert weights[:, 0] == pytest.approx(GOAL_WEIGHTS["balanced"])
    assert weights[:, -1] == pytest.approx(GOAL_WEIGHTS["throughput"])
    for goal in ("throughput", "tpot", "ttft"):
        assert np.ptp(np.array(goal_weights(goal, paid)) - np.array([GOAL_WEIGHTS[goal]]).T) == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"hardware": "mi300x", "concurrency": 64, "ctx_tokens": 32_768},
        {"hardware": "b200", "concurrency": 64, "ctx_tokens": 32_768},
        {"hardware": "h200", "model": "qwen3.5-9b", "concurrency": 128, "ctx_tokens": 32_768},
        {"hardware": "h200", "concurrency": 128, "ctx_tokens": 32_768},
    ],
    ids=lambda asked: f"{asked['hardware']}-{asked['concurrency']}",
)
def test_quicker_tokens_do_not_turn_on_what_whole_answers_lose(asked: dict[str, Any]) -> None:
    made = recommend(**asked)
    whole = made.estimate.output_tok_s.speedup.p50
    assert made.decision != "on"
    assert made.gain.p50 == pytest.approx(whole, rel=0.1)
    screen = " ".join(advice_text(made).split())
    assert "judged by output tok/s" in screen
    tokens = recommend(**asked, goal="tpot")
    assert tokens.gain.p50 > made.gain.p50
    assert "judged by" not in advice_text(tokens)


def test_nothing_is_said_where_the_first_token_comes_as_soon() -> None:
    made = recommend(hardware="gb10", concurrency=16)
    assert made.decision == "on" and "judged by" not in advice_text(made)


def test_long_times_leave_the_table_within_its_width() -> None:
    asked = {"hardware": "mi60", "model": "qwen3.8-27b", "ctx_tokens": 32_768}
    made = recommend(**asked, concurrency=64)
    table = [line for line in advice_text(made).splitlines() if line.startswith(("TPOT", "TTFT"))]
    assert len(table) == 2 and all(len(line) <= 80 for line in table)
    assert " s (" in table[0]


@pytest.mark.parametrize(("hardware", "concurrency"), [("h100", 1024), ("mi300x", 2048)])
def test_what_the_limit_of_requests_gives_is_not_booked_on_speculation(
    hardware: str, concurrency: int
) -> None:
    """Both runs have as many requests at once, in the answer, its launches and a sweep."""
    asked = {"hardware": hardware, "model": "qwen3.6-35b-a3b", "goal": "tpot"}
    made = recommend(**asked, concurrency=concurrency, what_if=False)
    terms = made.estimate.terms
    assert terms["requests_verify"] == terms["requests_base"] < concurrency
    assert made.plan_off.max_num_seqs == made.plan.max_num_seqs == terms["requests_base"]
    # one step more for so many tokens is all that drafts can save: never the limit's part
    assert made.gain.p50 <= made.estimate.accepted_length.p50
    base = Request(**asked, concurrency=concurrency)
    load = sweep(base, {"concurrency": [concurrency]}).loads[0]
    assert load.decision == made.decision and load.best_k is not None
    point = load.point(load.best_k)
    assert point.gain.p50 == pytest.approx(made.gain.p50, rel=0.01)
    assert "requests at once" in advice_text(made).partition("Risk: both launches")[2]
