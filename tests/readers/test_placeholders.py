"""What somebody else is to fill in is unknown in every place, whatever the style of its mark; a
plain word that cannot stand there stays an error.
"""

import random

import pytest

from advisor.lint.validate import validate

STYLES = [
    *("__IMAGE_NAME__", "__value__", "@IMAGE_NAME@", "%IMAGE_NAME%", "<your-value>", "{{value}}"),
    *("${VALUE}", "$VALUE", "...", "\u2026", "REPLACE_ME", "YOUR_VALUE", "YOUR-ORG", "CHANGEME"),
    *("FILL_IN", "PATH_TO_IT", "MODEL_HERE", "xxx", "tbd", "fixme", "$VALUE$"),
    *("change-me", "your-value", "MY_VALUE", "NAME", "[VALUE]", "{value}", "TODO", "XXX", "FIXME"),
]
DOCKER = "docker run --gpus all --ipc=host {} vllm/vllm-openai:v0.25.1 Qwen/Qwen3-8B"
SERVE, SGLANG = "vllm serve Qwen/Qwen3-8B ", "sglang serve --model-path Qwen/Qwen3-8B "
LLAMA = "llama-server -m q.gguf "
COMPOSE = """services:
  v:
    image: vllm/vllm-openai:v0.25.1
    gpus: all
    SAID
    command: [--model, Qwen/Qwen3-8B]
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: "NAMED"}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers:
      - name: v
        image: vllm/vllm-openai:v0.25.1
        args: [--model, Qwen/Qwen3-8B]
        resources: {limits: {nvidia.com/gpu: "COUNT"}}
"""
# the file, its text with PLACE, and a plain word that is refused there ("": any is taken)
PLACES = {
    "devices": ("a.sh", DOCKER.format("-e CUDA_VISIBLE_DEVICES=PLACE"), "first"),
    "model": ("a.sh", "vllm serve PLACE", ""),
    "owner": ("a.sh", "vllm serve PLACE/Qwen3-8B", ""),
    "number": ("a.sh", SERVE + "--max-model-len PLACE", "long"),
    "share": ("a.sh", SERVE + "--gpu-memory-utilization PLACE", "85%"),
    "choice": ("a.sh", SERVE + "--dtype PLACE", "tiny"),
    "draft": (
        "a.sh",
        SGLANG + "--speculative-algorithm EAGLE3 --speculative-draft-model-path PLACE",
        "",
    ),
    "k": ("a.sh", SERVE + '--spec-method ngram --spec-tokens "PLACE"', "few"),
    "k of JSON": (
        "a.sh",
        SERVE + """--speculative-config '{"method":"ngram","num_speculative_tokens":"PLACE"}'""",
        "few",
    ),
    "method of JSON": (
        "a.sh",
        SERVE + """--speculative-config '{"method":"PLACE","num_speculative_tokens":2}'""",
        "none-such",
    ),
    "method of YAML": (
        "a.yaml",
        "model: a/b\nmax-model-len: 1024\nspeculative-config: {method: 'PLACE', "
        "num_speculative_tokens: 'PLACE'}\n",
        "none-such",
    ),
    "type of a preset": ("a.ini", "[a]\nmodel = q.gguf\nspec-type = PLACE\n", "none-such"),
    "layers": ("a.sh", LLAMA + "-ngl PLACE", "many"),
    "context": ("a.sh", LLAMA + "-c PLACE", "long"),
    "cache type": ("a.sh", LLAMA + "-ctk PLACE", "tiny"),
    "compose memory": ("a.yaml", COMPOSE.replace("SAID", 'shm_size: "PLACE"'), "much"),
    "GPUs": ("a.yaml", DEPLOYMENT.replace("NAMED", "a").replace("COUNT", "PLACE"), "two"),
    "Quadlet": (
        "a.container",
        "[Container]\nImage=docker.io/vllm/vllm-openai:v0.25.1\nPublishPort=PLACE:8000\n"
        "Volume=PLACE/m:/m\nExec=--model Qwen/Qwen3-8B\nAddDevice=nvidia.com/gpu=all\n",
        "",
    ),
}


def errors(place: str, word: str) -> list[str]:
    name, text, _ = PLACES[place]
    report = validate(text=text.replace("PLACE", word) + "\n", name=name)
    return [f"{one.code} {one.message}" for one in report.findings if one.severity == "error"]


@pytest.mark.parametrize("place", PLACES)
def test_no_placeholder_is_an_error(place: str) -> None:
    styles = random.Random(place).sample(STYLES, 10)
    assert not {style: found for style in styles if (found := errors(place, style))}


@pytest.mark.parametrize("place", [name for name, row in PLACES.items() if row[2]])
def test_a_plain_word_stays_an_error(place: str) -> None:
    assert errors(place, PLACES[place][2])


@pytest.mark.parametrize("dots", ["...", "\u2026"])
def test_options_left_out_do_not_hide_the_launch(dots: str) -> None:
    text = f"docker run --gpus all {dots} vllm/vllm-openai:v0.25.1 --model Qwen/Qwen3-8B --tpx 2\n"
    report = validate(text=text)
    assert [one.plan.engine_version for one in report.launches] == ["0.25.1"]
    assert [f.code for f in report.findings if f.severity == "error"] == ["SD101"]
