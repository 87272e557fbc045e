"""Habits of the command line that hold of every command: groups in the help, numbers and machines
as people write them, the version, Ctrl-C, the width, values that are misspelt.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_run import run
from click.testing import CliRunner

from advisor.cli import app
from advisor.cli.app import COMMANDS, GROUPS
from advisor.cli.base import _needs_a_checkout
from advisor.knowledge import age

ROOT = Path(__file__).parents[2]
COMPOSE = str(next((ROOT / "examples/validate-compose").glob("*.y*ml")))
SWEPT = ["sweep", "--hw", "gb10", "--vary", "concurrency=1,8,64", "--vary", "k=0..4"]
PAIR = [str(ROOT / f"examples/own-runs/{arm}.json") for arm in ("off", "on")]
SCRIPT = """\
import os, signal, sys
sys.argv = ["/bin/advisor", "rules"]
{body}
"""


def call(*words: str) -> tuple[int, str]:
    """Exit status, and all that was printed."""
    done = run(*words)
    return done.code, done.out + done.err


def commands(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands below a group."""
    with click.Context(group) as context:
        for word in group.list_commands(context):
            command = group.get_command(context, word)
            yield f"{name} {word}".strip(), command
            if isinstance(command, click.Group):
                yield from commands(command, word)


def test_every_command_has_one_place_in_the_help() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    status, text = call("--help")
    assert status == 0 and "..." not in text.split("Decide:")[1]
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options", "Decide", "Check", "Measure", "Explore", "Serve", "Maintain"]


def test_what_needs_a_checkout_takes_any_words_and_says_so() -> None:
    done = CliRunner().invoke(_needs_a_checkout("train"), ["--help", "x", "--seed=3"])
    assert "`advisor train` needs a checkout of the repository: the m" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["validate", "--hw", "2x3090", "--ctx", "32k", COMPOSE], "in 2 launches"),
        (["compare", "gb10", "2x3090"], "NVIDIA GeForce RTX 3090"),
        (["compare", "2x3090", "gb10"], "NVIDIA GB10"),
        (["ab", *PAIR, "--hw", "2x3090", "--model", "qwen3.6-35b-a3b"], "on rtx3090"),
    ],
)
def test_two_cards_are_written_alike_everywhere(words: list[str], text: str) -> None:
    status, printed = call(*words)
    assert status < 2 and text in printed, printed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-V"], "advisor, version"),
        (["version"], "Did you mean '--version'?"),
        (["recommend", "--hw", "gb10", "--format", "jsn"], "Did you mean 'json'?"),
        (["recommend", "--hw", "gb10", "--goal", "thoughput"], "Did you mean 'throughput'?"),
        (["validate", "--fail-on", "eror", COMPOSE], "Did you mean 'error'?"),
        (["bench", "run", "--url", "http://127.0.0.1:1", "--arm", "onn"], "Did you mean 'on'?"),
        (["bench", "run", "--workload", "chta"], "Did you mean 'chat'?"),
        (["sweep", "--hw", "gb10", "--vary", "cocurrency=1"], "Did you mean 'concurrency'?"),
        (["ab", *PAIR, "--method", "eagle33"], "Did you mean 'eagle3'?"),
    ],
)
def test_the_version_and_what_was_meant(words: list[str], text: str) -> None:
    assert text in call(*words)[1]


def test_the_version_comes_with_the_age_of_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(age, "facts_line", lambda: "facts of today")
    for old in ("", "facts are old"):
        monkeypatch.setattr(age, "stale_line", lambda old=old: old)
        assert call("--version")[1].splitlines()[1:] == [old or "facts of today"]


def test_what_the_system_refuses_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    app._report_os_error(FileNotFoundError(2, "No such file or directory", "a\x1b.csv"))
    assert capsys.readouterr().err == "Error: a\\x1b.csv: no such file or directory\n"


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("import advisor; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, ""),
        ("import advisor.cli.app; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, ""),
        ("from advisor.cli import app\n"
         "app.Commands.get_command = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
         "app.main()", 130, "interrupted"),
        ("from advisor.cli import app\n"
         "app.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGINT)\n"
         "app.main()", 130, "interrupted"),
    ],
    ids=["package", "command line", "a command's imports", "an answer"],
)  # fmt: skip
def test_ctrl_c_is_no_traceback_at_any_moment(body: str, status: int, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body)], capture_output=True, text=True,
        check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (status, text)


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize(
    "words",
    [["recommend", "--hw", "gb10"], ["compare", "gb10", "h100"], ["results", *PAIR], SWEPT,
     ["ab", *PAIR, "--hw", "gb10", "--model", "qwen3.6-35b-a3b"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_columns_set_width(width: int, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = call(*words)[1]
    unbroken = ("--speculative-config", "{")  # an option's JSON cannot be broken
    long = [line for line in text.splitlines() if len(line) > width]
    assert [line for line in long if not line.strip().startswith(unbroken)] == []


def test_a_home_not_writable_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    words = ["calibrate", *PAIR, "--hw", "h100", "--model", "qwen3.6-35b-a3b", "--quant", "fp8"]
    status, text = call(*words, "--k", "2")
    assert status == 2 and text.startswith("Error: cannot write the machine file"), text
