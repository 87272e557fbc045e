"""The house keeps its shape: imports point one way, heavy libraries stay off the hot paths, rooms stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "advisor"
# Lower layers may not import higher ones.
LAYERS = {
    "types": 0, "known": 0, "frozen": 0, "paths": 0,
    "points": 1, "physics": 1, "prompt_cost": 1, "schedule": 1, "acceptance": 1, "features": 1, "engines": 1, "knowledge": 1,
    "memory": 1, "measurements": 1,
    "predictor": 2, "rules": 2, "propose": 2, "readers": 2,
    "decide": 3, "k_schedule": 3, "reasons": 3, "render": 3, "train": 3, "evaluate": 3, "fixes": 3, "bench": 3,
    "pipeline": 4, "validating": 4,
    "commands": 5, "cli": 6,
}  # fmt: skip
HEAVY = {
    "pandas",
    "sklearn",
    "rich",
    "matplotlib",
    "ruamel",
    "scipy",
    "jsonschema",
    "tree_sitter",
    "tree_sitter_bash",
    "yaml",
}
FILES = sorted(p for p in PACKAGE.rglob("*.py"))


def layer(path: Path) -> int | None:
    """The layer of a module: by its folder or the longest known prefix of its name."""
    head = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in sorted(LAYERS, key=len, reverse=True):
        if head == name or head.startswith(name + "_"):
            return LAYERS[name]
    return None


def top_level_imports(tree: ast.Module) -> list[str]:
    """Modules imported when the file is imported; imports under TYPE_CHECKING or inside functions do not count."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def module_path(name: str) -> Path | None:
    if not name.startswith("advisor."):
        return None
    base = ROOT / Path(*name.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    own = layer(path)
    if own is None:
        return
    for name in top_level_imports(ast.parse(path.read_text())):
        target = module_path(name)
        if target is not None and target != path:
            other = layer(target)
            assert other is None or other <= own, (
                f"{path.relative_to(ROOT)} (layer {own}) imports {name} (layer {other})"
            )


OFF_THE_HOT_PATH = (
    "train",
    "evaluate",
    "report",
    "measurement",
    "knowledge_build",
    "fixes",
    "readme",
    "acceptance_fit",
    "training",
)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_libraries_are_imported_lazily(path: Path) -> None:
    head = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if head.startswith(OFF_THE_HOT_PATH):
        return
    for name in top_level_imports(ast.parse(path.read_text())):
        assert name.split(".")[0] not in HEAVY, f"{path.relative_to(ROOT)} imports {name} when it is imported"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_say_what_they_do_and_stay_small(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    rule = path.parent.name == "rules" and path.name.startswith("sd")  # a rule's contract is its function's docstring
    told = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list] if rule else [tree]
    assert told, f"{path.relative_to(ROOT)} declares no rule"
    if path.name == "_index.py":
        assert text.startswith("# generated"), "a generated file says so in line one"
    else:
        assert all(ast.get_docstring(node) for node in told), f"{path.relative_to(ROOT)} has no docstring"
    assert text.count("\n") <= 450, f"{path.relative_to(ROOT)} is crowded"
