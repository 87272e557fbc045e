"""The documentation of sweep, compare and plan: its picture holds today's data, its commands
run.
"""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.advice.explore.mix import read_mix
from advisor.cli.app import cli

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "explore.md").read_text()
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S))
COMMANDS = [
    line for line in SHELL.splitlines() if line.startswith("advisor ") and ".yaml" not in line
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, shlex.split(command)[1:])
    assert done.exit_code == 0 and done.output, done.output


def test_the_mix_of_the_page_is_one() -> None:
    text = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0]
    assert [work.name for work in read_mix(text).classes] == ["chat", "documents"]
    assert len(COMMANDS) >= 7
