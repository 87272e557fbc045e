"""Public functions of perf/, prediction/ and lab/ that take or return arrays say their shapes: by
the aliases of perf/arrays, which are (N,), or in the docstring. What a function raises itself is
said.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.tables import tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"
ROOMS = ("perf", "prediction", "lab")
ARRAY_NAMES = ("Floats", "Ints", "Mask", "Codes", "Points", "Seconds", "Tokens", "Requests")
ARRAYS = re.compile(rf"\b({'|'.join(ARRAY_NAMES)}|Flags|Words|NDArray)\b")
# (N,), (N, k), (n,) or (..., A, B)
SHAPE = re.compile(r"\((\.\.\.|[A-Za-z]\w*),[^)]*\)")
COUNTED = re.compile(r"\b[A-Z] (points|examples|rows)\b")  # a table of arrays, one of each field


def public() -> Iterator[tuple[str, ast.FunctionDef]]:
    """(module:name, function) of each public function and method."""
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            where = path.relative_to(PACKAGE).as_posix()
            tree = tree_of(path)
            classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
            for owner in (tree, *classes):
                prefix = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
                for node in owner.body:
                    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                        yield f"{where}:{prefix}{node.name}", node


def array_words(node: ast.FunctionDef) -> set[str]:
    """The names of arrays that a function takes and returns; none of a property."""
    if any("property" in ast.unparse(d) for d in node.decorator_list):
        return set()
    known = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    kinds = [arg.annotation for arg in known] + [node.returns]
    return {w for kind in kinds if kind is not None for w in ARRAYS.findall(ast.unparse(kind))}


@cache
def stated_names(module: str) -> frozenset[str]:
    """The names of arrays that a module has from perf/arrays, where their shape is stated."""
    if module == "perf/arrays.py":
        return frozenset(ARRAY_NAMES)
    imports = [n for n in tree_of(PACKAGE / module).body if isinstance(n, ast.ImportFrom)]
    return frozenset(
        {"Points"} | {a.name for n in imports if n.module == "advisor.perf.arrays" for a in n.names}
    )


def says_shape(node: ast.FunctionDef, stated: frozenset[str] = frozenset()) -> bool:
    """Whether the docstring says a shape, or all arrays are of the `stated` names."""
    text = ast.get_docstring(node) or ""
    return array_words(node) <= stated or bool(SHAPE.search(text) or COUNTED.search(text))


def gaps(node: ast.FunctionDef) -> list[str]:
    text = ast.get_docstring(node) or ""
    found = []
    for raised in (n.exc for n in ast.walk(node) if isinstance(n, ast.Raise) and n.exc):
        name = ast.unparse(raised.func if isinstance(raised, ast.Call) else raised).split(".")[-1]
        if name[0].isupper() and name not in text:
            found.append(f"raises {name}")
    return found


def test_what_is_raised_is_named() -> None:
    wrong = [f"{name} {', '.join(bad)}" for name, node in public() if (bad := gaps(node))]
    assert not wrong, "\n".join(wrong)


def test_docstrings_say_shapes() -> None:
    named = [(name, f) for name, f in public() if name[:4] != "lab/"]  # its aliases say them
    bare = [name for name, f in named if not says_shape(f, stated_names(name.split(":")[0]))]
    assert not bare, "\n".join(bare)


def test_the_laboratorys_aliases_say_their_shapes() -> None:
    aliases = (PACKAGE / "lab" / "arrays.py").read_text().splitlines()
    lines = [line for line in aliases if "NDArray[" in line]
    assert lines and all(SHAPE.search(line.partition("#")[2]) for line in lines)
    own = [p.name for p in (PACKAGE / "lab").rglob("*.py") if " = npt.NDArray[" in p.read_text()]
    assert own == ["arrays.py"], "arrays of lab/ are named in one place"


def test_the_check_sees_what_is_missing() -> None:
    bare = ast.parse('def g(a: Floats) -> Floats:\n    """Shares."""\n').body[0]
    assert not says_shape(bare) and says_shape(bare, frozenset({"Floats"}))
    odd = ast.parse('def f(a: int) -> None:\n    """Say."""\n    raise ValueError(a)\n').body[0]
    assert gaps(odd) == ["raises ValueError"]
