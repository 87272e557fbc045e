"""Forms of public files that were met late: each was once read wrongly, or not at all."""

from __future__ import annotations

import json

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text


def test_a_script_named_after_the_server_is_none() -> None:
    text = "./llama-server-control-api.sh bounce 192.168.1.100:9090\n"
    assert read_text(text, "a.sh").launches == ()
    assert len(read_text("./llama-server-vulkan -m a.gguf\n", "a.sh").launches) == 1


def test_expressions_in_a_list_of_nix_are_unknown_values() -> None:
    text = """{ services.vllm.args = [ "serve" inst.model "--port" (toString inst.port)
      "--gpu-memory-utilization" (toString (inst.share)) "--max-model-len" "8192" ]; }"""
    (launch,) = read_text(text, "a.nix").launches
    assert [flag.name for flag in launch.flags if flag.unresolved] == [
        "--port",
        "--gpu-memory-utilization",
    ]
    assert launch.flag("--max-model-len") is not None
    assert not validate(text=text, name="a.nix").findings


def test_a_name_beside_the_servers_is_no_command() -> None:
    text = 'llama-server = ap pkgs.llama-cpp "llama-server" "Run llama-server";\nx =\n  1;\n'
    assert read_text(text, "flake.nix").launches == ()


def test_code_blocks_in_the_text_of_a_notebook() -> None:
    block = ["Run:\n", "```bash\n", "vllm serve Qwen/Qwen3-8B -tp 2\n", "```\n"]
    cells = [{"cell_type": "markdown", "source": block}, {"cell_type": "code", "source": ["x = 1"]}]
    (launch,) = read_text(json.dumps({"cells": cells, "nbformat": 4}), "a.ipynb").launches
    assert launch.model == "Qwen/Qwen3-8B" and launch.form == "document"


@pytest.mark.parametrize("guard", ['[ -z "$MODEL" ]', '[[ "$MODEL" == "" ]]'])
def test_a_guard_on_what_the_words_set_does_not_end_the_script(guard: str) -> None:
    text = f"""MODEL=""
TP=""
while [ $# -gt 0 ]; do
  case $1 in
    --model) MODEL="$2"; shift 2 ;;
    --tp) TP="$2"; shift 2 ;;
    *) exit 1 ;;
  esac
done
if {guard}; then exit 1; fi
CMD=(vllm serve "$MODEL" --port 8000)
[ -n "$TP" ] && CMD+=(--tensor-parallel-size "$TP")
"${{CMD[@]}}"
"""
    (launch,) = read_text(text, "a.sh").launches
    tp = launch.flag("--tensor-parallel-size")
    assert tp is not None and tp.unresolved


def test_a_shift_in_arithmetic_does_not_hide_the_script() -> None:
    text = 'export SIZE="${SIZE:-$((1 << 30))}"\nvllm serve Qwen/Qwen3-8B --port 1\n'
    assert len(read_text(text, "a.sh").launches) == 1


def test_several_options_of_a_patched_build_are_no_error() -> None:
    text = (
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable-spec-capture "
        "--spec-capture-method dflash --spec-capture-aux-layer-ids 7 23 51\n"
    )
    found = [one for one in validate(text=text, name="a.sh").findings if one.severity != "info"]
    assert {one.code for one in found} == {"SD101"} and len(found) == 3
    assert {one.severity for one in found} == {"warning"}


def test_a_release_before_the_catalogue_is_not_judged_by_it() -> None:
    text = "pip install vllm==0.7.3\nvllm serve m/A --num-speculative-tokens 1\n"
    assert {one.severity for one in validate(text=text, name="a.sh").findings} <= {"info"}


def test_a_model_named_elsewhere_is_no_wrong_file() -> None:
    text = '# measured with Qwen3.8-27B-FP8\nllama-server -m "$(pick)" --port 1\n'
    assert not [one for one in validate(text=text, name="a.sh").findings if one.code == "SD117"]


def test_a_variable_of_the_cluster_is_no_wrong_number() -> None:
    text = """apiVersion: v1
kind: Pod
spec:
  containers:
    - name: a
      image: vllm/vllm-openai:v0.25.1
      args: ["--model=Qwen/Qwen3-8B", "--max-model-len=$(MAX_LEN)"]
"""
    report = validate(text=text, name="a.yaml")
    length = report.launches[0].launch.flag("--max-model-len")
    assert length is not None and length.unresolved
    assert not [one for one in report.findings if one.severity == "error"]


def test_a_mark_that_an_installer_fills_is_no_value() -> None:
    text = "[Service]\nExecStart=vllm serve Qwen/Qwen3-8B --port __PORT__\n"
    assert not validate(text=text, name="a.service").findings


def test_options_behind_the_end_of_a_units_command() -> None:
    text = "[Service]\nExecStart=llama-server -m /m/a.gguf \\\n  -np 1\n  --spec-type draft-mtp\n"
    (found,) = [
        one for one in validate(text=text, name="a.service").findings if "SD126" in one.code
    ]
    assert found.line == 4 and found.severity == "error"


def test_a_docstring_starts_no_server() -> None:
    text = 'def stop():\n    """kill only llama-server processes whose --port is ours"""\n'
    assert read_text(text, "a.py").launches == ()


def test_another_products_version_is_not_the_engines() -> None:
    text = "docker pull intel/llm-scaler-vllm:0.10.0-b2\nvllm serve Qwen/Qwen3.6-27B-FP8\n"
    assert read_text(text, "a.sh").launches[0].version_text is None


def test_cards_that_a_task_asks_for() -> None:
    text = "resources: {accelerators: H100:2}\nrun: vllm serve Qwen/Qwen3-8B -tp 4\n"
    assert "SD267" in {one.code for one in validate(text=text, name="a.yaml").findings}
