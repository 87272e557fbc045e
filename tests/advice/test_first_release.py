"""No launch names a release that is known to be older than the model."""

from __future__ import annotations

import pytest

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.domain.nouns import AdvisorError, Request
from advisor.domain.versions import parse_release
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.rules.kit.models import first_release

ROWS = table("compatibility")["model_since"]


def ask(model: str, engine: str, version: str) -> None:
    recommend(Request(hardware="b200", gpus=16, model=model, engine=engine, engine_version=version))


@pytest.mark.parametrize(
    ("model", "engine", "before", "since"),
    [
        ("kimi-k3", "vllm", "0.26.0", "0.27.0"),
        ("gemma-4-31b", "sglang", "0.5.10", "0.5.11"),
        ("gemma-4-12b", "sglang", "0.5.12", "0.5.13"),
    ],
)
def test_an_older_release_is_refused(model: str, engine: str, before: str, since: str) -> None:
    with pytest.raises(AdvisorError, match=f"{engine} {before} cannot load .* needs {since}"):
        ask(model, engine, before)
    ask(model, engine, since)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['engine']} {row['model']}")
def test_each_row_is_of_known_models_and_releases(row: dict[str, str]) -> None:
    models = [one for one in knowledge.llm_ids() if one.startswith(row["model"])]
    assert models, "no model is meant"
    newest = parse_release(engines.get(row["engine"]).newest)
    since = parse_release(row["since"])
    assert since is not None and newest is not None and since <= newest


def test_the_longest_name_decides() -> None:
    assert first_release("gemma-4-12b", "sglang") != first_release("gemma-4-31b", "sglang")
    assert first_release("llama-3.3-70b", "vllm") is None
