"""The last mutation score in the repository: rooms that were tried are above the floor, and every
folder of the package is in one.
"""

import re
from pathlib import Path

from mutation import run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research" / "mutation.md"


def test_each_room_is_above_its_floor() -> None:
    scores = run.read_page(PAGE.read_text(encoding="utf-8"))
    assert len(scores) >= 11 and list(scores) == [room for room in run.ROOMS if room in scores]
    for one in scores.values():
        assert one.share >= run.FLOOR or one.tried < run.ENOUGH, one.room
        assert one.noticed + len(one.alive) == one.tried


def test_the_page_is_read_as_it_is_written() -> None:
    made = run.Score("memory", "2026-11-25", 7, 300, 12, 10, 1, ("a.b__mutmut_1", "a.c__mutmut_2"))
    other = made._replace(room="rules SD1", alive=(), noticed=12)
    assert run.read_page(run.page([made, other])) == {"memory": made, "rules SD1": other}
    assert "83.3%" in run.page([made]) and run.FLOOR == 0.85


def test_every_module_is_in_a_room_whose_files_exist() -> None:
    for name, room in run.ROOMS.items():
        assert all(run.files([pattern]) for pattern in (*room.modules, *room.tests)), name
    reached = {path for room in run.ROOMS.values() for path in run.files(room.modules)}
    left_out = set((ROOT / "advisor").rglob("*.py")) - reached
    assert {path.name for path in left_out} <= {"__init__.py", "_index.py"}


def test_a_number_of_a_module_is_doubled(tmp_path: Path) -> None:
    module = tmp_path / "advisor" / "a.py"
    module.parent.mkdir()
    module.write_text('É = "3"; LATE = (1.5, 0)\nON = True\ndef f():\n    return 7\n')
    room = run.Room(("advisor/a.py",), ())
    made = []
    for number in run.numbers(tmp_path, room):
        before = module.read_text()
        made.append((number.mutate().partition(": ")[2], module.read_text().splitlines()[0]))
        module.write_text(before)
    assert made == [
        ("1.5 -> 3.0", 'É = "3"; LATE = (3.0, 0)'),
        ("0 -> 1", 'É = "3"; LATE = (1.5, 1)'),
    ]


def test_the_decorators_of_rules_are_called_below() -> None:
    text = (
        "@rule(\n    severity='info',\n)\ndef one(case):\n    yield 1\n\n\ndef two():\n    pass\n"
    )
    made = run.strip_decorators(text)
    assert re.search(r"^def one\(case\):\n    yield 1\n", made, re.M)
    assert "one = rule(\n    severity='info',\n)(one)" in made and "@" not in made
    assert made.index("(one)") < made.index("def two")
