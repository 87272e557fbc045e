"""Every warning and error on the public files, each with a written judgement (remarks.csv).

A file says nothing of hardware or load here. A new remark needs a judgement: is it one that the
owner of the file would call right? At most one unfair remark in ten files, and no unfair error.
"""

import csv
from functools import cache
from pathlib import Path

from advisor.lint.report import merge_repeats
from advisor.lint.validate import validate

HERE = Path(__file__).resolve().parent
FILES = sorted(
    path for name in ("corpus", "corpus2") for path in HERE.parent.glob(f"{name}/case-*")
)
Place = tuple[str, int, str, str]  # file, line, code, severity


@cache
def judgements() -> dict[Place, tuple[str, str]]:
    with (HERE / "remarks.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {(file, int(line), code, severity): (judgement, why)
            for file, line, code, severity, judgement, why in rows}  # fmt: skip


@cache
def remarks() -> tuple[Place, ...]:
    return tuple(
        (path.name, one.line, one.code, one.severity)
        for path in FILES
        for one, _ in merge_repeats(validate(str(path)).findings)
        if one.severity != "info"
    )


def test_every_remark_has_a_judgement() -> None:
    assert len(FILES) == 98
    why_not = "read the file, and write into remarks.csv whether the remark is fair"
    assert set(judgements()) == set(remarks()), why_not
    assert all(word in ("fair", "unfair") and why for word, why in judgements().values())


def test_at_most_one_unfair_remark_in_ten_files() -> None:
    unfair = [place for place in remarks() if judgements()[place][0] == "unfair"]
    print(f"{len(unfair)} unfair of {len(remarks())} remarks on {len(FILES)} files")
    assert len(unfair) <= len(FILES) / 10 and not [place for place in unfair if place[3] == "error"]
