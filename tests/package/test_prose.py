"""No stage reads a sentence that another stage wrote: what it has to know is a field."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"
FILES = sorted(
    path
    for room in ("advice", "domain", "engines", "knowledge", "lint", "readers", "render", "rules")
    for path in (PACKAGE / room).rglob("*.py")
    if path.parent.name != "extract"  # its errors are those of an engine's own parser
)
TESTS = ("search", "match", "fullmatch", "findall", "startswith", "partition", "removeprefix")


def parsed_sentences(source: str) -> Iterator[int]:
    """Lines that search, take apart or look up text in a launch's note, a reason or an error."""
    tree = ast.parse(source)
    notes = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.comprehension)
        and isinstance(node.target, ast.Name)
        and any(_is_sentence(part, set()) for part in ast.walk(node.iter))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in TESTS and any(
                _is_sentence(part, notes) for part in (node.func.value, *node.args)
            ):
                yield node.lineno
        elif (
            isinstance(node, ast.Compare)
            and isinstance(node.ops[0], ast.In | ast.NotIn)
            and any(_is_sentence(part, notes) for part in node.comparators)
        ):
            yield node.lineno


def _is_sentence(node: ast.AST, names: set[str]) -> bool:
    """Whether it is `str(error)`, `reason.text`, `launch.notes`, or named as one of these notes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "str" and any(
            isinstance(one, ast.Name) and one.id == "error" for one in node.args
        )
    if isinstance(node, ast.Attribute):
        owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
        return (node.attr == "notes" and owner in ("launch", "read")) or (
            node.attr == "text" and owner in ("r", "reason")
        )
    return isinstance(node, ast.Name) and node.id in names


def test_no_stage_parses_a_sentence() -> None:
    lines = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in FILES
        for line in parsed_sentences(path.read_text(encoding="utf-8"))
    }
    assert lines == set()
