"""The house keeps its shape: heavy libraries stay off the hot paths, rooms stay small, no new
circle of imports.

The floors themselves are a contract of import-linter in pyproject.toml (`lint-imports`).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import grimp
import networkx

from advisor.cli.app import COMMANDS
from advisor.readers.dispatch import READERS
from advisor.render.forms import FORMS
from tests.tables import text_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "advisor"
HEAVY = {"pandas", "sklearn", "rich", "ruamel", "scipy", "jsonschema", "tree_sitter",
         "tree_sitter_bash", "yaml"}  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 350
MOST_FILES = 20  # in a folder
MOST_ROOMS = 16  # packages, __init__.py and py.typed
MOST_INSIDE = 40  # imports of our own inside functions
MOST_COMPARED = 15  # lines that compare engine names where traits are asked elsewhere


INSIDE = re.compile(r"^[ \t]+from advisor", re.M)
NAMED = re.compile(r"advisor(\.\w+)+:\w+")


def top_imports(tree: ast.Module) -> list[str]:
    """Modules imported with the file, not under TYPE_CHECKING or inside functions."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return names


def test_no_import_cycle() -> None:
    """Groups of modules that import each other, in functions and under TYPE_CHECKING too."""
    graph = grimp.build_graph("advisor", exclude_type_checking_imports=False, cache_dir=None)
    edges = networkx.DiGraph(
        (a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a)
    )
    groups = networkx.strongly_connected_components(edges)
    assert [sorted(group) for group in groups if len(group) > 1] == []


def test_a_folder_holds_few_files() -> None:
    held = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES)
    assert {name: count for name, count in held.items() if count > MOST_FILES} == {}


def test_the_package_has_twelve_rooms() -> None:
    top = {p.name for p in PACKAGE.iterdir() if p.name not in ("__pycache__", "_data")}
    assert len(top) <= MOST_ROOMS, sorted(top)


def test_few_imports_hide_inside_functions_each_with_its_reason() -> None:
    found: dict[str, bool] = {}
    for path in filter(lambda path: INSIDE.search(text_of(path)), FILES):
        lines = text_of(path).splitlines()
        for outer in ast.walk(tree_of(path)):
            for node in ast.walk(outer) if isinstance(outer, ast.FunctionDef) else ():
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("advisor"):
                    reason = "#" in lines[node.lineno - 1] + lines[node.lineno - 2]
                    found[f"{path.relative_to(ROOT)}:{node.lineno}"] = reason
    assert len(found) <= MOST_INSIDE, f"{len(found)} imports inside functions"
    assert [place for place, reason in found.items() if not reason] == []


def test_one_place_says_how_near_a_spelling_must_be() -> None:
    named = [path for path in FILES if "get_close_matches" in text_of(path)]
    assert named == [PACKAGE / "domain" / "spelling.py"]


def test_engine_names_are_compared_in_few_places() -> None:
    """Traits say what sets engines apart; engines/ and rules/ know them by name."""
    compared = re.compile(r'engine (==|!=) "|engine in \("')
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in FILES
        if path.relative_to(PACKAGE).parts[0] not in ("engines", "rules")
        for line in text_of(path).splitlines()
        if compared.search(line)
    ]
    assert len(found) <= MOST_COMPARED, "\n".join(found)


# lab/ is never imported at run time; measuring (cli/bench.py) takes minutes
MAY_BE_HEAVY = ("build.py", "fixes.py", "apply_fixes.py", "fix_variables.py", "bench.py")


def test_heavy_libraries_are_imported_lazily() -> None:
    quick = [path for path in FILES if path.name not in MAY_BE_HEAVY]
    imported = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in quick
        if path.relative_to(PACKAGE).parts[0] != "lab"
        for name in top_imports(tree_of(path))
        if name.split(".")[0] in HEAVY
    }
    assert imported == set()


def test_modules_say_what_they_do_and_stay_small() -> None:
    for path in FILES:
        text, tree, where = text_of(path), tree_of(path), path.relative_to(ROOT)
        # a rule's contract is its function's docstring
        rules = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
        nodes: list[ast.FunctionDef] | list[ast.Module] = (
            rules if path.name.startswith("sd") else [tree]
        )
        if path.name == "_index.py":
            assert text.startswith("# generated"), "a generated file says so in line one"
        else:
            assert nodes and all(map(ast.get_docstring, nodes)), f"{where} has no docstring"
        assert text.count("\n") <= MOST_LINES, f"{where} is crowded"


def test_names_in_strings_lead_to_functions() -> None:
    """Modules that are imported when they are used, by a name in a table."""
    named = [
        node.value
        for path in FILES
        if NAMED.search(text_of(path))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        and NAMED.fullmatch(node.value)
    ]  # fmt: skip
    named += [*READERS.values(), *(form.writer for form in FORMS.values())]
    named += [f"{command.target}:{name.replace('-', '_')}" for name, command in COMMANDS.items()]
    assert len(named) > 50
    for name in named:
        module, _, attribute = name.partition(":")
        assert hasattr(import_module(module), attribute), name


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


STAGES = Path(__file__).resolve().parents[2] / "advisor"
STAGE_FILES = sorted(
    path
    for room in ("advice", "domain", "engines", "knowledge", "lint", "readers", "render", "rules")
    for path in (STAGES / room).rglob("*.py")
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
        f"{path.relative_to(STAGES)}:{line}"
        for path in STAGE_FILES
        for line in parsed_sentences(path.read_text(encoding="utf-8"))
    }
    assert lines == set()


PRINTS = ("click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write")


def test_commands_print_through_one_door() -> None:
    """`say` alone prints: who adds a command cannot forget to escape."""
    found = [
        (path.name, ast.unparse(node.args[0]))
        for path in sorted((PACKAGE / "cli").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTS
    ]
    # a filter's output: the bytes of the file itself
    filtered = "read.source.bom + change.text.encode(read.source.encoding)"
    assert found == [("base.py", "shown"), ("validate.py", filtered)]
