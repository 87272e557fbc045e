"""No test is skipped without a place where it runs: its reason names the stage of CI."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPING = ("skip", "skipif", "importorskip", "xfail")


def skips() -> Iterator[tuple[str, str]]:
    """Where the tests skip, and the words of the reason."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if any("corpus" in part for part in path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in SKIPPING and "pytest" in ast.unparse(node.func):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", " ".join(words(node, path))


def words(call: ast.Call, path: Path) -> Iterator[str]:
    """The strings of a call; those of a variable are looked for in its module."""
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name) and node.id == "message":
            yield path.read_text(encoding="utf-8")


def test_a_skip_names_the_stage_that_runs_the_test() -> None:
    found = dict(skips())
    assert len(found) >= 8  # as many as there are tools and devices that a machine may lack
    lost = []
    for where, reason in found.items():
        named = re.findall(r"\.ci/[\w-]+", reason)
        if not named or not all((ROOT / one).is_file() for one in named):
            lost.append(where)
    assert lost == []


def test_the_stages_that_are_named_are_run() -> None:
    """Each by `.ci/run` itself, which is the command of CI."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    named = {one for _, reason in skips() for one in re.findall(r"\.ci/[\w-]+", reason)}
    assert named - {".ci/run"} <= set(re.findall(r"\.ci/[\w-]+", text))
