"""Follow one question through the package: `python -m tests.package.walk`.

Prints the functions in the order in which a reader meets them (each once, at its first call), and
how often the next one stands on a higher floor than the one before: a step back up.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import advisor

ROOT = Path(advisor.__file__).parent
FLOORS = (
    ("domain",), ("knowledge", "engines"), ("perf", "readers"), ("prediction", "rules"),
    ("advice", "lab"), ("lint",), ("render",), ("cli",),
)  # fmt: skip
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


class Place(NamedTuple):
    """A function of the package."""

    file: str  # relative to the package
    name: str

    @property
    def floor(self) -> int:
        """Height of its room; the package's own modules stand above all."""
        return FLOOR.get(self.file.partition("/")[0], len(FLOORS))


def walk() -> list[Place]:
    """The functions of one answer in the order of their first calls; imports are not followed."""
    advisor.recommend(hardware="gb10", concurrency=16, ctx_tokens=2048)  # imports, caches
    places: dict[Place, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(ROOT)) and "<" not in frame.f_code.co_name:
            places[Place(str(Path(path).relative_to(ROOT)), frame.f_code.co_qualname)] = None

    sys.setprofile(note)
    try:
        advisor.recommend(hardware="gb10", concurrency=16, ctx_tokens=2048)
    finally:
        sys.setprofile(None)
    return list(places)


def climbs(places: list[Place]) -> list[tuple[Place, Place]]:
    """The steps back up a floor."""
    return [(a, b) for a, b in pairwise(places) if b.floor > a.floor]


if __name__ == "__main__":
    met = walk()
    if "-v" in sys.argv:
        for place in met:
            print(f"{'  ' * place.floor}{place.file}: {place.name}")
    print(f"{len({p.file for p in met})} files, {len(met)} functions, {len(climbs(met))} climbs")
