"""Every address gives the command line's answer: 200 random questions, reloaded. So does the static
copy, whose links lead somewhere and which loads nothing from elsewhere.
"""

import html
import json
import random
import re
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlencode

import pytest
from cli.serve.client import argv as launch_words
from cli_run import run
from starlette.testclient import TestClient

from advisor.cli.serve import html as templates
from advisor.cli.serve import site
from advisor.knowledge.age import today

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_an_address_reloads_to_the_answer_of_the_command_line(page: TestClient, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        names = chance.sample([name for name in VALUES if name != "hw"], chance.randint(1, 6))
        asked = {name: chance.choice(VALUES[name]) for name in ("hw", *names)}
        ran = run("recommend", *argv(asked), "--format", "json")
        address = urlencode(asked)
        got, shown = page.get(f"/api/recommend?{address}"), page.get(f"/?{address}")
        if ran.code == 2:
            assert got.status_code in (400, 404, 409) and shown.status_code == 400, (asked, ran.err)
            assert 'role="alert"' in shown.text
            continue
        assert got.status_code == shown.status_code == 200, (asked, got.text)
        answer = json.loads(ran.out)
        assert got.json() == answer, asked
        assert launch_words(texts(shown.text, "launch-text")) == launch_words(
            answer["launch"]["text"]
        ), asked
        assert texts(shown.text, "command-text").startswith("advisor recommend --hw")
        word = {"on": "Turn", "off": "Leave", "measure": "Measure first"}[answer["decision"]]
        assert re.search(rf"<h1>{word}", shown.text), asked


NAMES = ("--hw", "gb10", "--hw", "DGX Spark", "--hw", "rtx3090",
         "--model", "qwen3.6-35b-a3b", "--model", "deepseek-v3.2")  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "copy"
    with patch.object(site, "LOADS", (1, 16)):  # half of them
        ran = run("page", "--out", str(out), *NAMES)
    assert ran.code == 0, ran.err
    return out


def test_every_link_leads_to_a_file(place: Path) -> None:
    pages = sorted(place.rglob("*.html"))
    assert len(pages) == 7
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text("utf-8")):
            if link.startswith(("https://", "#")):
                continue
            assert not link.startswith("/"), f"{page.name}: {link} needs a server"
            assert (page.parent / link).resolve().is_file(), f"{page.name}: {link}"


def test_an_answer_of_the_copy_is_that_of_the_command_line(place: Path) -> None:
    ran = run("recommend", "--hw", "gb10", "--concurrency", "16", "--format", "json")
    text = (place / "answers" / "qwen3.6-35b-a3b-gb10-16.html").read_text("utf-8")
    launch = re.search(r'<pre id="launch-text"[^>]*>(.*?)</pre>', text, re.S)
    assert launch and launch_words(html.unescape(launch[1])) == launch_words(
        json.loads(ran.out)["launch"]["text"]
    )
    compose = run("recommend", "--hw", "gb10", "--concurrency", "16", "--format", "compose").out
    assert compose in html.unescape(text) and "svg" in text and "data-load" not in text


def test_what_does_not_run_has_no_page_but_a_reason(place: Path) -> None:
    index = (place / "index.html").read_text("utf-8")
    refused = re.findall(r'<span class="note" title="([^"]+)">does not run', index)
    assert refused and all("does not fit" in why for why in refused)
    assert not (place / "answers" / "deepseek-v3.2-gb10-1.html").exists()


def test_a_folder_with_files_and_unknown_names_are_refused(place: Path, tmp_path: Path) -> None:
    again = run("page", "--out", str(place), *NAMES)
    assert again.code == 2 and "not empty" in again.err
    ran = run("page", "--out", str(tmp_path / "new"), "--hw", "gb11")
    assert ran.code == 2 and "did you mean" in ran.err and not (tmp_path / "new").exists()


def test_several_gpus_and_quantisations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "copy"
    monkeypatch.setattr(site, "LOADS", (4,))
    ran = run("page", "--out", str(out), "--hw", "2x h100", "--hw", "h100",
              "--model", "qwen3.6-27b", "--quant", "fp8", "--quant", "bf16")  # fmt: skip
    assert ran.code == 0, ran.err
    index = (out / "index.html").read_text("utf-8")
    assert index.count("<h2") == 2 and index.count("2 × NVIDIA H100") == 2
    names = sorted(path.name for path in (out / "answers").iterdir())
    pairs = {f"qwen3.6-27b-{quant}-2x-h100-sxm-4.html" for quant in ("fp8", "bf16")}
    assert pairs < set(names) <= pairs | {name.replace("2x-", "") for name in pairs}


def test_the_copy_says_its_day_loads_nothing_and_filters(place: Path, page: TestClient) -> None:
    for path in place.rglob("*.html"):
        text = path.read_text("utf-8")
        (policy,) = re.findall(r'http-equiv="content-security-policy" content="([^"]+)"', text)
        parts = [part.split() for part in html.unescape(policy).split("; ")]
        assert parts[0] == ["default-src", "'none'"]
        assert {word for part in parts[1:] for word in part[1:]} == {"'self'", "file:"}
        assert f"on {today()}, advisor" in text
    index = (place / "index.html").read_text("utf-8")
    assert re.search(r'<p class="field" hidden><label for="f-filter">', index)
    assert "http-equiv" not in page.get("/").text  # a header says it there


def test_every_file_of_templates_is_read() -> None:
    folder = Path(templates.__file__).parent / "templates"
    assert sorted(path.stem for path in folder.iterdir()) == sorted(templates.AREAS)
