"""A plain install answers every question; what an extra brings is named where it is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

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
    [
        (["train", "--check", "--quick"], "train"),
        (["evaluate"], "train"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_missing_extra_is_named(words: list[str], extra: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert f"pip install 'mtp-advisor[{extra}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
