"""Numbers of the code that describe engines, hardware or measurements carry their source.

A number at the top of a module of perf/, prediction/ or advice/ is wrapped in `sourced(value, unit,
source, status)`, unless it is a limit of what is read or computed, which nothing could contradict.
Inside functions stand only numbers of mathematics, factors between units, and what keeps a division
or a logarithm finite.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from advisor.domain.sourced import Status
from tests.tables import tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"
ROOMS = ("perf", "prediction", "advice")
# Tolerances: how much is read, computed, searched or shown; positions in an array; mathematics.
TOLERANCES = {
    "advice/explain/what_if.py": {"_LOADS", "_PARTS"},
    "advice/explore/axes.py": {"POINTS", "MOST_LOADS", "MOST_K", "K_LIMITS"},
    "advice/explore/compare.py": {"MOST"}, "advice/explore/k_ranges.py": {"NOTHING"},
    "advice/explore/mix.py": {"MOST_BYTES", "MOST_CLASSES"},
    "advice/explore/within.py": {"MOST"}, "advice/own_runs/machine.py": {"MAX_BYTES", "MAX_RUNS"},
    "advice/rows/predict.py": {"MOST_ROWS", "EACH"}, "perf/encoding/cells.py": {"_SPARSE"},
    "perf/sizes/weights.py": {"GIB", "MAX_LAYERS", "MAX_READINGS", "_NAME_LENGTH"},
    "prediction/acceptance.py": {"STEPS_DOWN"},
    "prediction/artefact.py": {"SCHEMA"}, "prediction/cell_pairs.py": {"SAME_K"},
    "prediction/intervals.py": {"SURE", "LEAST_WIDTH", "LEAST_SIDE", "HALVINGS"},
    "prediction/model.py": {"_CURVE"},
    "prediction/neighbours.py": {"_FACTOR", "_PRIME", "STEPS", "_MOST", "_UNKNOWN"},
    "prediction/own_runs.py": {"STREAMS"}, "prediction/predict.py": {"PIECE"},
    "prediction/switches.py": {"HALVINGS", "LEAST_GAP", "SWITCHES"},
    "prediction/predict_rows.py": {"BATCH"}, "prediction/predict_table.py": {"DIGITS"},
}  # fmt: skip


def numeric(node: ast.expr | None) -> bool:
    """Whether an expression is a number or holds one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return numeric(node.operand)
    if isinstance(node, ast.BinOp):
        return numeric(node.left) or numeric(node.right)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(numeric(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return any(numeric(one) for one in node.values)
    if isinstance(node, ast.Call):
        return any(numeric(one) for one in node.args)
    return False


def names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)]


def is_sourced(node: ast.expr | None) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sourced"
    )


def constants() -> Iterator[tuple[str, list[str], ast.expr]]:
    """(module, names, value) of each number at the top of a module of the rooms."""
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            where = path.relative_to(PACKAGE).as_posix()
            for node in tree_of(path).body:
                if isinstance(node, ast.Assign | ast.AnnAssign) and numeric(node.value):
                    yield where, names(node), node.value


def test_numbers_carry_their_source() -> None:
    bare = [
        f"{where}: {', '.join(named)}"
        for where, named, value in constants()
        if not is_sourced(value) and not set(named) & TOLERANCES.get(where, set())
    ]
    assert not bare, "\n".join(bare)


def test_no_tolerance_is_left_over() -> None:
    found: dict[str, set[str]] = {where: set() for where in TOLERANCES}
    for where, named, _ in constants():
        found.setdefault(where, set()).update(named)
    gone = {where: named - found[where] for where, named in TOLERANCES.items()}
    assert not any(gone.values()), gone


# Inside functions: counts and shares of mathematics (halves, squares, the bits of a byte, the root
# of 3 of a uniform law, decimals that are kept), units, and guards.
MATHEMATICS = {0, 0.5, 1, 2, 3, 4, 8, 10, 100}
UNITS = {60, 1e3, 1024, 3600, 1e6, 3.6e6, 1e9, 1e12}
GUARDS = {1e-3, 1e-6, 1e-9, 1e-12}
PLAIN = MATHEMATICS | UNITS | GUARDS
NAMED = {"weight", "maxsize", "mode"}  # the order of reasons, caches, rights of a file
# How many points a curve has, how much of a text is shown, decimals that are written
CALLS = {"series", "printable", "excerpt", "round"}
INSIDE = {
    "advice/explain/reasons.py": {"_from_rules"},  # the same
    "advice/own_runs/machine.py": {"save"},  # rights of a file
    "advice/plans/checkpoints.py": {"own_name"},  # how much is read
    "prediction/predict_rows.py": {"_write"},  # bytes of a random name
}


def numbers_inside(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """(function, number) of each number inside a function, positions of an array left out."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Constant]]:
        if isinstance(node, ast.FunctionDef):
            function = function or node.name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            return
        if isinstance(node, ast.keyword) and node.arg in NAMED:
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and numeric(node.left):
            return  # 2**30
        if isinstance(node, ast.FormattedValue):
            yield from walk(node.value, function)
            return
        if isinstance(node, ast.Subscript):
            yield from walk(node.value, function)
            return
        if function and isinstance(node, ast.Constant) and numeric(node):
            yield function, node
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function)

    return walk(tree, "")


def bare_numbers() -> Iterator[tuple[str, str, ast.Constant]]:
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            where = path.relative_to(PACKAGE).as_posix()
            for function, node in numbers_inside(tree_of(path)):
                if node.value not in PLAIN:
                    yield where, function, node


def test_numbers_inside_functions_are_mathematics_or_units() -> None:
    bare = [
        f"{where}:{node.lineno} {function}: {node.value}"
        for where, function, node in bare_numbers()
        if function not in INSIDE.get(where, set())
    ]
    assert not bare, "\n".join(bare)


def test_no_exemption_is_left_over() -> None:
    found = {(where, function) for where, function, _ in bare_numbers()}
    gone = [(w, f) for w, functions in INSIDE.items() for f in functions if (w, f) not in found]
    assert not gone, gone


def test_the_check_sees_a_number() -> None:
    tree = ast.parse("def f(x):\n    return 0.7 * x + a[5] + g(weight=9) + 2**30 + series(1, 34)\n")
    assert [node.value for _, node in numbers_inside(tree)] == [0.7]


@pytest.mark.parametrize(
    ("where", "value"),
    [(f"{w}:{n[0]}", value) for w, n, value in constants() if is_sourced(value)],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_source_says_unit_place_and_status(where: str, value: ast.Call) -> None:
    assert len(value.args) == 4, where
    unit, source, status = (ast.literal_eval(arg) for arg in value.args[1:])
    assert isinstance(unit, str)
    assert len(source) >= 15, f"{where}: say where the number is from"
    assert status in get_args(Status), where
