"""Every address gives the command line's answer: 200 random questions, reloaded."""

import html
import json
import random
import re
import shlex
from urllib.parse import urlencode

import pytest
from cli.serve.client import argv as launch_words
from cli_run import run
from starlette.testclient import TestClient

pytestmark = pytest.mark.slow
VALUES: dict[str, list[str]] = {
    "hw": ["gb10", "rtx3090", "rtx5090", "h100-sxm", "h200", "mi300x", "strix-halo", "DGX Spark",
           "apple-m4-max", "l40s", "nonsense-9000", "a100-80gb"],
    "model": ["qwen3.6-27b", "qwen3.6-35b-a3b", "llama-3.3-70b", "deepseek-v3.2", "gpt-oss-20b",
              "qwen3.5-9b", "glm-4.5-air"],
    "engine": ["vllm", "sglang", "llama-server", "vllm@0.25.1", "ollama", "sglang@0.5.12"],
    "quant": ["fp8", "bf16", "awq-int4", "q4_k_m", "nvfp4"],
    "concurrency": ["1", "2", "7", "16", "64", "300", "0", "x"],
    "ctx": ["128", "2048", "8192", "60000"],
    "output_tokens": ["64", "512", "4000"],
    "gpus": ["1", "2", "4", "8"],
    "tp": ["1", "2", "3"],
    "goal": ["throughput", "tpot", "ttft", "balanced"],
    "workload": ["chat", "code", "rag", "random"],
    "thinking": ["true", "false"],
    "prefix_share": ["0.5", "0.95"],
    "temperature": ["0", "0.7"],
    "acceptance_length": ["1.4", "2.43"],
    "max_ttft_ms": ["800"],
    "max_tpot_ms": ["40"],
    "method": ["mtp", "eagle3"],
}  # fmt: skip


def question(chance: random.Random) -> dict[str, str]:
    names = chance.sample([name for name in VALUES if name != "hw"], chance.randint(1, 6))
    return {name: chance.choice(VALUES[name]) for name in ("hw", *names)}


def argv(asked: dict[str, str]) -> list[str]:
    words = []
    for name, value in asked.items():
        if name == "thinking":
            words.append("--thinking" if value == "true" else "--no-thinking")
        else:
            words += [f"--{name.replace('_', '-')}", value]
    return words


def texts(found: str, ident: str) -> str:
    """The text of one <pre>."""
    match = re.search(rf'<pre id="{ident}"[^>]*>(.*?)</pre>', found, re.S)
    assert match, ident
    return html.unescape(match[1])


@pytest.mark.parametrize("seed", range(20))
def test_an_address_reloads_to_the_answer_of_the_command_line(page: TestClient, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        asked = question(chance)
        ran = run("recommend", *argv(asked), "--format", "json")
        address = urlencode(asked)
        got, shown = page.get(f"/api/recommend?{address}"), page.get(f"/?{address}")
        if ran.code == 2:
            assert got.status_code in (404, 409) and shown.status_code == 400, (asked, ran.err)
            assert 'role="alert"' in shown.text
            continue
        assert got.status_code == shown.status_code == 200, (asked, got.text)
        answer = json.loads(ran.out)
        assert got.json() == answer, asked
        assert launch_words(texts(shown.text, "launch-text")) == launch_words(
            answer["launch"]["text"]
        ), asked
        again = texts(shown.text, "command-text")
        assert again.startswith("advisor recommend --hw")
        word = {"on": "Turn", "off": "Leave", "measure": "Measure first"}[answer["decision"]]
        assert re.search(rf"<h1>{word}", shown.text), asked


def test_the_command_that_a_page_shows_asks_the_same(page: TestClient) -> None:
    address = urlencode({"hw": "DGX Spark", "ctx": 4096, "thinking": "false", "goal": "tpot"})
    words = shlex.split(texts(page.get(f"/?{address}").text, "command-text"))
    ran = run(*words[1:], "--format", "json")
    assert json.loads(ran.out) == page.get(f"/api/recommend?{address}").json()
