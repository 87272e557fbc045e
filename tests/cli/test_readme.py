"""What the README shows is true: its generated parts, its commands, the files it names."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from advisor.cli.app import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "docs/rules/README.md"))
ALL = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", ALL, re.DOTALL))
CALLS = sorted(
    {line.partition("#")[0].strip() for line in SHELL.splitlines() if re.match(r"advisor \w", line)}
)


def test_the_readme_is_short_and_shows_commands() -> None:
    assert TEXT.count("\n") <= 150 and len(CALLS) >= 8


@pytest.mark.parametrize("call", CALLS)
def test_its_commands_parse(call: str) -> None:
    words = shlex.split(re.split(r" [|>] ", call)[0])
    assert words[1] in COMMANDS
    with click.Context(cli, info_name="advisor") as above:
        command = cli.get_command(above, words[1])
        command.make_context(
            words[1], words[2:], parent=above, resilient_parsing="validate" in words
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = set(re.findall(r"\]\((?!http)([^)#\s]+)\)", page.read_text(encoding="utf-8")))
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_the_two_commands_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11" and "dev" in project["optional-dependencies"]
    setups = [line for line in TEXT.splitlines() if line.startswith("python3 -m venv")]
    assert len(setups) == 2
    runner = ROOT / ".ci" / "run"
    if runner.exists():
        assert setups[1] in runner.read_text(encoding="utf-8")


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "docker-compose.yml").write_text(
        (ROOT / "examples/validate-compose/docker-compose.yml").read_text()
    )
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["advice"].decision in ("on", "off", "measure")
    assert set(names["rows"][0]) >= {"speedup_p50", "p_gain", "basis", "error"}
    assert names["report"].findings


def test_its_hook_and_workflow_are_yaml() -> None:
    blocks = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/validate.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(blocks) == 2 and all(yaml.safe_load(block) for block in blocks)
