"""Bounds that no answer crosses, on thousands of drawn questions at once: rows that ask take the
road of every question.
"""

import random
from math import ceil, exp
from typing import Any

import numpy as np
import pytest

from advisor import predict, recommend
from advisor.advice.judge import candidate_plans
from advisor.advice.recommend import check_request
from advisor.advice.resolve import bare_facts
from advisor.advice.rows.limits import with_limits
from advisor.advice.rows.predict import RowWords
from advisor.perf import memory
from advisor.perf.encoding.cells import read_words
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.encoding.encode_rows import from_columns
from advisor.perf.encoding.things import count_held, setting, things_of_rows
from advisor.prediction.artefact import load
from advisor.prediction.model import prepare
from advisor.prediction.predict import Story, as_one_story
from advisor.prediction.predict_table import READ_HERE, Encoded

MACHINES = ("gb10", "rtx3090", "rtx4090", "rtx5090", "a100-80gb", "h100-sxm", "h200", "mi300x",
            "b200", "apple-m4-max", "l40s")  # fmt: skip
MODELS = ("qwen3.6-35b-a3b", "qwen3.6-27b", "qwen3.5-9b", "gemma-4-31b")


def draw_rows(count: int, seed: int, tokens: tuple[int, int]) -> list[dict[str, str]]:
    """Rows of one GPU with MTP; answers of `tokens`, all of one length."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        engine = draw.choice(("vllm", "sglang", "llama-server"))
        words = {
            "hardware": draw.choice(MACHINES),
            "model": draw.choice(MODELS),
            "engine": engine,
            "quant": "q4_k_m" if engine == "llama-server" else draw.choice(("fp8", "bf16")),
            "spec_method": "mtp",
            "k": draw.randint(1, 6),
            "concurrency": round(exp(draw.uniform(0, 6.5))),
            "input_tokens": round(exp(draw.uniform(4, 10.5))),
            "output_tokens": draw.randint(*tokens),
            "output_spread": 0,
            "speedup_metric": draw.choice(("output_tok_s", "request_tok_s", "tpot")),
        }
        rows.append({name: str(word) for name, word in words.items()})
    return rows


def story_of(rows: list[dict[str, str]]) -> tuple[Story, list[str]]:
    """What is expected of rows that ask, and the KV cache type of each."""
    asks = np.ones(len(rows), dtype=bool)
    whole = RowWords({n: [row[n] for row in rows] for n in rows[0]}, len(rows), asks).complete()
    read = {x: read_words(whole.columns, x, len(rows)) for x in READ_HERE if x in whole.columns}
    points, things = from_columns(read, len(rows))[0], things_of_rows(read, len(rows))
    points, things, table = with_limits(Encoded(points, things, read), asks, {})
    with np.errstate(all="ignore"):
        held = count_held(points, prepare(points)[1], things, table)
        story = as_one_story(held, load(), lambda full: setting(things, full))
    return story, [table["kv_cache_dtype"].of(i) for i in range(len(rows))]


def steps_apart(one: Story, other: Story, metric: str) -> Any:
    """By how much two stories differ in a gain, in log (N,)."""
    return np.abs(np.log(one.found[metric].p50 / other.found[metric].p50))


@pytest.mark.parametrize("field", ["concurrency", "input_tokens"])
def test_no_step_along_load_or_context_without_a_cause(field: str) -> None:
    """All run, with caches of one type: 1 % more load or prompt moves no gain by 10 %."""
    rows = [row for row in draw_rows(5_000, 13, (64, 2048)) if int(row[field]) >= 30]
    more = [row | {field: str(round(1.01 * int(row[field]) + 0.5))} for row in rows]
    (low, cache), (high, other) = story_of(rows), story_of(more)
    same = np.array(cache) == np.array(other)
    for story, asked in ((low, rows), (high, more)):
        at_once = np.array([int(row["concurrency"]) for row in asked])
        for arm in ("requests_base", "requests_verify"):
            same &= story.terms[arm] == at_once
    assert same.sum() > 700
    for metric in ("output_tok_s", "tpot"):
        apart = np.where(same, steps_apart(low, high, metric), 0.0)
        assert apart.max() < 0.1, (metric, rows[int(apart.argmax())])


def test_no_step_along_k_where_drafts_fill_the_memory() -> None:
    """The slots that the largest k leaves are still more than one request needs: its prompt takes
    as long as with one draft token less. On an L40S the first token took 1.5 times as long.
    """
    rows = [row | {"concurrency": "1"} for row in draw_rows(3_000, 14, (64, 512))]
    rows = [row for row in rows if row["engine"] == "vllm" and int(row["k"]) < 6]
    story, _ = story_of(rows)
    longer, _ = story_of([row | {"k": str(int(row["k"]) + 1)} for row in rows])
    apart = steps_apart(story, longer, "ttft")
    assert apart.max() < 0.12, rows[int(apart.argmax())]


@pytest.mark.parametrize(
    "asked",
    [
        {"hardware": "rtx4090", "model": "qwen3-8b", "engine": "vllm", "concurrency": 128},
        {"hardware": "gb10", "model": "llama-3.3-70b", "method": "eagle3", "concurrency": 16},
        {"hardware": "h100", "model": "gemma-4-31b", "method": "eagle3", "concurrency": 256},
    ],
)
def test_the_arm_without_drafts_keeps_no_drafter_in_memory(asked: dict[str, Any]) -> None:
    question = candidate_plans(bare_facts(check_request(asked)))
    facts, plans = question.facts, question.plans
    tokens = (facts.ctx_tokens or 0) + (facts.output_tokens or 0)
    assert plans and all(plan.draft_model for plan in plans)
    alone = memory.max_requests(facts, question.base.plan, tokens)
    assert alone is not None and (from_plans(facts, plans).held_base == alone).all()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_two_tokens_gain_nothing_beside_a_server_that_caches(share: float) -> None:
    """The second token takes a step of either server; a prefix cache is no gain of drafts."""
    asked: dict[str, Any] = {"hardware": "gb10", "model": "qwen3-next-80b-a3b", "engine": "vllm"}
    load = {"concurrency": 16, "ctx_tokens": 3000, "output_tokens": 2, "prefix_share": share}
    answer = recommend(**asked, **load, output_spread=0.0, goal="tpot", what_if=False)
    estimate = answer.candidate and answer.estimate
    assert estimate is None or estimate.tpot_ms.speedup.p50 <= 1.001


FITTING = {"None", "does not fit"}


def test_no_answer_takes_less_than_its_steps() -> None:
    """n tokens gain at most (n - 1) / ceil((n - 1) / (k + 1)), so that two gain nothing."""
    rows = draw_rows(8_000, seed=12, tokens=(2, 64))
    answers = predict(rows)
    assert {str(told["error"]).partition(" on ")[0][-12:] for told in answers} <= FITTING
    for row, told in [pair for pair in zip(rows, answers, strict=True) if not pair[1]["error"]]:
        after = int(row["output_tokens"]) - 1
        assert told["speedup_p90"] <= after / ceil(after / (int(row["k"]) + 1)) + 1e-4, row
        assert after > 1 or told["decision"] == "off", row
