"""The property tests meet the same examples whatever ran before them, and others where asked."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
DRAW = """
import pathlib
from hypothesis import given, settings, strategies as st
{before}

@settings(max_examples=60)
@given(st.text(), st.floats(), st.integers())
def test_draw(text, real, whole):
    with pathlib.Path("drawn").open("a") as out:
        print(ascii((text, real, whole)), file=out)
"""


def draw_examples(folder: Path, before: str = "", *options: str) -> str:
    """What a property test draws under the settings of all tests, `before` having been run."""
    (folder / "test_draw.py").write_text(DRAW.format(before=before))
    call = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--rootdir", str(folder)]
    call += [*options, "test_draw.py"]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(call, cwd=folder, env=clean | {"PYTHONPATH": path}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = (folder / "drawn").read_text()
    (folder / "drawn").unlink()
    return drawn


def test_examples_follow_from_the_test_alone(tmp_path: Path) -> None:
    first = draw_examples(tmp_path)
    assert first.count("\n") >= 50
    assert draw_examples(tmp_path, "import advisor.lint.validate, advisor.cli.app") == first


def test_examples_are_others_where_asked(tmp_path: Path) -> None:
    option = "--hypothesis-profile=random"
    assert draw_examples(tmp_path, "", option) != draw_examples(tmp_path, "", option)
