"""Which repository and quantisation a proposal names: released formats, arms that differ in
speculation alone, what loads.
"""

from __future__ import annotations

from typing import Any

import pytest

from advisor.advice import recommend as pipeline
from advisor.advice.propose import PLACEHOLDER_ORG
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.knowledge import store as knowledge
from advisor.perf import memory


def recommend(**asked: Any) -> Advice:
    return pipeline.recommend(**asked)


@pytest.mark.parametrize("quant", ["awq-int4", "fp8", "bf16"])
def test_a_model_with_an_assistant_is_served_from_one_repository_in_both_arms(quant: str) -> None:
    made = recommend(
        hardware="a100-80gb" if quant != "fp8" else "h100",
        engine="vllm",
        model="gemma-4-26b-a4b",
        quant=quant,
    )
    assert (
        made.candidate is not None and made.candidate.method == "mtp" and made.launch_on is not None
    )
    assert made.candidate.model == made.plan.model and not str(made.plan.model).startswith(
        PLACEHOLDER_ORG
    )


@pytest.mark.parametrize(
    ("asked", "repository"),
    [
        (
            {"hardware": "rtx5090", "engine": "llama-server", "model": "gpt-oss-20b"},
            "ggml-org/gpt-oss-20b-GGUF",
        ),
        (
            {"hardware": "a100-80gb", "engine": "llama-server", "model": "gpt-oss-120b"},
            "ggml-org/gpt-oss-120b-GGUF",
        ),
        (
            {"hardware": "rtx5090", "engine": "llama-server", "model": "gemma-4-31b"},
            "unsloth/gemma-4-31B-it-GGUF:Q4_K_M",
        ),
        ({"hardware": "h100", "model": "gemma-4-31b"}, "RedHatAI/gemma-4-31B-it-FP8-dynamic"),
        (
            {"hardware": "h100", "model": "llama-3.1-8b"},
            "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
        ),
        ({"hardware": "rtx3090", "model": "qwen3-32b"}, "Qwen/Qwen3-32B-AWQ"),
        ({"hardware": "apple-m4-max", "model": "qwen3-8b"}, "Qwen/Qwen3-8B-GGUF:Q4_K_M"),
    ],
)
def test_popular_models_are_named_and_not_left_to_the_reader(
    asked: dict[str, Any], repository: str
) -> None:
    assert recommend(**asked).plan.model == repository


def test_kimi_is_served_as_it_was_released() -> None:
    made = recommend(hardware="h200", gpus=8, model="kimi-k2.5")
    assert made.facts.quant is not None and made.facts.quant.id == "int4"
    assert made.plan.model == "moonshotai/Kimi-K2.5" and "--trust-remote-code" in made.launch.argv
    assert memory.bill(made.facts, made.plan).weights_gib * 8 == pytest.approx(594e9 / 2**30)


def test_the_size_that_a_checkpoint_states_decides_whether_it_fits() -> None:
    """594 GB do not go into eight cards of 80 GB beside what vLLM needs; by bytes per tensor class
    they would.
    """
    with pytest.raises(AdvisorError, match="does not fit"):
        recommend(hardware="h100", gpus=8, model="kimi-k2.5", engine="vllm", quant="int4")


def test_gpt_oss_has_no_smaller_files() -> None:
    with pytest.raises(AdvisorError) as refused:
        recommend(hardware="rtx4070", model="gpt-oss-20b")
    assert "--quant" not in str(refused.value) and "--gpus 2" in str(refused.value)
    with pytest.raises(AdvisorError, match="--engine llama-server --quant mxfp4"):
        recommend(hardware="rtx5070ti", model="gpt-oss-20b", engine="vllm")


@pytest.mark.parametrize(
    "asked",
    [
        {"hardware": "rtx4060", "gpus": 8, "concurrency": 8},
        {
            "hardware": "rtx5060",
            "gpus": 8,
            "concurrency": 16,
            "model": "qwen3-30b-a3b",
            "engine": "vllm",
        },
    ],
)
def test_a_quantisation_whose_blocks_do_not_divide_is_not_chosen(asked: dict[str, Any]) -> None:
    made = recommend(**asked)
    assert made.facts.quant is not None and made.facts.quant.id in ("awq-int4", "nvfp4")
    with pytest.raises(AdvisorError, match="SD215"):
        recommend(**asked, quant="fp8")


def test_a_shortfall_names_fewer_gpus_where_only_they_divide_the_heads() -> None:
    asked = {"hardware": "rtx4080-super", "gpus": 3, "model": "qwen3-30b-a3b", "engine": "vllm"}
    with pytest.raises(AdvisorError, match=r"--gpus 2 \(of the 3\)"):
        recommend(**asked)
    assert recommend(**(asked | {"gpus": 2})).plan.tp == 2


def test_every_size_of_a_checkpoint_is_that_of_a_known_model() -> None:
    for ident in knowledge.index()["drafters"]:
        model = knowledge.llm(ident)
        for quant in knowledge.quant_ids():
            found = knowledge.checkpoint(model, quant, None, "none")
            if found is not None and found.size_gb:
                facts = facts_for_request(
                    Request(hardware="h200", gpus=8, model=ident, quant=quant, engine="vllm")
                )
                own = memory.weights_gib(facts.shape or model, knowledge.quant(quant))
                assert own and 0.8 < found.size_gb * 1e9 / 2**30 / own < 1.25
