"""--trust-remote-code is written where the release has no class of its own for the model, and
nowhere else: it runs code of the repository.
"""

import pytest

from advisor import recommend

OPTION = "--trust-remote-code"


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
def test_consent_is_given_where_it_is_needed(
    model: str, engine: str, version: str | None, asked: bool
) -> None:
    made = recommend(
        hardware="b300", gpus=8, model=model, engine=engine, engine_version=version, what_if=False
    )
    for launch in (made.launch, made.launch_off, made.launch_on):
        assert launch is None or (OPTION in launch.argv) == asked
