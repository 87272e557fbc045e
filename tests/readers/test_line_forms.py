"""Servers in texts that other programs fill in or start: make, notebooks, tasks, batch files,
Python, charts.
"""

import json
from pathlib import Path

import pytest
from effort import at_most

from advisor.domain.nouns import Launch
from advisor.lint.validate import validate
from advisor.readers import FileRead, read_text

MTP = '{"method":"mtp","num_speculative_tokens":2}'


def one(text: str, name: str) -> Launch:
    launches = read_text(text, name).launches
    assert len(launches) == 1, launches
    return launches[0]


def flags(found: FileRead, number: int = 0) -> dict[str, str | None]:
    return {one.name: one.value for one in found.launches[number].flags}


PROSE = {
    "nix description": '{ x = mkOption { description = "Path to llama-server '
    '--models-preset. File"; }; }\n',
    "nix text": "{ description = ''\n  Starts llama-server --models-preset FILE.\n''; }\n",
    "enable": '{ enable = lib.mkEnableOption "llama-server --spec-type draft-mtp"; }\n',
    "comment": "# vllm serve m --port 1\n// vllm serve m --port 1\n",
    "message": 'Write-Host "start vllm serve m --port 1"\n',
    "block comment": "<#\n llama-server -m a.gguf -c 1\n#>\n",
    "echo": "x:\n\t@echo vllm serve m --port 1\n",
    "installation": "x:\n\tpip install vllm --upgrade\n",
}


@pytest.mark.parametrize("kind", PROSE)
@pytest.mark.parametrize("name", ["a.nix", "a.ps1", "a.tf"])
def test_words_about_a_server_start_none(kind: str, name: str) -> None:
    assert read_text(PROSE[kind], name).launches == ()


def test_what_stands_for_a_value_is_unknown_where_it_is_set_twice() -> None:
    text = "TP = 2\nifdef BIG\nTP = 8\nendif\nx:\n\tvllm serve m --tensor-parallel-size $(TP)\n"
    flag = one(text, "Makefile").flag("--tensor-parallel-size")
    assert flag is not None and flag.unresolved and flag.value == "${TP}"
    once = one(text.replace("TP = 8", ""), "Makefile").flag("--tensor-parallel-size")
    assert once is not None and once.value == "2" and not once.unresolved


MAKE = """MODEL ?= Qwen/Qwen3.6-27B-FP8  # which
K = 2
SPEC := '{"method":"mtp","num_speculative_tokens":$(K)}'
export VLLM_LOGGING_LEVEL = INFO

.PHONY: serve
serve: ## start it
\t@echo "starting $(MODEL)"
\t-@CUDA_VISIBLE_DEVICES=0 vllm serve $(MODEL) \\
\t\t--served-model-name $$(hostname) --port ${PORT} \\
\t\t--speculative-config $(SPEC)

"""


@pytest.mark.parametrize("name", ["Makefile", "deploy/GNUmakefile", "serve.mk", "-"])
def test_makefile(name: str) -> None:
    launch = one(MAKE, name)
    assert (launch.engine, launch.model, launch.line) == ("vllm", "Qwen/Qwen3.6-27B-FP8", 9)
    assert {flag.name: flag.value for flag in launch.flags}["--speculative-config"] == MTP
    assert launch.env_value("VLLM_LOGGING_LEVEL") == "INFO"
    port, name_flag = launch.flag("--port"), launch.flag("--served-model-name")
    assert port is not None and port.unresolved and name_flag is not None and name_flag.unresolved


def test_make_functions_and_cycles_are_unknown() -> None:
    launch = one(
        "A = $(B)\nB = $(A)\nN := $(shell nvidia-smi -L | wc -l)\nx:\n\tvllm serve "
        "Qwen/Qwen3.6-27B -tp $(N) --port $(A)\n",
        "Makefile",
    )
    assert all(
        flag.unresolved
        for flag in launch.flags
        if flag.name in ("--tensor-parallel-size", "--port")
    )


def test_make_fix_edits_the_variable() -> None:
    text = (
        "FLAGS = --draft-max 4 -c 4096\nx:\n"
        "\tllama-server -m a-MTP-Q4.gguf --spec-type draft-mtp --parallel 1 $(FLAGS)\n"
    )
    report = validate(text=text, name="Makefile")
    edits = [
        edit
        for found in report.findings
        if found.code == "SD102" and found.fix
        for edit in found.fix.edits
    ]
    assert [text[edit.start : edit.end] for edit in edits] == ["--draft-max"]


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
    launch = report.launches[0].launch
    assert launch.engine_version == "0.21.0" and launch.version_pinned
    assert not {"SD109", "SD125"} & {finding.code for finding in report.findings}


def test_a_list_that_is_joined_for_a_message_is_not() -> None:
    assert "--tool-call-parser" not in flags(
        read_text(JOINED + 'print(" ".join(cmd))\nsubprocess.Popen(cmd)\n', "serve.py")
    )


@pytest.mark.parametrize(
    ("draft", "method"),
    [
        ("google/gemma-4-31B-it-assistant", "mtp"),
        ("/cache/Qwen/Qwen3.6-27B", "mtp"),
        ("Qwen/Qwen3.5-0.8B", "draft_model"),
    ],
)
def test_a_method_that_is_not_given_follows_from_the_drafter(draft: str, method: str) -> None:
    given = f'{{"model":"{draft}","num_speculative_tokens":3}}'
    text = f"vllm serve Qwen/Qwen3.6-27B --speculative-config '{given}'\n"
    assert validate(text=text).launches[0].plan.method == method


@pytest.mark.parametrize("lead", ['if "%N%"=="" ', "if not defined N "])
@pytest.mark.parametrize(("before", "n"), [("", "3"), ("set N=2\n", "2")])
def test_a_default_that_a_batch_file_sets_on_one_line(lead: str, before: str, n: str) -> None:
    start = "llama-server.exe -m a.gguf --spec-type draft-mtp --spec-draft-n-max %N%\n"
    found = read_text(f'@echo off\n{before}{lead}set "N=3"\n{start}', "a.bat")
    assert flags(found)["--spec-draft-n-max"] == n


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


def notebook(*cells: str) -> str:
    code = [
        {"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []}
        for cell in cells
    ]
    return json.dumps(
        {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "vllm serve no"}, *code]},
        indent=1,
    )


def test_a_command_of_a_notebook() -> None:
    text = notebook(
        "%pip install vllm==0.25.1\n",
        f"!nohup vllm serve Qwen/Qwen3-8B \\\n  --speculative-config '{MTP}' &\n",
    )
    found = read_text(text, "a.ipynb")
    assert [(x.model, x.engine_version) for x in found.launches] == [("Qwen/Qwen3-8B", "0.25.1")]
    assert flags(found)["--speculative-config"] == MTP


DSTACK = """
type: service
image: vllm/vllm-openai:v0.25.1
env:
  - MODEL=Qwen/Qwen3-8B
commands:
  - pip install x
  - vllm serve $MODEL --max-num-seqs 4
"""
PIPELINE = """
serve:
  image: vllm/vllm-openai:v0.25.1
  variables: {MODEL: Qwen/Qwen3-8B}
  script:
    - vllm serve $MODEL --max-num-seqs 4
"""


@pytest.mark.parametrize("text", [DSTACK, PIPELINE])
def test_a_task_has_the_image_and_the_variables_that_stand_beside_its_script(text: str) -> None:
    launch = one(text, ".dstack.yml")
    assert (launch.model, launch.engine_version) == ("Qwen/Qwen3-8B", "0.25.1")


# places


@pytest.mark.parametrize(
    "block",
    [
        "```bash\nllama-server.exe ^\n  -m a-MTP.gguf ^\n  --spec-type mtp\n```\n",
        "```powershell\n# starts it\ndocker run ghcr.io/ggml-org/llama.cpp:server `\n -m "
        "a-MTP.gguf `\n --spec-type mtp\n```\n",
        "```bash\n[a]\nmodel = a-MTP.gguf\nspec-type = mtp\nctx-size = 4096\n```\n",
    ],
    ids=["carets", "backticks", "preset"],
)
def test_blocks_that_a_document_calls_by_another_name(block: str) -> None:
    found = read_text("# A\n" + block, "README.md")
    assert [(one.engine, one.model) for one in found.launches] == [("llama-server", "a-MTP.gguf")]
    assert flags(found)["--spec-type"] == "mtp" and not any(
        "backslash" in note for note in found.launches[0].notes
    )


def test_an_empty_variable_of_a_batch_file_leaves_nothing_behind() -> None:
    found = read_text(
        'set "LORA="\nllama-server.exe ^\n -m a.gguf ^\n %LORA% ^\n -np 1\n', "a.bat"
    ).launches[0]
    assert not any("not read" in note for note in found.notes)


SUM = """
import os, subprocess
from pathlib import Path
ROOT = Path(__file__).parents[1]
SERVER = str(ROOT / "bin/llama-server")
COMMON = ["-m", "a-MTP.gguf", "-np", "1"]
SPEC = ["--spec-type", "draft-mtp"]
def start(spec=True):
    return subprocess.Popen([SERVER] + COMMON + (SPEC if spec else []))
"""


def test_a_sum_of_lists_is_one_command() -> None:
    joined = 'os.path.join(ROOT, "bin", "llama-server")'
    for text in (SUM, SUM.replace('str(ROOT / "bin/llama-server")', joined)):
        found = read_text(text, "bench.py")
        (one,) = found.launches
        assert (one.engine, one.model) == ("llama-server", "a-MTP.gguf")
        assert flags(found)["--spec-type"] == "draft-mtp"


def test_sums_that_double_end_within_a_budget() -> None:
    text = (
        "a0 = ['x']\n"
        + "".join(f"a{n + 1} = {' + '.join([f'a{n}'] * 60)}\n" for n in range(8))
        + "run(['vllm'] + a8)\n"
    )
    with at_most(400):
        read_text(text, "a.py")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('BIN=/opt/llama-server\nM=a.gguf\n\nexec "$BIN" -m "$M" -np 1\n', "a.sh"),
        ('set "BIN=C:\\llama-server.exe"\n\nset M=a.gguf\n"%BIN%" -m %M% -np 1\n', "a.bat"),
        ("$a = @('-m', 'a.gguf')\n$p=1\n\nStart-Process llama-server -ArgumentList $a\n", "a.ps1"),
        ('$bin = "C:\\llama-server.exe"\n\n$m = "a.gguf"\n& $bin -m $m -np 1\n', "a.ps1"),
    ],
)
def test_a_program_in_a_variable_stands_where_it_is_run(text: str, name: str) -> None:
    assert [one.line for one in read_text(text, name).launches] == [4]
