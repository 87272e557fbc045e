"""Forms of starts that a second set of public configurations (tests/corpus2) brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.lint.validate import validate


def read(tmp_path: Path, name: str, text: str) -> list[tuple[str, str, int]]:
    """(engine, method, k) of every launch in a file of that name."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return [
        (one.launch.engine, one.plan.method, one.plan.k) for one in validate(str(path)).launches
    ]


MTP = """--speculative-config '{"method":"mtp","num_speculative_tokens":2}'"""


def test_a_server_whose_start_is_a_condition_is_found(tmp_path: Path) -> None:
    text = (
        f'up() {{\n  vllm serve "$1" {MTP} &\n  return 0\n}}\nfor m in a b; do\n  if up $m; '
        "then echo ok; fi\ndone\n"
    )
    assert read(tmp_path, "a.sh", text) == [("vllm", "mtp", 2)] * 2
    assert read(tmp_path, "b.sh", f"if ! vllm serve m {MTP}; then exit 1; fi\n") == [
        ("vllm", "mtp", 2)
    ]


def test_blanks_after_the_backslash_continue_where_an_option_follows(tmp_path: Path) -> None:
    assert read(tmp_path, "a.sh", f"vllm serve m \\  \n  --max-num-seqs 4 \\\t\n  {MTP}\n") == [
        ("vllm", "mtp", 2)
    ]
    assert read(tmp_path, "b.sh", "vllm serve m \\  \necho --done\n")[0][1] == "none"


def test_a_plain_line_in_a_cmd_file_is_no_windows_script(tmp_path: Path) -> None:
    path = tmp_path / "a.cmd"
    path.write_text(
        f"vllm serve Qwen/Qwen3.6-35B-A3B -tp 2 --max-num-seqs 4 {MTP}\n", encoding="utf-8"
    )
    report = validate(str(path))
    assert report.launches[0].plan.k == 2


def test_a_number_that_is_not_known_leaves_the_rest_of_the_json(tmp_path: Path) -> None:
    text = (
        "vllm serve m --speculative-config "
        '"{\\"method\\":\\"eagle3\\",\\"num_speculative_tokens\\":$N,\\"model\\":\\"d\\"}"\n'
    )
    assert read(tmp_path, "a.sh", text) == [("vllm", "eagle3", 0)]


def test_a_python_list_grows_under_conditions_that_the_file_decides(tmp_path: Path) -> None:
    text = (
        'ON = True\nOFF = False\ncmd = ["vllm", "serve", "m"]\n'
        'if OFF:\n    cmd += ["--max-num-seqs", "1"]\n'
        "if ON and not OFF:\n    cmd.extend(['--speculative-config', "
        '\'{"method":"mtp","num_speculative_tokens":%d}\' % 3])\n'
        'cmd.append("--enforce-eager")\nrun(cmd)\n'
    )
    assert read(tmp_path, "a.py", text) == [("vllm", "mtp", 3)]


def test_the_chain_of_ik_llama_is_read_by_its_drafting_stage(tmp_path: Path) -> None:
    text = (
        "llama-server -m q.gguf --spec-stage ngram-mod:n_max=8 --spec-stage "
        "mtp:n_max=3,draft-p-min=0.0\n"
    )
    assert read(tmp_path, "a.sh", text) == [("ik_llama.cpp", "mtp", 3)]


def test_doubled_braces_are_json_where_the_recipe_is_a_python_format(tmp_path: Path) -> None:
    text = (
        "defaults:\n  n: 4\ncommand: |\n  vllm serve m \\\n"
        """    --speculative-config '{{"method":"mtp","num_speculative_tokens":{n}}}'\n"""
    )
    assert read(tmp_path, "a.yaml", text) == [("vllm", "mtp", 4)]


def test_return_ends_the_function_and_exec_the_script(tmp_path: Path) -> None:
    text = "run() { vllm serve a; return; }\nrun\nvllm serve b\n"
    assert len(read(tmp_path, "a.sh", text)) == 2
    assert len(read(tmp_path, "b.sh", "exec vllm serve a\nvllm serve b\n")) == 1


@pytest.mark.parametrize("name", ["--speculative-config", "--speculative_config", "-sc"])
def test_json_with_blanks_after_an_equals_sign(tmp_path: Path, name: str) -> None:
    text = f"""vllm serve m {name}='{{"method": "mtp", "num_speculative_tokens": 2}}' -tp=4\n"""
    assert read(tmp_path, "a.sh", text) == [("vllm", "mtp", 2)]


def test_a_conditional_value_that_rests_on_itself_is_not_decided(tmp_path: Path) -> None:
    call = (
        'from vllm import LLM\n{}\nLLM(model="m", speculative_config={{"method": "mtp", '
        '"num_speculative_tokens": n}})\n'
    )
    assert read(tmp_path, "a.py", call.format("on = True\nn = 3 if on else 1")) == [
        ("vllm", "mtp", 3)
    ]
    assert read(tmp_path, "b.py", call.format("n = 3 if n else 4"))[0][:2] == ("vllm", "mtp")
