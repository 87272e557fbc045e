"""What public recipes state against what is known and launched here: equal, or a reason."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from advisor import recommend
from advisor.advice import judge
from advisor.domain.nouns import Advice
from advisor.domain.paths import knowledge_dir
from advisor.knowledge import heads, store
from tests import method_table
from tests.tables import load_yaml, spread

ENGINES = {"vllm": "vllm", "sglang": "sglang", "speculators": "vllm", "specforge": "sglang"}
LARGE = {"hardware": "b300", "gpus": 8, "concurrency": 8}


@cache
def table(name: str) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(knowledge_dir() / "recipes" / f"{name}.yaml")
    return found


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ENGINES:
        for row in table(name)["rows"]:
            yield name, row


def method_of(row: dict[str, Any]) -> str:
    word = str(row.get("method") or "")
    return "mtp" if word.endswith("_mtp") else word


def known_differences(name: str, row: dict[str, Any]) -> Iterator[str]:
    """Facts of a row that the files here do not have, or have otherwise."""
    model, method, drafter = store.llm(row["model"]), method_of(row), row.get("drafter")
    if row.get("context") not in (None, model.max_context_tokens):
        yield "context"
    if method == "mtp":
        assistant = drafter if drafter != row.get("repository") else None
        if not (heads.head(model).has or model.assistant) or assistant not in (
            None,
            model.assistant,
        ):
            yield "head"
    elif method:
        own = [
            d for d in store.drafters(model) if d.method == method and ENGINES[name] in d.engines
        ]
        fits = [d for d in own if d.repository == drafter or (drafter is None and d.inside)]
        if not fits:
            yield f"drafter {drafter or method}"
        elif row.get("k") not in (None, fits[0].k) and name != "specforge":
            yield "k"
    parsers = ("reasoning_parser", "tool_call_parser")
    yield from (
        x for x in parsers if name == "vllm" and row.get(x, getattr(model, x)) != getattr(model, x)
    )
    held = {one.repository: one for one in store.checkpoints(model)}
    for repository, precision in row.get("precisions", {}).items():
        if repository in held and precision not in held[repository].quant:
            yield f"precision of {repository}"
    inside = [r for d in store.drafters(model) if d.method == method for r in d.inside]
    for repository in row.get("checkpoints", ()):
        if method == "mtp" and repository in held and held[repository].keeps_mtp is not True:
            yield f"head of {repository}"
        if inside and repository not in inside:
            yield f"{method} of {repository}"


@cache
def answer(model: str, engine: str) -> Advice:
    return recommend(**LARGE, model=model, engine=engine, what_if=False)


def launched_differences(name: str, row: dict[str, Any]) -> Iterator[str]:
    """What the launch of a recipe's own choice has otherwise."""
    advice = answer(row["model"], ENGINES[name])
    plan = advice.candidate
    if plan is None or plan.method != method_of(row):
        yield "launch"
    elif row.get("tp") not in (None, plan.tp):
        yield "tp"
    for parser in ("reasoning_parser", "tool_call_parser"):
        if name == "sglang" and row.get(parser) not in (None, getattr(advice.plan, parser)):
            yield f"launched {parser}"
    if advice.plan.max_model_len and advice.plan.max_model_len > row.get("context", 1e9):
        yield "length"


def disagreements(name: str, row: dict[str, Any]) -> set[str]:
    return {
        one["fact"]
        for one in table(name)["disagreements"]
        if one["model"] == row["model"] and one.get("recipe") in (None, row.get("recipe"))
    }


@pytest.mark.parametrize("name", ENGINES)
def test_facts_agree_with_the_recipes(name: str) -> None:
    wrong = [
        f"{row['model']}: {fact}"
        for row in table(name)["rows"]
        for fact in known_differences(name, row)
        if fact not in disagreements(name, row)
    ]
    assert not wrong


CHOSEN = [(name, row) for name, row in rows() if row.get("default")]


@pytest.mark.parametrize(
    ("name", "row"), spread(CHOSEN, 3), ids=[f"{row['model']}-{name}" for name, row in CHOSEN]
)
def test_launches_agree_with_the_recipes(name: str, row: dict[str, Any]) -> None:
    assert set(launched_differences(name, row)) <= disagreements(name, row)


def test_no_model_that_a_recipe_drafts_with_is_answered_none() -> None:
    """Some of those that no recipe launches by default; the most served are asked below."""
    asked = {(row["model"], ENGINES[name]) for name, row in rows() if row.get("method")}
    asked -= {(row["model"], ENGINES[name]) for name, row in CHOSEN}
    for model, engine in random.Random(37).sample(sorted(asked), 6):
        assert answer(model, engine).candidate is not None, (model, engine)


def test_every_disagreement_has_a_reason_and_is_one() -> None:
    for name in ENGINES:
        for one in table(name)["disagreements"]:
            assert len(one["reason"]) > 10
            found = [row for row in table(name)["rows"] if one["fact"] in disagreements(name, row)]
            assert any(
                one["fact"] in (*known_differences(name, row), *launched_differences(name, row))
                for row in found
                if row["model"] == one["model"]
            ), f"{name}: {one} is no longer one: delete it"


WRITTEN = (Path(__file__).parents[2] / "docs" / "drafters.md").read_text(encoding="utf-8")
DRAFTING = [model for model in method_table.top_models() if method_table.words_of(model)]


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert method_table.table() == WRITTEN, "python -m tests.method_table > docs/drafters.md"


@pytest.mark.parametrize("model", spread(DRAFTING, 6))
def test_no_published_way_is_left_out(model: str) -> None:
    """Each head and drafter has a launch, on the page, without an unknown flag, value, key or
    combination (SD1xx), and its model is never answered "nothing drafts".
    """
    engines = []
    for word in method_table.words_of(model):
        ways = [method_table.way(model, word, engine) for engine in method_table.RELEASES]
        planned = [way for way in ways if way.plan is not None and way.facts is not None]
        assert planned and all(f" {way.cell()} |" in WRITTEN for way in ways)
        for way in planned:
            found = judge.judge(way.facts, way.plan, None).findings
            assert not [f"{f.code} {f.message}" for f in found if f.severity == "error"], way.engine
        engines += [way.engine for way in planned]
    answer = recommend(**method_table.MACHINE, model=model, engine=engines[0], what_if=False)
    assert answer.candidate is not None and answer.decided_by != "no_method"
