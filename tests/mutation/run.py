"""Mutation score of the code that must not be wrong in silence: a sample of mutmut's mutants
against the
tests of their rooms.

Works in a copy of the repository, so that nothing of it changes. A mutant that no test notices is
named in the result. Module-level values are no mutants: mutmut changes functions only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FLOOR = 0.85
# module -> the tests that must notice; quick ones, as each mutant runs them
TARGETS = {
    "advisor/advice/decide.py": ("tests/advice/test_decide_table.py",),
    "advisor/perf/memory.py": ("tests/perf/test_memory.py", "tests/perf/test_memory_parts.py"),
    "advisor/perf/physics.py": (
        "tests/perf/test_physics.py",
        "tests/perf/test_physics_points.py",
    ),
    "advisor/perf/drafting.py": (
        "tests/perf/test_physics.py",
        "tests/perf/test_draft_seconds.py",
    ),
    "advisor/lint/fixes.py": (
        "tests/lint/test_fixes.py",
        "tests/lint/test_fix_additions.py",
        "tests/lint/test_fix_writes.py",
    ),
    "advisor/readers/secrets.py": ("tests/readers/test_secrets.py",),
    "advisor/rules/sd1/*.py": (
        "tests/rulebook/test_rules.py",
        "tests/rulebook/test_effects.py",
        "tests/rulebook/test_load_mode.py",
    ),
    "advisor/rules/sd3/*.py": (
        "tests/rulebook/test_rules.py",
        "tests/rulebook/test_what_would_fit.py",
    ),
    "advisor/rules/sd4/*.py": (
        "tests/rulebook/test_rules.py",
        "tests/rulebook/test_regime_rules.py",
    ),
}
COPIED = ("knowledge", "models", "docs", "examples", "README.md", ".ci", "CHANGELOG.md")
KILLED, TIMED_OUT, ALIVE = (1, 3), (36, 24, 152, 255), 0  # exit codes as mutmut notes them


class Score(NamedTuple):
    """One module: mutants that were tried, those that no test noticed, and how many there are."""

    module: str
    tried: int
    alive: tuple[str, ...]
    mutants: int

    @property
    def kills(self) -> int:
        return self.tried - len(self.alive)


def config(modules: list[str], tests: list[str]) -> str:
    return "\n".join(
        [
            "",
            "[tool.mutmut]",
            'source_paths = ["advisor"]',
            f"only_mutate = {json.dumps(modules)}",
            f"also_copy = {json.dumps(COPIED)}",
            'pytest_add_cli_args = ["-p", "no:xdist", "-o", "addopts=", "-q", "-x", "-m", '
            '"not slow"]',
            f"pytest_add_cli_args_test_selection = {json.dumps(tests)}",
            "use_setproctitle = false",
            "",
        ]
    )


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


def exits(folder: Path) -> dict[str, dict[str, int | None]]:
    """By module, the exit code of each mutant; None where it was not tried."""
    found = {}
    for path in sorted((folder / "mutants" / "advisor").rglob("*.meta")):
        module = str(path.relative_to(folder / "mutants")).removesuffix(".meta")
        found[module] = json.loads(path.read_text())["exit_code_by_key"]
    return {module: codes for module, codes in found.items() if codes}


def measure(
    target: str, tests: tuple[str, ...], share: float, seed: int, seconds: float
) -> list[Score]:
    """The scores of the modules of one target, from a share of their mutants."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        archive = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        with (folder / "pyproject.toml").open("a") as out:
            out.write(config([target], list(tests)))
        mutmut(folder, ["made.first"], seconds)  # makes them, and learns which test reaches which
        made = exits(folder)
        names = sorted(one for codes in made.values() for one in codes)
        if not names:
            tail = (folder / "mutmut.log").read_text(errors="replace")[-2_000:]
            raise SystemExit(f"{target}: no mutants were made\n{tail}")
        count = max(1, round(share * len(names)))
        chosen = random.Random(seed).sample(names, min(count, len(names)))
        mutmut(folder, chosen, seconds)
        if "keep" in os.environ.get("ADVISOR_MUTATION", ""):
            shutil.copytree(
                folder, Path(os.environ["ADVISOR_MUTATION"].partition("=")[2]), dirs_exist_ok=True
            )
        return [
            Score(module, *_counts(codes), len(made[module]))
            for module, codes in exits(folder).items()
        ]


def _counts(codes: dict[str, int | None]) -> tuple[int, tuple[str, ...]]:
    tried = {name: code for name, code in codes.items() if code is not None}
    return len(tried), tuple(sorted(name for name, code in tried.items() if code in (ALIVE, 33)))


def page(scores: list[Score], sample: int, seed: int, seconds: float) -> str:
    """The result as a page of Markdown."""
    tried, noticed = sum(s.tried for s in scores), sum(s.kills for s in scores)
    rooms: Counter[str] = Counter()
    lines = [
        "# Mutation score",
        "",
        "Written by `.ci/mutation`; do not edit. mutmut changes one place of a function at a "
        "time, and the",
        "tests of its room run until one fails. A mutant that no test reaches counts as not "
        "noticed.",
        "",
        f"Sample of {sample or 'all'} (seed {seed}), {seconds / 60:.0f} minutes: **{noticed} of "
        f"{tried} noticed,"
        f" {noticed / max(1, tried):.1%}**; floor {FLOOR:.0%}.",
        "",
        "| module | mutants | tried | noticed | |",
        "|---|---|---|---|---|",
    ]
    for one in sorted(scores, key=lambda s: s.module):
        rooms[one.module] += one.tried
        if one.tried:
            share = one.kills / one.tried
            lines.append(
                f"| {one.module} | {one.mutants} | {one.tried} | {one.kills} | {share:.0%} |"
            )
    alive = [name for one in scores for name in one.alive]
    lines += ["", f"Not noticed ({len(alive)}):", "", *(f"- `{name}`" for name in alive), ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sample", type=int, default=600, help="mutants in all; 0: every one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=600.0, help="at most, for all targets")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="targets whose name holds one of these"
    )
    options = parser.parse_args()
    begun = time.monotonic()
    targets = {k: v for k, v in TARGETS.items() if any(one in k for one in options.only)}
    each = options.minutes * 60 / len(targets)
    scores: list[Score] = []
    text = ""
    for target, tests in targets.items():
        share = 1.0 if not options.sample else options.sample / len(targets) / 350
        scores += measure(target, tests, min(1.0, share), options.seed, each)
        done = [one for one in scores if one.tried]
        print(
            f"{target}: {sum(s.kills for s in done)} of {sum(s.tried for s in done)} "
            "noticed so far",
            flush=True,
        )
        text = page(scores, options.sample, options.seed, time.monotonic() - begun)
        if options.out:  # after each target, so that a night that ends early leaves what it has
            options.out.write_text(text, encoding="utf-8")
    print(text)
    tried, noticed = sum(s.tried for s in scores), sum(s.kills for s in scores)
    return int(not tried or noticed / tried < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
