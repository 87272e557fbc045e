"""The documentation of sweep, compare and plan: its picture holds today's data, its commands
run.
"""

import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
from cli_run import run
from click.testing import CliRunner

from advisor.advice.explore.mix import read_mix
from advisor.cli.app import cli
from advisor.render.objects import named_schema
from tests.tables import spread

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "explore.md").read_text()
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S))
COMMANDS = [
    line for line in SHELL.splitlines() if line.startswith("advisor ") and ".yaml" not in line
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, shlex.split(command)[1:])
    assert done.exit_code == 0 and done.output, done.output


def test_the_mix_of_the_page_is_one() -> None:
    text = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0]
    assert [work.name for work in read_mix(text).classes] == ["chat", "documents"]
    assert len(COMMANDS) >= 7


GB10 = ["--hw", "gb10", "--concurrency", "8"]
CALLS = {
    "compare": [
        ["gb10", "h100", "--users-within", "tpot=50ms,ttft=2s", "--price", "2.10/h"],
        ["vllm@0.25.1", "vllm@0.32.0", "sglang", *GB10, "--watts", "200"],
        ["fp8", "bf16", "--hw", "h100"],
        ["qwen3.6-35b-a3b", "llama-3.3-70b", "--hw", "h200"],
    ],
    "why-not": [["k=4", *GB10], ["k=2", "--hw", "apple-m4-max"]],
    "sweep": [
        [*GB10, "--vary", "concurrency=1,4,16", "--vary", "k=0..3"],
        ["--hw", "h100", "--vary", "ctx=512,8192", "--users-within", "tpot=50ms"],
        ["--hw", "apple-m4-max", "--engine", "llama-server", "--vary", "concurrency=1,2"],
        ["--hw", "h200", "--model", "qwen2.5-72b", "--vary", "concurrency=1,2"],
        ["--hw", "v100", "--model", "qwen3.5-9b", "--vary", "output_tokens=16,512"],
    ],
    "policy": [["--hw", "gb10", "--concurrency", "1..64"]],
}


@pytest.mark.parametrize(
    ("name", "words"),
    [one for name, calls in CALLS.items() for one in spread([(name, w) for w in calls], 9)],
)
def test_output_is_as_its_schema(name: str, words: list[str]) -> None:
    command = "recommend" if name == "policy" else name
    ran = run(command, *words, "--format", "json")
    assert ran.code == 0, ran.err
    schema = named_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(ran.out), schema)
