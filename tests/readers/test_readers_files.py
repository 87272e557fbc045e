"""Kinds of files that start servers: Nomad, notebooks, tasks of schedulers, recipes,
Ansible, cluster launchers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from effort import at_most

from advisor.lint.validate import validate
from advisor.readers import FileRead, read_text

MTP = '{"method":"mtp","num_speculative_tokens":2}'


def read(text: str, name: str) -> list[tuple[str, str | None]]:
    return [(one.engine, one.model) for one in read_text(text, name).launches]


def flags(found: FileRead, number: int = 0) -> dict[str, str | None]:
    return {one.name: one.value for one in found.launches[number].flags}


# ---------------------------------------------------------------- HashiCorp's language

NOMAD = """
job "a" {
  group "g" {
    task "native" {
      driver = "raw_exec"
      config {
        command = "llama-server"
        args = ["-m", "/m/a-MTP.gguf", "--spec-type", "draft-mtp", "--port", "${NOMAD_PORT_http}"]
      }
    }
    task "script" {
      template {
        data = <<EOH
#!/bin/bash
/usr/local/bin/llama-server -m "/m/b.gguf" --draft-max 4
EOH
        destination = "local/run.sh"
      }
      config { command = "local/run.sh" }
    }
  }
}
"""


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200_000,
        "[" * 200_000,
        "a{" * 70_000,
        "a ? " * 40_000,
        "x=<<E\n" * 20_000,
        'x="' + "${" * 60_000,
        "locals {\n a = concat(" + "local.a," * 15_000 + ")\n}\n",
        'a = "${local.a}${local.a}"\n' * 5_000,
    ],
    ids=[
        "parentheses",
        "brackets",
        "blocks",
        "conditions",
        "here-documents",
        "expressions",
        "lists",
        "texts",
    ],
)
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


def test_the_cells_of_a_notebook_are_one_program() -> None:
    text = notebook(
        'MODEL = "Qwen/Qwen3-8B"\n',
        'if True:\n    !ls\nimport subprocess\nsubprocess.Popen(["vllm", "serve", MODEL, '
        '"--swap-space", "4"])\n',
        "%%bash\nllama-server -m a-MTP.gguf --spec-type mtp\n",
    )
    assert sorted(read(text, "a.ipynb")) == [
        ("llama-server", "a-MTP.gguf"),
        ("vllm", "Qwen/Qwen3-8B"),
    ]


def test_variables_that_commands_of_a_notebook_name() -> None:
    text = notebook(
        'MODEL = "org/a"  # small\nPORT = 8000\nTWICE = "a"\n',
        "TWICE = 'b'\n",
        f"!vllm serve {{MODEL}} --port $PORT --served-model-name {{TWICE}} --speculative-config "
        f"'{MTP}'\n",
    )
    found = read_text(text, "a.ipynb")
    assert [one.model for one in found.launches] == ["org/a"] and flags(found)["--port"] == "8000"
    assert flags(found)["--speculative-config"] == MTP and "TWICE" in (
        flags(found)["--served-model-name"] or ""
    )


def test_a_line_that_goes_on_with_a_percent_sign_is_python() -> None:
    text = notebook('import os\nx = (7\n  % 3)\nos.system("vllm serve org/a --swap-space 4")\n')
    assert read(text, "a.ipynb") == [("vllm", "org/a")]


def test_no_fix_edits_the_escaped_text_of_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(
        notebook('import os\nos.system("vllm serve Qwen/Qwen3-8B --swap-space 4")\n'),
        encoding="utf-8",
    )
    removals = [one for one in validate(str(path)).findings if one.code == "SD102"]
    assert removals and not any(one.fix.edits for one in removals if one.fix is not None)


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


RECIPE = """
name: a
model: {path: dsr1, container: "lmsysorg/sglang:v0.5.15"}
backend:
  decode_environment: {SGLANG_ENABLE_SPEC_V2: "1"}
  sglang_config:
    prefill: {model-path: /model/, mem-fraction-static: 0.9}
    decode: {model-path: /model/, mem-fraction-static: 0.8, speculative-algorithm: EAGLE,
             speculative-num-steps: 2}
"""


def test_a_clusters_recipe_has_settings_for_each_kind_of_worker() -> None:
    found = read_text(RECIPE, "recipe.yaml").launches
    assert [(one.engine, one.engine_version, len(one.env)) for one in found] == [
        ("sglang", "0.5.15", 0),
        ("sglang", "0.5.15", 1),
    ]
    assert [any(flag.name == "--speculative-algorithm" for flag in one.flags) for one in found] == [
        False,
        True,
    ]


ANSIBLE = """
- hosts: gpu
  vars:
    tag: v0.25.1
    image: "vllm/vllm-openai:{{ tag }}"
    model: org/model
    port: 8000
  tasks:
    - community.docker.docker_container:
        name: vllm
        image: "{{ image }}"
        command: ["--model={{ model }}", "--port={{ port }}", "--max-num-seqs={{ slots }}"]
"""


def test_values_of_a_play() -> None:
    found = read_text(ANSIBLE, "play.yml")
    assert [(one.model, one.engine_version) for one in found.launches] == [("org/model", "0.25.1")]
    assert flags(found)["--port"] == "8000" and "slots" in (flags(found)["--max-num-seqs"] or "")
    twice = ANSIBLE + "- hosts: b\n  vars: {model: other/model}\n"
    assert "org/model" not in (read_text(twice, "play.yml").launches[0].model or "")


def test_a_value_of_several_options_is_several_words(tmp_path: Path) -> None:
    path = tmp_path / "play.yml"
    path.write_text(
        """
- hosts: gpu
  vars:
    options: "--max-num-seqs 8 --swap-space 4"
    name: "a model"
    spec: '{"method": "mtp", "num_speculative_tokens": 2}'
  tasks:
    - shell: vllm serve org/a {{ options }} --served-model-name "{{ name }}"
        --speculative-config '{{ spec }}'
""",
        encoding="utf-8",
    )
    found = read_text(path.read_text(encoding="utf-8"), "play.yml")
    assert (flags(found)["--max-num-seqs"], flags(found)["--swap-space"]) == ("8", "4")
    assert flags(found)["--served-model-name"] == "a model"
    assert json.loads(flags(found)["--speculative-config"] or "")["method"] == "mtp"
    assert not [one for one in validate(str(path)).findings if one.code in ("SD129", "SD307")]


@pytest.mark.parametrize(
    ("launcher", "version"),
    [
        (
            "srun --nodes=1 --container-image=vllm/vllm-openai:v0.25.1 --container-mounts=/a:/a",
            "0.25.1",
        ),
        ("srun --container-image nvcr.io#vllm/vllm-openai:v0.25.1", "0.25.1"),
        ("apptainer exec --nv docker://vllm/vllm-openai:v0.25.1", "0.25.1"),
        ("srun --nodes=1", None),
    ],
)
def test_the_image_of_a_clusters_launcher(launcher: str, version: str | None) -> None:
    found = read_text(
        f"{launcher} vllm serve Qwen/Qwen3-8B -tp 4 --max-num-seqs 4\n", "job.sh"
    ).launches
    assert [(one.model, one.engine_version) for one in found] == [("Qwen/Qwen3-8B", version)]
    assert version is None or (
        found[0].version_pinned and found[0].container is not None and found[0].container.ipc_host
    )


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
        ('$bin = "C:\\llama-server.exe"\n\n$m = "a.gguf"\n& $bin -m $m -np 1\n', "a.ps1"),
    ],
)
def test_a_program_in_a_variable_stands_where_it_is_run(text: str, name: str) -> None:
    assert [one.line for one in read_text(text, name).launches] == [4]
