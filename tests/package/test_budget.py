"""The whole has a budget: lines and statements of each room, of the tests, of templates and data.

`pytest tests/package/test_budget.py -rP -n 0` prints the table. A ceiling only goes down; what a
change adds, it pays for in the same room or says why in the commit that raises it. `GOALS` is where
the house is going (see the issue of the house; 58,000 lines in all).
"""

import ast
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# room -> (lines, statements) that it may have today
CEILINGS: dict[str, tuple[int, int]] = {
    "advice": (9680, 6405), "advisor": (62000, 38275), "cli": (5190, 3050), "engines": (3870, 2610),
    "knowledge, lint, domain": (5740, 3850), "lab": (3990, 2600), "other": (120, 70),
    "perf": (5800, 3170), "prediction, methods": (3560, 2070), "readers": (7730, 5580),
    "readers/results": (2690, 1600), "render": (4950, 2790), "rules": (8850, 4600),
    "tests": (36000, 20365),
}  # fmt: skip
GOALS = {"readers": 8000, "readers/results": 2800, "rules": 8000, "lab": 5200, "advice": 6500,
         "perf": 5400, "render": 4800, "cli": 4200, "engines": 4000, "prediction, methods": 4300,
         "knowledge, lint, domain": 4400, "advisor": 58000, "tests": 36000}  # fmt: skip
OTHERS = ("rules", "corpus", "corpus2", "**/files")  # counted above, or material that is read
# Text that a person keeps by hand beside the code: nothing is moved out of sight there.
TEXTS = {
    "templates, styles, scripts": (("advisor/*.html", "advisor/*.css", "advisor/*.js"), 850),
    "the model card": (("advisor/*.j2",), 170),
    "cases of rules": (("tests/rules/*.yaml",), 5600),
    "rule data": (("knowledge/rules/*.json",), 1380),
    "cases of other tests": (("tests/*.yaml", *(f":!tests/{name}" for name in OTHERS)), 11310),
}
TOGETHER = {"prediction": "prediction, methods", "methods": "prediction, methods",
            "knowledge": "knowledge, lint, domain", "lint": "knowledge, lint, domain",
            "domain": "knowledge, lint, domain"}  # fmt: skip


def list_files(*patterns: str) -> list[Path]:
    """Files that git knows, and new ones it does not ignore."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).exists()]


def room_of(path: Path) -> str:
    """Where a Python file's lines are counted."""
    parts = path.relative_to(ROOT).parts
    if parts[0] != "advisor":
        return parts[0] if parts[0] == "tests" else "other"
    if parts[1:3] == ("readers", "results"):
        return "readers/results"
    room = parts[1] if len(parts) > 2 else "cli"
    return TOGETHER.get(room, room)


def count() -> tuple[Counter[str], Counter[str]]:
    """Lines and statements of each room, and of advisor/ in all."""
    lines: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    for path in list_files("*.py"):
        text = path.read_text(encoding="utf-8")
        if "tests/readers/" in path.as_posix() and "/files/" in path.as_posix():
            continue  # material that is read, not code of ours
        room = room_of(path)
        size = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
        for name in (room,) if room in ("tests", "other") else (room, "advisor"):
            lines[name] += text.count("\n")
            statements[name] += size
    return lines, statements


def test_each_room_keeps_its_budget() -> None:
    lines, statements = count()
    over = []
    print(f"{'room':26}{'lines':>9}{'may':>9}{'goal':>9}{'statements':>12}{'may':>9}")
    for room in sorted(lines):
        may, most = CEILINGS[room]
        print(
            f"{room:26}{lines[room]:9,}{may:9,}{GOALS.get(room, 0):9,}"
            f"{statements[room]:12,}{most:9,}"
        )
        if lines[room] > may or statements[room] > most:
            over.append(room)
    assert over == [], "over the budget of the room: take something out, or say why in CEILINGS"


def test_nothing_is_moved_out_of_sight() -> None:
    for name, (patterns, may) in TEXTS.items():
        lines = sum(path.read_bytes().count(b"\n") for path in list_files(*patterns))
        print(f"{name:26}{lines:9,}{may:9,}")
        assert lines <= may, f"{name}: {lines:,} lines of {may:,}"


def test_research_stays_findings() -> None:
    """Findings with figures and dates, not a diary: at most 12,000 words beside generated pages."""
    texts = [path.read_text(encoding="utf-8") for path in list_files("docs/research/*.md")]
    words = sum(len(text.split()) for text in texts if "\nWritten by `" not in text[:600])
    print(f"words of docs/research     {words:9,}   12,000")
    assert words <= 12_000
