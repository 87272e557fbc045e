"""A plain install answers every question; what an extra brings is named where it is missing."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from advisor.cli.app import COMMANDS, cli
from tests.tables import words

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("pandas", "sklearn", "scipy", "jsonschema", "ruamel")
OWN = ROOT / "examples" / "own-runs"
LOADS = ["--vary", "concurrency=1,8"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """A command where none of the libraries of `[plot]` and `[train]` can be imported."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {EXTRAS!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from advisor.cli.app import main\n"
        f"sys.argv = ['advisor', *{list(words)!r}]\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )


@pytest.mark.parametrize(
    "words",
    [
        ["recommend", "--hw", "gb10", "--format", "json"],
        ["validate", "tests/corpus/case-001.yaml", "--hw", "h100", "--fail-on", "never"],
        ["sweep", "--hw", "gb10", *LOADS],
        ["compare", "gb10", "h100"],
        ["results", str(OWN / "off.json")],
        ["predict", "--rows", "knowledge/measurements/runs/seed000.csv", "--out", "-"],
        ["schema", "recommend"],
    ],
    ids=lambda words: words[0],
)
def test_answers_need_no_extra(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [(["train", "--check", "--quick"], "train"), (["evaluate"], "train")],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_missing_extra_is_named(words: list[str], extra: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and f"pip install 'mtp-advisor[{extra}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


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
