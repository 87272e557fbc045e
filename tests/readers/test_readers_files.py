"""Kinds of files that start servers: Nomad, notebooks, tasks of schedulers, recipes,
Ansible, cluster launchers.
"""

from __future__ import annotations

import json

import pytest
from effort import at_most

from advisor.readers import FileRead, read_text

MTP = '{"method":"mtp","num_speculative_tokens":2}'


def read(text: str, name: str) -> list[tuple[str, str | None]]:
    return [(one.engine, one.model) for one in read_text(text, name).launches]


def flags(found: FileRead, number: int = 0) -> dict[str, str | None]:
    return {one.name: one.value for one in found.launches[number].flags}


# ---------------------------------------------------------------- HashiCorp's language


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200_000, "[" * 200_000, "a{" * 70_000, "a ? " * 40_000, "x=<<E\n" * 20_000,
        'x="' + "${" * 60_000, "locals {\n a = concat(" + "local.a," * 15_000 + ")\n}\n",
        'a = "${local.a}${local.a}"\n' * 5_000,
    ],
    ids=[
        "parentheses", "brackets", "blocks", "conditions", "here-documents", "expressions", "lists",
        "texts",
    ],
)  # fmt: skip
def test_hostile_blocks_take_no_time(text: str) -> None:
    with at_most(400):
        read_text(text, "a.tf")


# ---------------------------------------------------------------- notebooks


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
    assert [(one.model, one.engine_version) for one in found.launches] == [
        ("Qwen/Qwen3-8B", "0.25.1")
    ]
    assert flags(found)["--speculative-config"] == MTP


# ---------------------------------------------------------------- tasks with a script

DSTACK = """
type: service
image: vllm/vllm-openai:v0.25.1
env:
  - MODEL=Qwen/Qwen3-8B
commands:
  - pip install x
  - vllm serve $MODEL --max-num-seqs 4
"""
REPLICAS = """
type: service
image: lmsysorg/sglang:v0.5.15
env:
  - MODEL=Qwen/Qwen3-8B
replicas:
  - count: 1
    commands:
      - |
        python -m sglang.launch_server --model-path $MODEL \\
          --disaggregation-mode prefill
  - count: 2
    commands:
      - python -m sglang.launch_server --model-path $MODEL --disaggregation-mode decode
"""
PIPELINE = """
serve:
  image: vllm/vllm-openai:v0.25.1
  variables: {MODEL: Qwen/Qwen3-8B}
  script:
    - vllm serve $MODEL --max-num-seqs 4
"""


@pytest.mark.parametrize(
    ("text", "version", "count"),
    [(DSTACK, "0.25.1", 1), (REPLICAS, "0.5.15", 2), (PIPELINE, "0.25.1", 1)],
)
def test_a_task_has_the_image_and_the_variables_that_stand_beside_its_script(
    text: str, version: str, count: int
) -> None:
    found = read_text(text, ".dstack.yml").launches
    assert [(one.model, one.engine_version) for one in found] == [
        ("Qwen/Qwen3-8B", version)
    ] * count


# ---------------------------------------------------------------- documents, Windows, Python,
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
    found = read_text(SUM, "bench.py")
    assert [(one.engine, one.model) for one in found.launches] == [("llama-server", "a-MTP.gguf")]
    assert flags(found)["--spec-type"] == "draft-mtp"
    joined = SUM.replace(
        'str(ROOT / "bin/llama-server")', 'os.path.join(ROOT, "bin", "llama-server")'
    )
    assert read(joined, "bench.py") == [("llama-server", "a-MTP.gguf")]


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
