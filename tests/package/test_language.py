"""What a user reads is in the words of the field: no word that only this project knows. Functions
are named by verbs and nouns.

Read are the strings of the code (not names, keys or expressions), the help of the commands, the
rules' docstrings, the page's templates, the facts of the rules, and the prose of the documentation.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tables import tree_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "advisor"
ROOMS = ("advice", "cli", "domain", "engines", "knowledge", "lab/measurements", "lab/*.py",
         "lint", "perf", "prediction", "readers", "render", "rules")  # fmt: skip
FIELD = {  # a word of this project -> the word of the field
    r"told|tells of": "the recommendation, or what was given", r"asked": "requested",
    r"cells?": "configuration", r"arms?|the off arm": "A/B run", r"pairs?": "A/B run, benchmark",
    r"speaks?": "applies, shows", r"stand-?ins?": "imputed value",
    r"plain[ -]steps?": "baseline step", r"rigs?": "machine",
    r"for want of": "because ... is missing", r"(?:not |un)judged": "not checked",
    r"house words?|of the house": "term", r"regimes?": "load", r"settles?": "decide",
    r"prompt's tokens?": "prompt token",
}  # fmt: skip
WORDS = re.compile(rf"(?<![\w./-])(?:{'|'.join(FIELD)})(?![\w/]|-\w)", re.IGNORECASE)
PARTICIPLE = re.compile(
    r"asked|begun|built|came|caught|chosen|done|drawn|found|given|gone|held|kept|known|laid|led|left|"
    r"lost|made|meant|met|paid|said|seen|sent|shown|spelt|spoken|taken|thought|told|took|went|won|"
    r"written|\w+(?:ed|ing)"
)
NOUNS = re.compile(  # words of this shape that are nouns, or verbs without an ending
    r"caching|ceiling|drafting|drawing|encoding|finding|heading|listing|mapping|meaning|need|nothing|"
    r"routing|sampling|seed|setting|sharing|speed|spelling|string|thinking"
)
VERBS = re.compile(  # a verb may have a participle behind it: `drop_ignored`, `is_covered`
    r"add|can|check|count|does|drop|find|has|is|not|parse|plot|read|run|test|was|write"
)
PREPOSITIONS = re.compile(r"at|by|everywhere|for|from|in|of|on|or|since|to|with")
ADJECTIVES = {"sourced"}  # `sourced(3.35, "TB/s", source)`: a number, said to have a source
CODE = re.compile(
    r"```.*?```|`[^`]*`|<!--.*?-->|https?://\S+|--[\w-]+|<[^<>]*>|\{[{%].*?[%}]\}", re.DOTALL
)


def house_words(text: str) -> list[str]:
    """The words of this project in a text, code and addresses apart."""
    return WORDS.findall(CODE.sub(" ", text))


def is_participle(word: str) -> bool:
    return not NOUNS.fullmatch(word) and PARTICIPLE.fullmatch(word) is not None


def is_participle_name(name: str) -> bool:
    """Whether a function is named by what was done: `told`, `mix_sent`, `joined_by_equals`."""
    words = name.strip("_").split("_")
    if name in ADJECTIVES or (len(words) > 1 and VERBS.fullmatch(words[0])):
        return False
    behind = is_participle(words[0]) and len(words) > 1 and PREPOSITIONS.fullmatch(words[1])
    return bool(behind) or is_participle(words[-1])


def participle_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The functions named so, with their lines. Rules are named by what they find: left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            rule = any(ast.unparse(d).startswith("rule(") for d in node.decorator_list)
            if is_participle_name(node.name) and not rule:
                yield node.lineno, node.name


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
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("re.", "lazy")):
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
    return [f"{at}: {odd} in {text[:100]!r}" for at, text in named if (odd := house_words(text))]


@pytest.mark.parametrize("room", ROOMS)
def test_strings_of_the_code(room: str) -> None:
    found = []
    for path in sorted(PACKAGE.glob(room) if "*" in room else (PACKAGE / room).rglob("*.py")):
        tree = tree_of(path)
        at = path.relative_to(ROOT)
        found += faults((f"{at}:{line}", text) for line, text in texts(tree))
    assert found == []


def test_page() -> None:
    files = [p for p in (PACKAGE / "cli" / "serve").rglob("*") if p.suffix in (".html", ".j2")]
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


def test_functions_are_named_by_verbs_and_nouns() -> None:
    found = []
    for path in [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]:
        if "corpus" in path.name or any("corpus" in part for part in path.parts):
            continue  # files of others, read and not run
        tree = tree_of(path)
        found += [f"{path.relative_to(ROOT)}:{n} {name}" for n, name in participle_names(tree)]
    assert found == []


def test_imports_keep_the_names_of_modules() -> None:
    """`from advisor.prediction import utility`, not `as stakes`; short names of arrays apart."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            for one in node.names if isinstance(node, ast.ImportFrom | ast.Import) else ():
                if one.asname and is_participle_name(one.asname):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {one.asname}")
    assert found == []


def test_the_check_can_fail() -> None:
    tree = ast.parse('def f(n):\n    """No arm."""\n    return f"{n} arms", "the asked load"\n')
    assert [words for _, text in texts(tree) for words in house_words(text)] == ["asked", "arms"]
    names = "told _read mix_sent joined_by_equals is_covered drop_ignored measured_ttft sourced"
    tree = ast.parse("".join(f"def {name}(): pass\n" for name in names.split()))
    assert [name for _, name in participle_names(tree)] == ["told", "mix_sent", "joined_by_equals"]
