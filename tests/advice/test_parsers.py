"""Parsers of tools and of reasoning: the engine's own word for the model's format, or none."""

import pytest

from advisor import engines, recommend
from advisor.advice.plans.model_flags import parser_name
from advisor.domain.nouns import Facts
from advisor.knowledge import store as knowledge

TOOLS, THOUGHTS = "--tool-call-parser", "--reasoning-parser"

# as the SGLang cookbook starts these models (sgl-project/sgl-cookbook, 2026-05-01)
COOKBOOK = {
    "deepseek-r1": ("deepseek-r1", "deepseekv3"),
    "deepseek-v3.1": ("deepseek-v3", "deepseekv31"),
    "deepseek-v3.2": ("deepseek-v3", "deepseekv32"),
    "gemma-4-31b": ("gemma4", "gemma4"),
    "glm-4.5": ("glm45", "glm45"),
    "glm-4.6": ("glm45", "glm45"),
    "glm-5": ("glm45", "glm47"),
    "gpt-oss-120b": ("gpt-oss", "gpt-oss"),
    "kimi-k2.5": ("kimi_k2", "kimi_k2"),
    "llama-3.3-70b": (None, "llama3"),
    "minimax-m2.5": ("minimax-append-think", "minimax-m2"),
    "minimax-m2.7": ("minimax-append-think", "minimax-m2"),
    "mistral-small-4-119b": ("mistral", "mistral"),
    "nemotron-3-super-120b-a12b": ("nemotron_3", "qwen3_coder"),
    "qwen3.5-35b-a3b": ("qwen3", "qwen3_coder"),
    "qwen3-coder-next": (None, "qwen3_coder"),
    "step-3.5-flash": ("step3p5", "step3p5"),
}


@pytest.mark.parametrize("model", COOKBOOK)
def test_sglang_gets_its_own_words(model: str) -> None:
    facts = Facts(engine="sglang", engine_version="0.5.21")
    llm = knowledge.llm(model)
    asked = ((THOUGHTS, llm.reasoning_parser), (TOOLS, llm.tool_call_parser))
    assert tuple(parser_name(facts, *one) for one in asked) == COOKBOOK[model]


# formats that an engine's newest release cannot read; SGLang has the thinking of Hunyuan-A13B alone
NO_PARSER = {("sglang", "seed_oss"), ("sglang", "hunyuan_a13b"), ("sglang", "granite4")}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_no_release_gets_another_familys_parser(engine: str) -> None:
    """A word for every model in the newest release, and in no release that of another format."""
    adapter = engines.get(engine)
    for version in adapter.versions:
        facts = Facts(engine=engine, engine_version=version)
        for name in knowledge.index()["llms"]:
            llm = knowledge.llm(name)
            words = {THOUGHTS: llm.reasoning_parser, TOOLS: llm.tool_call_parser}
            for option, wanted in ((name, word) for name, word in words.items() if word):
                own = parser_name(facts, option, wanted)
                found = adapter.catalogue.find(option, version)
                known = found.choices or found.values or ()
                assert own is None or not known or own in known, (name, version, own)
                newest = version == adapter.newest and (engine, wanted) not in NO_PARSER
                assert own is not None or not newest, (name, option, wanted)
    older = Facts(engine="sglang", engine_version=engines.get("sglang").versions[0])
    assert parser_name(older, TOOLS, "deepseek_v4") in (None, "deepseekv4")


@pytest.mark.parametrize(
    ("model", "quant"),
    [
        ("qwen3-235b-a22b", "awq-int4"),  # of the 2507 release
        ("qwen3-next-80b-a3b", None),
        ("qwen3-coder-next", None),
    ],
)
def test_a_model_that_does_not_think_gets_no_parser(model: str, quant: str | None) -> None:
    made = recommend(
        hardware="h200", gpus=4, model=model, quant=quant, engine="vllm", what_if=False
    )
    assert THOUGHTS not in made.launch.argv and TOOLS in made.launch.argv


@pytest.mark.parametrize(
    ("model", "mode"), [("deepseek-v3.2", "deepseek_v32"), ("deepseek-v4-flash", "deepseek_v4")]
)
def test_a_model_without_a_chat_template_is_told_how_to_write_one(model: str, mode: str) -> None:
    made = recommend(hardware="b200", gpus=8, model=model, engine="vllm", what_if=False)
    argv = made.launch.argv
    assert argv[argv.index("--tokenizer-mode") + 1] == mode
    made = recommend(hardware="b200", gpus=8, model=model, engine="sglang", what_if=False)
    assert "--tokenizer-mode" not in made.launch.argv


@pytest.mark.parametrize(
    ("model", "engine", "version", "asked"),
    [
        ("kimi-k2.5", "vllm", None, True),  # its tokenizer is code
        ("ling-3.0-flash", "vllm", None, True),  # no class in vLLM 0.33.0 or transformers 5.20
        ("step-3.5-flash", "vllm", None, True),
        ("minimax-m2.7", "vllm", "0.22.1", True),  # transformers 4.56 is allowed, 5.5.3 has it
        ("minimax-m2.7", "vllm", "0.25.1", False),
        ("minimax-m2.7", "sglang", "0.5.9", True),  # pins transformers 4.57.1
        ("minimax-m2.7", "sglang", "0.5.14", False),
        ("nemotron-3-super-120b-a12b", "vllm", "0.21.0", True),
        ("nemotron-3-super-120b-a12b", "vllm", "0.32.0", False),
        ("deepseek-v4-flash", "vllm", None, False),
        ("qwen3.6-35b-a3b", "vllm", "0.19.1", False),
        ("glm-4.7-flash", "sglang", None, False),
    ],
)
def test_consent_where_needed(model: str, engine: str, version: str | None, asked: bool) -> None:
    made = recommend(
        hardware="b300", gpus=8, model=model, engine=engine, engine_version=version, what_if=False
    )
    for launch in (made.launch, made.launch_off, made.launch_on):
        assert launch is None or ("--trust-remote-code" in launch.argv) == asked
