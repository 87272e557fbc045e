"""The documentation of sweep, compare and plan: its picture holds today's data, its commands
run.
"""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.advice.explore.axes import series
from advisor.advice.explore.mix import read_mix
from advisor.advice.explore.sweep import sweep
from advisor.cli.app import cli
from advisor.domain.nouns import Request

ROOT = Path(__file__).resolve().parents[3]
PICTURE = ROOT / "docs" / "gain-gb10.svg"
PAGE = (ROOT / "docs" / "explore.md").read_text()
SVG = "{http://www.w3.org/2000/svg}"
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S))
COMMANDS = [
    line for line in SHELL.splitlines() if line.startswith("advisor ") and ".yaml" not in line
]


def test_the_picture_of_the_readme_holds_todays_gains() -> None:
    """What it says in words lies within today's intervals; else make it anew with the command that
    the README shows.
    """
    text = PICTURE.read_text()
    assert len(text) < 60_000
    words = ET.fromstring(text).findtext(f"{SVG}desc") or ""
    told = re.findall(r"k=(\d): ([+-]\d+) % at 1, ([+-]\d+) % at 128", words)
    assert [int(k) for k, _, _ in told] == [1, 2, 3]
    found = sweep(Request(hardware="gb10"), {"concurrency": [1, 128], "k": [1, 2, 3]})
    for k, *gains in told:
        for load, gain in zip(found.loads, gains, strict=True):
            point = load.point(int(k))
            ratio = 1 + int(gain) / 100
            assert point.gain.p10 - 0.01 <= ratio <= point.gain.p90 + 0.01, (k, load.setting)
    curve = next(g for g in ET.fromstring(text).iter(f"{SVG}g") if g.get("id") == "curve-mtp-2")
    path = next(curve.iter(f"{SVG}path")).get("d") or ""
    assert len(re.findall("[ML]", path)) == len(series(1, 128))
    assert "docs/gain-gb10.svg" in (ROOT / "README.md").read_text()


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
