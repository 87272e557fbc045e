"""SGLang's diffusion server has options of its own: it is named, not judged as the language model
server.
"""

import pytest

from advisor.readers import FileRead, read_text

DIFFUSION = [
    "sglang serve --model-path Qwen/Qwen-Image --num-gpus 2 --webui --port 30010",
    "sglang serve --model-path Wan-AI/Wan2.2-T2V-A14B-Diffusers --num-gpus 4 --host 0.0.0.0",
    "sglang serve --model-path black-forest-labs/FLUX.1-dev --port 3000",
    "sglang serve --model-path $MODEL --num-gpus 2 --ulysses-degree 2",
    "sglang serve --model-path /models/own --model-type diffusion",
    "docker run --gpus all lmsysorg/sglang:v0.5.15 sglang serve --model-path "
    "Tongyi-MAI/Z-Image-Turbo --num-gpus 1",
]
LANGUAGE = [
    "sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --num-gpus 2",
    "sglang serve --model-path /models/own --tp-size 2",
    "sglang serve Qwen/Qwen3-8B --model-type llm --port 30000",
    "python3 -m sglang.launch_server --model-path Qwen/Qwen3-VL-30B-A3B-Instruct --port 30000",
    "vllm serve Qwen/Qwen-Image --omni",
]


def has_note(read: FileRead) -> bool:
    return any("diffusion server" in note for note in read.notes)


@pytest.mark.parametrize("text", DIFFUSION)
def test_the_diffusion_server_is_no_language_model_server(text: str) -> None:
    read = read_text(text, "a.sh")
    assert not read.launches and has_note(read)


@pytest.mark.parametrize("text", LANGUAGE)
def test_language_models_stay_judged(text: str) -> None:
    read = read_text(text, "a.sh")
    assert len(read.launches) == 1 and not has_note(read)
