"""No launch names a release that is known to be older than the model."""

import pytest

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.domain.versions import parse_release
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.rules.kit.models import first_release
from advisor.rules.kit.releases import build_order

ROWS = table("compatibility")["model_since"] + table("compatibility")["mtp_since"]


def ask(model: str, engine: str, version: str) -> None:
    recommend(Request(hardware="b200", gpus=16, model=model, engine=engine, engine_version=version))


BUILDS = {  # model -> a build that lacks it, one that nobody read, the first known with it
    "qwen3.6-35b-a3b": ("b7976", "b8000", "b8018"),
    "qwen3-next-80b-a3b": ("b7185", None, "b7186"),
    "gemma-4-26b-a4b": ("b8636", None, "b8637"),
    "glm-4.5-air": (None, None, "b8643"),  # older than the oldest catalogued build
}


@pytest.mark.parametrize("model", BUILDS)
def test_a_build_of_llama_cpp_without_the_model_is_refused(model: str) -> None:
    lacks, unread, has = BUILDS[model]
    if lacks is not None:
        with pytest.raises(AdvisorError, match=f"llama-server {lacks} cannot load .* needs {has}"):
            ask(model, "llama-server", lacks)
    for build in (unread, has):
        if build is not None:
            ask(model, "llama-server", build)
    ask(model, "llama-server", "0.5.0")  # a version is the build that it was made from


def test_a_build_that_cannot_draft_with_the_head_is_off_and_says_which_can() -> None:
    def answer(build: str) -> Advice:
        asked = {"hardware": "gb10", "model": "nemotron-3-super-120b-a12b"}
        return recommend(Request(**asked, engine="llama-server", engine_version=build))

    before, after = answer("b10343"), answer("b10344")
    assert before.decision == "off" and after.decision != "off"
    assert any("b10344" in reason.text for reason in before.reasons)
    assert not any("does not draft with" in reason.text for reason in after.reasons)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['engine']} {row['model']}")
def test_each_row_is_of_known_models_and_releases(row: dict[str, str]) -> None:
    assert [one for one in knowledge.llm_ids() if one.startswith(row["model"])], "no model is meant"
    newest, since, lacks = (
        build_order(one) if row["engine"] == "llama-server" else parse_release(one)
        for one in (engines.get(row["engine"]).newest, row["since"], row.get("lacks"))
    )
    assert since is not None and newest is not None and (lacks or ()) < since <= newest


def test_the_longest_name_decides() -> None:
    assert first_release("gemma-4-12b", "sglang") != first_release("gemma-4-31b", "sglang")
    assert first_release("llama-3.3-70b", "vllm") is None
