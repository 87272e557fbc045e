"""Starts of servers that conditions, arguments, other programs or other notations hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text


def read(text: str, name: str = "a.sh") -> list[tuple[str, str | None]]:
    return [(one.engine, one.model) for one in read_text(text, name).launches]


def flags(text: str, name: str = "a.sh") -> dict[str, str | None]:
    return {one.name: one.value for one in read_text(text, name).launches[0].flags}


# ---------------------------------------------------------------- shell


@pytest.mark.parametrize(
    "launcher", ["uv run", "poetry run", "conda run -n x", "taskset -c 0-3", "nice -n 5"]
)
def test_a_launcher_before_a_server_without_options(launcher: str) -> None:
    assert read(f"serve:\n\t{launcher} vllm serve org/model\n", "Makefile") == [
        ("vllm", "org/model")
    ]
    assert read(f"{launcher} vllm serve org/model\n") == [("vllm", "org/model")]


# ---------------------------------------------------------------- Python


JOINED = """
import json, subprocess
image = Image.debian().uv_pip_install(
    "vllm==0.21.0",
)
cmd = ["vllm", "serve", "org/model", "--tool-call-parser gemma4",
       "--enable-auto-tool-choice", "--speculative-config",
       f"'{json.dumps({'model': 'd', 'num_speculative_tokens': 4})}'"]
"""


@pytest.mark.parametrize(
    "start", ['subprocess.Popen(" ".join(cmd), shell=True)', 'os.system(" ".join(cmd))']
)
def test_a_list_that_is_joined_for_a_shell_is_taken_apart_by_it(tmp_path: Path, start: str) -> None:
    path = tmp_path / "serve.py"
    path.write_text(JOINED + start + "\n", encoding="utf-8")
    report = validate(str(path))
    assert (report.launches[0].plan.k, report.launches[0].plan.tool_call_parser) == (4, "gemma4")
    assert (
        report.launches[0].launch.engine_version == "0.21.0"
        and report.launches[0].launch.version_pinned
    )
    assert not {"SD109", "SD125"} & {finding.code for finding in report.findings}


def test_a_list_that_is_joined_for_a_message_is_not() -> None:
    assert "--tool-call-parser" not in flags(
        JOINED + 'print(" ".join(cmd))\nsubprocess.Popen(cmd)\n', "serve.py"
    )


# ---------------------------------------------------------------- other notations


@pytest.mark.parametrize(
    ("draft", "method"),
    [
        ("google/gemma-4-31B-it-assistant", "mtp"),
        ("/cache/Qwen/Qwen3.6-27B", "mtp"),
        ("Qwen/Qwen3.5-0.8B", "draft_model"),
    ],
)
def test_a_method_that_is_not_given_is_told_from_the_drafter_as_the_engine_does(
    draft: str, method: str
) -> None:
    given = f'{{"model":"{draft}","num_speculative_tokens":3}}'
    text = f"vllm serve Qwen/Qwen3.6-27B --speculative-config '{given}'\n"
    assert validate(text=text).launches[0].plan.method == method


@pytest.mark.parametrize("lead", ['if "%N%"=="" ', "if not defined N "])
def test_a_default_that_a_batch_file_sets_on_one_line(lead: str) -> None:
    start = "llama-server.exe -m a.gguf --spec-type draft-mtp --spec-draft-n-max %N%\n"
    assert flags(f'@echo off\n{lead}set "N=3"\n{start}', "a.bat")["--spec-draft-n-max"] == "3"
    assert (
        flags(f"@echo off\nset N=2\n{lead}set N=3\n{start}", "a.bat")["--spec-draft-n-max"] == "2"
    )


LLM_D = """
modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B}
decode:
  parallelism: {tensor: 2}
  containers:
    - name: vllm
      image: IMAGE
      modelCommand: vllmServe
      args: ["--gpu-memory-utilization=0.9", "--max-num-seqs=8"]
"""


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("ghcr.io/llm-d/llm-d-cuda:v0.5.0", None),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.9.0", None),
        ("registry.example.org/vllm-openai:v0.25.1", "v0.25.1"),
    ],
)
def test_the_release_of_another_product_is_not_the_engines(image: str, version: str | None) -> None:
    launch = read_text(LLM_D.replace("IMAGE", image), "values.yaml").launches[0]
    assert launch.version_text == version
    size = launch.flag("--tensor-parallel-size")
    assert launch.model == "Qwen/Qwen3-32B" and size is not None and size.value == "2"
