"""Mutation score of the code that must not be wrong in silence: a sample of mutmut's mutants of
each room against the tests of that room.

Works in a copy of the repository, so that nothing of it changes. A mutant that no test notices is
named in the result. Module-level values are no mutants: mutmut changes functions only, and leaves
decorated ones alone, for which reason the rules lose their decorator in the copy.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FLOOR = 0.85  # of the mutants tried, in each room
FINDINGS = "tests/rulebook/test_findings.py"


class Room(NamedTuple):
    """Modules, and the tests that must notice; quick ones, as each mutant runs them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "decision": Room(("advisor/advice/decide.py",), ("tests/advice/test_decide_table.py",)),
    "memory": Room(
        ("advisor/perf/memory.py",),
        ("tests/perf/test_memory.py", "tests/perf/test_memory_parts.py"),
    ),
    "physics": Room(
        ("advisor/perf/physics.py", "advisor/perf/drafting.py"),
        (
            "tests/perf/test_physics.py",
            "tests/perf/test_physics_points.py",
            "tests/perf/test_step_parts.py",
            "tests/perf/test_draft_seconds.py",
        ),
    ),
    "fixes": Room(
        ("advisor/lint/fixes.py",),
        (
            "tests/lint/test_fixes.py",
            "tests/lint/test_fix_additions.py",
            "tests/lint/test_fix_writes.py",
        ),
    ),
    "secrets": Room(("advisor/readers/secrets.py",), ("tests/readers/test_secrets.py",)),
    "rules kit": Room(
        ("advisor/rules/kit/*.py",),
        (
            "tests/rulebook/test_kit_numbers.py",
            "tests/rulebook/test_kit_json.py",
            "tests/rulebook/test_kit_words.py",
            "tests/rulebook/test_kit_launches.py",
            "tests/rulebook/test_regime_rules.py",
            "tests/rulebook/test_rule_fixes.py",
            FINDINGS,
        ),
    ),
    "rules SD1": Room(("advisor/rules/sd1/*.py",), (FINDINGS, "tests/rulebook/test_load_mode.py")),
    "rules SD2": Room(("advisor/rules/sd2/*.py",), (FINDINGS,)),
    "rules SD3": Room(
        ("advisor/rules/sd3/*.py",), (FINDINGS, "tests/rulebook/test_what_would_fit.py")
    ),
    "rules SD4": Room(
        ("advisor/rules/sd4/*.py",),
        (FINDINGS, "tests/rulebook/test_effects.py", "tests/rulebook/test_regime_rules.py"),
    ),
    "rules SD5": Room(("advisor/rules/sd5/*.py",), (FINDINGS,)),
}
COPIED = ("knowledge", "models", "docs", "examples", "README.md", ".ci", "CHANGELOG.md")
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


def config(room: Room) -> str:
    return "\n".join(
        [
            "",
            "[tool.mutmut]",
            'source_paths = ["advisor"]',
            f"only_mutate = {json.dumps(room.modules)}",
            f"also_copy = {json.dumps(COPIED)}",
            'pytest_add_cli_args = ["-p", "no:xdist", "-o", "addopts=", "-q", "-x", "-m", '
            '"not slow"]',
            f"pytest_add_cli_args_test_selection = {json.dumps(room.tests)}",
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


def log_end(folder: Path) -> str:
    """The last that mutmut said."""
    return (folder / "mutmut.log").read_text(errors="replace")[-2_000:]


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
            out.write(config(room))
        mutmut(folder, ["made.first"], seconds)  # makes them, and learns which test reaches which
        names = sorted(exits(folder))
        if not names:
            raise SystemExit(f"{name}: no mutants were made\n{log_end(folder)}")
        chosen = random.Random(seed).sample(names, min(sample or len(names), len(names)))
        mutmut(folder, chosen, seconds)
        codes = {key: code for key, code in exits(folder).items() if code is not None}
        if not codes:
            raise SystemExit(f"{name}: no mutant was tried\n{log_end(folder)}")
        alive = tuple(sorted(key for key, code in codes.items() if code in ALIVE))
        slow = sum(code in TIMED_OUT for code in codes.values())
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        tried = len(codes)
        return Score(name, today, seed, len(names), tried, tried - len(alive), slow, alive)


HEAD = f"""# Mutation score

Written by `.ci/mutation`; do not edit. mutmut changes one place of a function at a time, and the
tests of its room (`ROOMS` in `tests/mutation/run.py`) run until one fails. A mutant that no test
reaches counts as not noticed, one that is stopped for its time as noticed. Each room is a sample of
its own, drawn with the seed; the floor is {FLOOR:.0%} in each.

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
    parser.add_argument("--sample", type=int, default=200, help="mutants of a room; 0: every one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=600.0, help="at most, for all rooms")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="rooms whose name holds one of these"
    )
    options = parser.parse_args()
    rooms = {k: v for k, v in ROOMS.items() if any(one in k for one in options.only)}
    before = options.out.read_text(encoding="utf-8") if options.out and options.out.exists() else ""
    scores = read_page(before)
    for name, room in rooms.items():
        seconds = options.minutes * 60 / len(rooms)
        scores[name] = measure(name, room, options.sample, options.seed, seconds)
        print(f"{name}: {scores[name].share:.1%} of {scores[name].tried} noticed", flush=True)
        if options.out:  # after each room, so that a night that ends early leaves what it has
            kept = [scores[room] for room in ROOMS if room in scores]
            options.out.write_text(page(kept), encoding="utf-8")
    low = [name for name in rooms if scores[name].share < FLOOR]
    if low:
        print(f"below {FLOOR:.0%}: {', '.join(low)}", file=sys.stderr)
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(main())
