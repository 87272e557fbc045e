"""Which images are a project's own release."""

import pytest

from advisor.engines.images import official_engine


@pytest.mark.parametrize(
    ("image", "engine"),
    [
        ("vllm/vllm-openai:v0.33.0", "vllm"),
        ("registry.example:5000/mirror/vllm/vllm-openai@sha256:0", "vllm"),
        ("lmsysorg/sglang:v0.5.23", "sglang"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama-server"),
        ("nvcr.io/nvidia/vllm:25.12-py3", None),  # builds of commits between releases
        ("nvcr.io/nvidia/sglang:25.12-py3", None),
        ("me/vllm", None),
    ],
)
def test_builds_of_others_are_no_release_of_the_project(image: str, engine: str | None) -> None:
    assert official_engine(image) == engine
