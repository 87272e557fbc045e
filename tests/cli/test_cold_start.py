"""What a recommendation and the check of a file must not import: libraries that only training,
reports and other commands need.
"""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from advisor.cli.app import COMMANDS, cli
from tests.tables import words

HEAVY = words(
    "pandas sklearn scipy rich ruamel jsonschema tree_sitter yaml email.parser asyncio "
    "threadpoolctl"
)
CALLS = {
    "recommend": ["recommend", "--hw", "gb10", "--concurrency", "16", "--ctx", "2048"],
    "json": ["recommend", "--hw", "gb10", "--format", "json"],
    "compose": ["compose", "--hw", "gb10"],
    "llama-server": ["recommend", "--hw", "3090", "--engine", "llama-server"],
}


def output_of(code: str) -> list[str]:
    """The lines that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", CALLS)
def test_no_heavy_library_is_imported(name: str) -> None:
    code = (
        "import sys\nfrom advisor.cli.app import main\n"
        f"try:\n    main({CALLS[name]!r})\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print('IMPORTED', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert output_of(code)[-1] == "IMPORTED []"


def test_the_help_imports_no_command_and_says_what_each_says() -> None:
    """It took twelve bare imports of click, pydantic and numpy: those of training came along."""
    code = (
        "import sys\nfrom advisor.cli.app import COMMANDS, main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print([m for m in (*(c.target for c in COMMANDS.values()), 'numpy') if m in sys.modules])"
    )
    assert output_of(code)[-1] == "[]"
    context = click.Context(cli)
    own = {name: cli.get_command(context, name) for name in COMMANDS}
    said = {name: one.get_short_help_str(1000) for name, one in own.items() if one is not None}
    assert said == {name: command.summary for name, command in COMMANDS.items()}
    with context:
        assert all(f"  {name} " in cli.get_help(context) for name in COMMANDS)


FILES = sorted(str(path) for path in Path(__file__).parents[1].glob("corpus*/case-*"))


def test_files_are_judged_without_numpy_until_an_estimate_is_asked_for() -> None:
    code = (
        "import sys\nfrom advisor import validate\n"
        f"for path in {FILES!r}:\n"
        "    validate(path)\n"
        "    validate(path, hw='gb10', concurrency=16, ctx=8192)\n"
        "    assert 'numpy' not in sys.modules, path\n"
        "validate(path, hw='gb10', concurrency=16, ctx=8192, changes=True)\n"
        "print('judged', 'numpy' in sys.modules)"
    )
    assert len(FILES) > 90 and output_of(code) == ["judged True"]
