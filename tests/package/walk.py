"""Follow one question through the package: `python -m tests.package.walk`.

Prints the functions in the order of their first calls, as a reader meets them, and counts the steps
to a function on a higher floor than the one before. Imports are not followed.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType

import advisor

ROOT = f"{Path(advisor.__file__).parent}/"
FLOORS = ("domain", "knowledge engines", "perf readers", "prediction rules", "advice lab")
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms.split()}
Place = tuple[str, str]  # (file relative to the package, function)


def walk() -> list[Place]:
    """The functions of one answer, each once."""
    places: dict[Place, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(ROOT) and not name.endswith(">"):
            places[path.removeprefix(ROOT), name] = None

    for profile in (None, note):  # the first answer fills caches and imports
        sys.setprofile(profile)
        advisor.recommend(hardware="gb10", concurrency=16, ctx_tokens=2048)
    sys.setprofile(None)
    return list(places)


if __name__ == "__main__":
    met = walk()
    heights = [FLOOR.get(file.partition("/")[0], len(FLOORS)) for file, _ in met]
    for height, (file, name) in zip(heights, met, strict=True):
        print(f"{'  ' * height}{file}: {name}")
    climbs = sum(after > before for before, after in pairwise(heights))
    print(f"{len({file for file, _ in met})} files, {len(met)} functions, {climbs} climbs")
