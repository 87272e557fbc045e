"""`advisor validate -` as a filter: the text is on standard output, whatever was found in it."""

import json

import pytest
from click.testing import CliRunner, Result

from advisor.cli.app import cli

BARE = "docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda-b10236 -m /m/q -fa --jinja\n"
CLEAN = "vllm serve Qwen/Qwen3.6-27B --max-num-seqs 4\n"
UNFIXABLE = (
    'vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-seqs 4 --speculative-config \'{"method": "mtp",\'\n'
)


def run(*arguments: str, text: str | bytes) -> Result:
    return CliRunner().invoke(
        cli, ["validate", *arguments, "-"], input=text, standalone_mode=False, catch_exceptions=True
    )


def status(result: Result) -> int:
    return result.return_value if isinstance(result.return_value, int) else result.exit_code


def test_what_cannot_be_fixed_comes_out_and_is_said() -> None:
    result = run("--fix", text=UNFIXABLE)
    assert (result.stdout, status(result)) == (UNFIXABLE, 1) and "SD109" in result.stderr


@pytest.mark.parametrize("option", ["--fix", "--unsafe-fixes"])
def test_the_status_is_that_of_the_fixed_text(option: str) -> None:
    assert status(run(text=BARE)) == 1
    result = run(option, text=BARE)
    assert (result.stdout, status(result)) == (BARE.replace("-fa --jinja", "-fa on --jinja"), 0)
    assert "SD120" not in result.stderr


def test_bytes_are_kept() -> None:
    raw = b"\xef\xbb\xbf# \xc3\xa9\r\n" + CLEAN.replace("\n", "\r\n").encode()
    assert run("--fix", text=raw).stdout_bytes == raw


def test_reports_in_other_forms_go_to_standard_error() -> None:
    result = run("--fix", "--format", "json", text=CLEAN)
    assert result.stdout == CLEAN and json.loads(result.stderr)["files"]
