"""Mutation score: a sample of mutants of each room of the package against the tests of that room,
goldens not among them.

Works in a copy of the repository, so that nothing of it changes. A mutant that no test notices is
named in the result. mutmut changes functions only, and leaves decorated ones alone: the rules lose
their decorator in the copy, and the numbers of modules (weights, thresholds) are doubled here.
"""

import argparse
import ast
import datetime
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FLOOR = 0.85  # of the mutants tried, in each room of which so many were tried, and in all
ENOUGH = 50
NUMBERS = 4  # every so manyth mutant is a number of a module
TRIED = "not slow or slow(of='seconds')"  # what takes minutes is not
FINDINGS = "tests/rulebook/test_findings.py"


class Room(NamedTuple):
    """Modules, and the tests that must notice; quick ones, as each mutant runs them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


TESTS = {  # room: its modules; the tests that must notice
    "decision": "advisor/advice/decide.py; tests/advice/test_decide_table.py",
    "memory": "advisor/perf/memory.py; tests/perf/test_memory.py tests/perf/test_memory_parts.py",
    "physics": "advisor/perf/physics.py advisor/perf/drafting.py; tests/perf/test_physics.py "
    "tests/perf/test_physics_points.py tests/perf/test_step_parts.py",
    "fixes": "advisor/lint/fixes.py; tests/lint/test_fixes.py tests/lint/test_fix_additions.py "
    "tests/lint/test_fix_writes.py",
    "secrets": "advisor/readers/secrets.py; tests/readers/test_secrets.py",
    "rules kit": "advisor/rules/kit/*.py advisor/rules/[!_]*.py; tests/rulebook/test_[!r]*.py "
    "tests/rulebook/test_re*.py tests/rulebook/test_rule_[fg]*.py",
    "rules SD1": f"advisor/rules/sd1/*.py; {FINDINGS} tests/rulebook/test_releases.py "
    "tests/rulebook/test_rule_fixes.py tests/lint/test_fairness.py tests/readers/test_[pu]*.py",
    "rules SD2": f"advisor/rules/sd2/*.py; {FINDINGS}",
    "rules SD3": f"advisor/rules/sd3/*.py; {FINDINGS}",
    "rules SD4": f"advisor/rules/sd4/*.py; {FINDINGS} tests/rulebook/test_regime_rules.py",
    "rules SD5": f"advisor/rules/sd5/*.py; {FINDINGS}",
    "domain": "advisor/domain/*.py; tests/domain tests/knowledge "
    "tests/rulebook/test_spelling_rules.py tests/cli/test_[!p]*.py",
    # what reads a release's own parser is not shipped: .ci/run reads two real ones again instead
    "engines": "advisor/engines/*.py advisor/engines/arguments/*.py "
    "advisor/engines/extract/[bl]*.py; tests/engines tests/render/test_render_deploy.py "
    "tests/rulebook/test_spelling_rules.py",
    "knowledge": "advisor/knowledge/*.py; tests/knowledge tests/advice/test_drafters.py",
    "perf": "advisor/perf/**/*.py; tests/perf tests/prediction tests/advice/test_unpriced.py "
    "tests/rulebook/test_regime_rules.py tests/readers/results/test_calibrate.py",
    "prediction": "advisor/prediction/[!co]*.py advisor/prediction/cell_pairs.py; tests/prediction",
    "readers": "advisor/readers/*.py advisor/readers/forms/*.py advisor/readers/syntax/*.py; "
    "tests/readers/test_*.py tests/readers/results/test_[bcw]*.py tests/lint "
    "tests/cli/serve/test_views_by_hand.py",
    "results": "advisor/readers/results/**/*.py; tests/readers/results",
    "advice": "advisor/advice/*.py advisor/advice/[!eo]*/*.py advisor/advice/explain/*.py; "
    "tests/advice tests/prediction tests/perf/test_[hms]*.py tests/knowledge/test_heads.py",
    "own runs": "advisor/advice/own_runs/*.py advisor/prediction/[co][aw]*.py; "
    "tests/readers/results",
    "explore": "advisor/advice/explore/*.py; tests/advice/explore tests/advice/test_reasons.py "
    "tests/render/test_curves_by_hand.py tests/cli/serve/test_launch.py",
    "lint": "advisor/lint/*.py; tests/lint tests/rulebook/test_rule_fixes.py",
    # the examples run beside it, where no mutant is seen
    "render": "advisor/render/**/*.py; tests/render/test_[!e]*.py tests/lint/test_validate.py "
    "tests/advice/explore/test_plan_compose.py",
    "cli": "advisor/cli/**/*.py advisor/__main__.py; tests/cli/test_[!p]*.py "
    "tests/cli/serve/test_[!n]*.py tests/lint/test_validate.py tests/readers/results "
    "tests/knowledge/test_knowledge_files.py tests/rulebook/test_rules.py",
    "lab": "advisor/lab/**/*.py; tests/lab tests/readers/results/test_bench_run.py "
    "tests/readers/results/test_loads.py tests/knowledge/test_evidence.py",
}
ROOMS = {name: Room(*(tuple(x.split()) for x in row.split(";"))) for name, row in TESTS.items()}
# a mutant runs in a fork of a process that ran the tests: what is kept there is made anew, and what
# ran at import is noted; each test reaches what it asks for, whatever was asked before it
FORGET = """

CACHES = []

def pytest_sessionstart():
    import functools, gc
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()

def pytest_runtest_setup():
    for one in CACHES:
        one.cache_clear()

def pytest_collection_finish():
    import functools, gc, json, os, pathlib
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        from mutmut.state import state
        pathlib.Path("at-import.json").write_text(json.dumps(list(state()._stats)))
        kept = (x for x in gc.get_objects() if isinstance(x, functools._lru_cache_wrapper))
        CACHES.extend(x for x in kept if x.__module__ in ROOM)
"""
KEEPS = re.compile(r'scope="|^@(functools\.)?(lru_)?cache', re.MULTILINE)  # one for several tests
TIMED_OUT, ALIVE = (36, 24, 152, 255), (0, 33)  # exit codes as mutmut notes them


class Score(NamedTuple):
    """One room: how many mutants it has and which sample was tried when, how many tests noticed,
    how many of these were stopped for their time, and the names of the others.
    """

    room: str
    date: str
    seed: int
    mutants: int
    tried: int
    noticed: int
    slow: int
    alive: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.noticed / self.tried if self.tried else 0.0


def files(patterns: Sequence[str], root: Path = ROOT) -> list[Path]:
    """What the patterns name below the root, in a fixed order."""
    return sorted({path for pattern in patterns for path in root.glob(pattern)})


def test_files(room: Room) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in files(room.tests)]


def config(room: Room, folder: Path) -> str:
    """What mutmut is told: of the copy in a folder all is there for the tests to read."""
    beside = sorted(path.name for path in folder.iterdir() if path.name != "advisor")
    return "\n".join(
        [
            "",
            "[tool.mutmut]",
            'source_paths = ["advisor"]',
            f"only_mutate = {json.dumps([str(p.relative_to(ROOT)) for p in files(room.modules)])}",
            f"also_copy = {json.dumps(beside)}",
            'pytest_add_cli_args = ["-p", "no:xdist", "-o", "addopts=", "-q", "-x", '
            f'"-m", "{TRIED}"]',
            f"pytest_add_cli_args_test_selection = {json.dumps(test_files(room))}",
            "use_setproctitle = false",
            "",
        ]
    )


def strip_decorators(text: str) -> str:
    """A rule's module in which the decorator is called below its function."""
    lines = text.splitlines()
    for node in reversed(ast.parse(text).body):
        if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
            continue
        first = node.decorator_list[0]
        declared = lines[first.lineno - 1 : first.end_lineno]
        declared[0] = declared[0].removeprefix("@")
        call = f"{node.name} = " + "\n".join(declared) + f"({node.name})"
        call += "  # pragma: no mutate" * ("cache" in declared[0])  # its size changes no answer
        lines[first.lineno - 1 : node.end_lineno] = [
            *lines[node.lineno - 1 : node.end_lineno],
            "",
            "",
            *call.splitlines(),
        ]
    return "\n".join(lines) + "\n"


def mutmut(folder: Path, names: list[str], seconds: float) -> None:
    """Run mutmut on these mutants; what it says goes to a file."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2", *names]
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = str(folder / "mutants")
    with (folder / "mutmut.log").open("ab") as log:
        try:
            subprocess.run(
                command, cwd=folder, stdout=log, stderr=log, env=env, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"stopped after {seconds:.0f} s", flush=True)


def exits(folder: Path) -> dict[str, int | None]:
    """The exit code of each mutant; None where it was not tried."""
    found: dict[str, int | None] = {}
    for path in sorted((folder / "mutants" / "advisor").rglob("*.meta")):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


class Number(NamedTuple):
    """A number of a module, outside its functions: where it stands in the copy."""

    path: Path
    line: int
    start: int  # bytes of the line
    end: int
    value: Any

    def double(self) -> None:
        """Write its double, 1 for a 0."""
        lines = self.path.read_bytes().split(b"\n")
        line, new = lines[self.line - 1], repr(2 * self.value or 1).encode()
        lines[self.line - 1] = line[: self.start] + new + line[self.end :]
        self.path.write_bytes(b"\n".join(lines))

    def __str__(self) -> str:
        return f"{'/'.join(self.path.parts[-3:])}:{self.line}: {self.value} doubled"


def numbers(folder: Path, room: Room) -> list[Number]:
    """Every number that a module of the room names, or gives a class's field, but those that change
    no answer, by mutmut's own mark behind them.
    """
    found = []
    for path in files(room.modules, folder):
        text = path.read_text(encoding="utf-8")
        for top in ast.parse(text).body:
            if not isinstance(top, ast.Assign | ast.AnnAssign) or top.value is None:
                continue
            if "pragma: no mutate" in "".join(text.splitlines()[top.lineno - 1 : top.end_lineno]):
                continue
            found += [
                Number(path, node.lineno, node.col_offset, node.end_col_offset or 0, node.value)
                for node in ast.walk(top.value)
                if isinstance(node, ast.Constant) and type(node.value) in (int, float)
            ]
    return found


def is_noticed(
    folder: Path, tests: Sequence[str], doubled: Number | None = None, mutant: str = ""
) -> bool:
    """Whether one of these tests fails while this number is doubled, or with one of mutmut's
    mutants, in a process of its own: what runs at import runs anew.
    """
    words = ["timeout", "900", sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:xdist"]
    words += ["-q", "-x", "-m", TRIED, *tests]
    place = folder / "mutants" if mutant else folder
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(place)}
    env |= {"MUTANT_UNDER_TEST": mutant} if mutant else {}
    before = doubled.path.read_bytes() if doubled else b""
    if doubled:
        doubled.double()
    code = subprocess.run(words, cwd=place, capture_output=True, env=env, check=False).returncode
    if doubled:
        doubled.path.write_bytes(before)
    return bool(tests) and code not in (0, 5)  # 5: all of them are slow


def find_tests(folder: Path, path: Path) -> list[str]:
    """The tests that run a function of a module, as mutmut saw them; the quickest first."""
    seen = json.loads((folder / "mutants" / "mutmut-stats.json").read_text())
    module = ".".join(path.relative_to(folder).with_suffix("").parts)
    by_name = seen["tests_by_mangled_function_name"]
    tests = {one for name in by_name if name.rpartition(".")[0] == module for one in by_name[name]}
    return sorted(tests, key=lambda one: seen["duration_by_test"].get(one, 0.0))


def widen(folder: Path) -> None:
    """Where a file keeps what its tests share, each of them reaches what one of them reached."""
    path = folder / "mutants" / "mutmut-stats.json"
    if not path.exists():  # nothing ran: what mutmut said is shown
        return
    seen = json.loads(path.read_text())
    by_file: dict[str, list[str]] = {}
    for test in seen["duration_by_test"]:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    kept = {
        name: tests for name, tests in by_file.items() if KEEPS.search((folder / name).read_text())
    }
    for reached in seen["tests_by_mangled_function_name"].values():
        names = {test.partition("::")[0] for test in reached} & kept.keys()
        reached.extend({test for name in names for test in kept[name]} - {*reached})
    path.write_text(json.dumps(seen))


def living_numbers(folder: Path, room: Room, sample: int, seed: int) -> tuple[int, list[str]]:
    """How many numbers of the room were doubled, and those that no test noticed."""
    listed, every = numbers(folder, room), test_files(room)
    chosen = random.Random(seed).sample(listed, min(sample, len(listed)))
    alive = chosen
    for near in (True, False):  # the tests that run the module, then all
        pairs = [(one, find_tests(folder, one.path) if near else every) for one in alive]
        alive = [one for one, tests in pairs if not is_noticed(folder, tests, one)]
    if chosen and not alive and is_noticed(folder, every):
        raise LookupError(f"{room.tests}: a test fails in a copy where nothing is changed")
    return len(chosen), [str(one) for one in alive]


def measure(name: str, room: Room, sample: int, seed: int, seconds: float) -> Score:
    """The score of one room, from a sample of its mutants (0: all of them)."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as place:
        folder = Path(place)
        archive = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", place], input=archive.stdout, check=True)
        for path in folder.glob("advisor/rules/sd*/*.py"):
            path.write_text(strip_decorators(path.read_text(encoding="utf-8")), encoding="utf-8")
        with (folder / "pyproject.toml").open("a") as out:
            out.write(config(room, folder))
        with (folder / "tests" / "conftest.py").open("a") as out:
            names = [str(p.relative_to(ROOT))[:-3].replace("/", ".") for p in files(room.modules)]
            out.write(FORGET.replace("ROOM", repr(names)))
        # a folder that is not there when Python starts is looked at no more: the tests of the first
        # call would run on the package that is installed
        (folder / "mutants").mkdir()
        mutmut(folder, ["made.first"], seconds)  # makes them, and learns which test reaches which
        widen(folder)
        names = sorted(exits(folder))
        chosen = random.Random(seed).sample(names, min(sample or len(names), len(names)))
        mutmut(folder, chosen, seconds)
        codes = {key: code for key, code in exits(folder).items() if code is not None}
        if not codes:
            log = (folder / "mutmut.log").read_text(errors="replace")
            raise LookupError(f"{name}: no mutant was tried\n{log[-2_000:]}")
        alive = sorted(key for key, code in codes.items() if code in ALIVE)
        early = json.loads((folder / "mutants" / "at-import.json").read_text())
        again = [key for key in alive if key.rpartition("__mutmut_")[0] in early]
        seen = {key for key in again if is_noticed(folder, test_files(room), mutant=key)}
        alive = [key for key in alive if key not in seen]
        slow = sum(code in TIMED_OUT for code in codes.values())
        some = -(-len(chosen) // NUMBERS)
        doubled, unseen = living_numbers(folder, room, some, seed)
        alive += unseen
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        tried = len(codes) + doubled
        return Score(name, today, seed, len(names), tried, tried - len(alive), slow, tuple(alive))


HEAD = f"""# Mutation score

Written by `.ci/mutation`; do not edit. mutmut changes one place of a function at a time, numbers of
modules are doubled, and the tests of the room (`ROOMS` in `tests/mutation/run.py`) run until one
fails; what runs at import is tried in a process of its own. A mutant that no test reaches counts as
not noticed, one stopped for its time as noticed. Each row is a room's last sample, drawn with the
seed, on the tests of then; the floor is {FLOOR:.0%} in all, and in rooms with {ENOUGH} tried.

| room | date | seed | mutants | tried | noticed | of these by time | share |
|---|---|---|---|---|---|---|---|
"""


def page(scores: list[Score]) -> str:
    """The result as a page of Markdown."""
    text = HEAD
    for one in scores:
        text += f"| {' | '.join(map(str, one[:-1]))} | {one.share:.1%} |\n"
    for one in scores:
        text += f"\n## {one.room}: not noticed\n\n"
        text += "".join(f"- `{name}`\n" for name in one.alive) or "None.\n"
    return text


def read_page(text: str) -> dict[str, Score]:
    """The scores of a page, by room."""
    found = {}
    for row in re.findall(r"^\| ([\w ]+) \| ([\d-]{10}) \| (.*) \|$", text, re.M):
        seed, mutants, tried, noticed, slow = (int(one) for one in row[2].split(" | ")[:5])
        part = text.partition(f"## {row[0]}: not noticed\n")[2].partition("\n## ")[0]
        alive = tuple(re.findall(r"^- `(.+)`$", part, re.M))
        found[row[0]] = Score(row[0], row[1], seed, mutants, tried, noticed, slow, alive)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sample", type=int, default=400, help="mutants in all; 0: every one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=600.0, help="at most, for all rooms")
    parser.add_argument("--only", nargs="+", default=[""], help="rooms by a part of their name")
    options = parser.parse_args()
    rooms = {k: v for k, v in ROOMS.items() if any(one in k for one in options.only)}
    before = options.out.read_text(encoding="utf-8") if options.out and options.out.exists() else ""
    scores = read_page(before)
    tried: list[Score] = []
    for name, room in rooms.items():
        seconds = options.minutes * 60 / len(rooms)
        try:
            score = measure(name, room, -(-options.sample // len(rooms)), options.seed, seconds)
        except LookupError as error:
            print(error, file=sys.stderr)
            continue
        tried.append(score)
        scores[name] = score
        print(f"{name}: {score.share:.1%} of {score.tried} noticed", flush=True)
        if options.out:  # after each room, so that a night that ends early leaves what it has
            kept = [scores[room] for room in ROOMS if room in scores]
            options.out.write_text(page(kept), encoding="utf-8")
    low = [score.room for score in tried if score.share < FLOOR and score.tried >= ENOUGH]
    if sum(score.noticed for score in tried) < FLOOR * sum(score.tried for score in tried):
        low.append("all together")
    if low:
        print(f"below {FLOOR:.0%}: {', '.join(low)}", file=sys.stderr)
    return int(bool(low) or len(tried) < len(rooms))


if __name__ == "__main__":
    sys.exit(main())
