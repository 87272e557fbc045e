"""What a user reads is in the words of the field: no word that only this project knows.

Read are the strings of the code (not names, keys or expressions), the help of the commands, the
rules' docstrings, the page's templates, the facts of the rules, and the prose of the documentation.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "advisor"
ROOMS = (
    "advice",
    "cli",
    "domain",
    "engines",
    "knowledge",
    "lab/measurements",
    "lab/serving",
    "lint",
    "perf",
    "prediction",
    "readers",
    "render",
    "rules",
)
FIELD = {  # a word of this project -> the word of the field
    r"told|tells of": "the recommendation, or what was given",
    r"asked": "requested",
    r"cells?": "configuration",
    r"arms?|the off arm": "A/B run",
    r"pairs?": "A/B run, benchmark",
    r"speaks?": "applies, shows",
    r"stand-?ins?": "imputed value",
    r"plain[ -]steps?": "baseline step",
    r"rigs?": "machine",
    r"for want of": "because ... is missing",
    r"(?:not |un)judged": "not checked",
    r"house words?|of the house": "term",
    r"regimes?": "load",
    r"settles?": "decide",
    r"prompt's tokens?": "prompt token",
}
WORDS = re.compile(rf"(?<![\w./-])(?:{'|'.join(FIELD)})(?![\w/]|-\w)", re.IGNORECASE)
CODE = re.compile(
    r"```.*?```|`[^`]*`|<!--.*?-->|https?://\S+|--[\w-]+|<[^<>]*>|\{[{%].*?[%}]\}", re.DOTALL
)


def house_words(text: str) -> list[str]:
    """The words of this project in a text, code and addresses apart."""
    return WORDS.findall(CODE.sub(" ", text))


def has_printed_docstring(node: ast.AST) -> bool:
    """A function whose docstring is printed: a command's help, a rule's page."""
    names = {ast.unparse(d).partition("(")[0] for d in getattr(node, "decorator_list", ())}
    return any(name.endswith((".command", ".group", "rule")) for name in names)


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module that a person may read, with their lines."""
    skipped: set[int] = set()
    parts: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        documented = isinstance(body, list) and body and isinstance(body[0], ast.Expr)
        if documented and not has_printed_docstring(node):
            skipped.add(id(body[0].value))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(
            ("re.", "Lazy", "lazy")
        ):
            skipped |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            prose = " " in node.value.strip() or (id(node) in parts and " " in node.value)
            if prose and id(node) not in skipped:
                yield node.lineno, node.value


def values(data: Any) -> Iterator[str]:
    """All texts of a JSON document, keys apart."""
    if isinstance(data, dict):
        for value in data.values():
            yield from values(value)
    elif isinstance(data, list):
        for value in data:
            yield from values(value)
    elif isinstance(data, str) and " " in data:
        yield data


def faults(named: Iterator[tuple[object, str]]) -> list[str]:
    return [
        f"{at}: {words} in {text[:100]!r}" for at, text in named if (words := house_words(text))
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_strings_of_the_code(room: str) -> None:
    found = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at = path.relative_to(ROOT)
        found += faults((f"{at}:{line}", text) for line, text in texts(tree))
    assert found == []


def test_page() -> None:
    folder = PACKAGE / "cli" / "serve"
    files = [p for p in folder.rglob("*") if p.suffix in (".html", ".j2")]
    assert files
    lines = (
        (f"{path.name}:{n}", line)
        for path in files
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if not line.lstrip().startswith("{#")
    )
    assert faults(lines) == []


def test_facts_of_the_rules() -> None:
    found = []
    for path in sorted((ROOT / "knowledge" / "rules").glob("*.json")):
        found += faults((path.name, text) for text in values(json.loads(path.read_text())))
    assert found == []


def test_documentation() -> None:
    files = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    files += sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "rules").glob("*.md"))
    found = faults((path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in files)
    assert found == []


def test_the_check_can_fail() -> None:
    tree = ast.parse('def f(n):\n    """No arm."""\n    return f"{n} arms", "the asked load"\n')
    assert [words for _, text in texts(tree) for words in house_words(text)] == ["asked", "arms"]
