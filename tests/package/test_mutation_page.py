"""The last mutation score in the repository: every room is there and above the floor."""

from __future__ import annotations

import re
from pathlib import Path

from mutation import run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research" / "mutation.md"


def test_each_room_is_above_its_floor() -> None:
    scores = run.read_page(PAGE.read_text(encoding="utf-8"))
    assert list(scores) == list(run.ROOMS)
    for one in scores.values():
        assert one.share >= run.FLOOR and one.tried >= 100, one.room
        assert one.noticed + len(one.alive) == one.tried


def test_the_page_is_read_as_it_is_written() -> None:
    made = run.Score("memory", "2026-11-25", 7, 300, 12, 10, 1, ("a.b__mutmut_1", "a.c__mutmut_2"))
    other = made._replace(room="rules SD1", alive=(), noticed=12)
    assert run.read_page(run.page([made, other])) == {"memory": made, "rules SD1": other}
    assert "83.3%" in run.page([made]) and run.FLOOR == 0.85


def test_the_files_of_the_rooms_exist() -> None:
    for name, room in run.ROOMS.items():
        assert all(list(ROOT.glob(pattern)) for pattern in room.modules), name
        assert all((ROOT / test).is_file() for test in room.tests), name


def test_the_decorators_of_rules_are_called_below() -> None:
    text = (
        "@rule(\n    severity='info',\n)\ndef one(case):\n    yield 1\n\n\ndef two():\n    pass\n"
    )
    made = run.strip_decorators(text)
    assert re.search(r"^def one\(case\):\n    yield 1\n", made, re.M)
    assert "one = rule(\n    severity='info',\n)(one)" in made and "@" not in made
    assert made.index("(one)") < made.index("def two")
