"""Every file of two sets of real configurations is read as its index says, and most problems that
the files show are reported. `classes.csv` names the codes that report a class of problem.
"""

import csv
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.domain.nouns import AdvisorError, Finding
from advisor.knowledge import store as knowledge
from advisor.lint.report import CheckedLaunch, Report
from advisor.lint.validate import validate
from advisor.render.forms import FORMS, STARTS

CORPORA = tuple(Path(__file__).parents[1] / name for name in ("corpus", "corpus2"))


def read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


ROWS = [(folder, row) for folder in CORPORA for row in read_rows(folder / "index.csv")]
each_folder = pytest.mark.parametrize("folder", CORPORA, ids=["corpus", "corpus2"])


@cache
def judge(path: Path) -> Report:
    return validate(str(path))


def is_model(one: CheckedLaunch, row: dict[str, str]) -> bool:
    """Of the row's model: by identity where known, else by its words."""
    known = knowledge.llm_from_text(row["model"])
    if known is not None and one.facts.model is not None:
        return known.id == one.facts.model.id
    names = [flag.value for flag in one.launch.flags if flag.name in ("--hf-file", "--model")]
    text = re.sub(r"[^a-z0-9]", "", " ".join(filter(None, [one.launch.model, *names])).lower())
    words = re.findall(r"[a-z]+[\d.]*|\d+b", row["model"].lower().replace(".", ""))[:2]
    return all(word in text for word in words)


def good_findings(folder: Path, severity: str) -> list[list[Finding]]:
    """What each known-good file gets of a severity."""
    return [
        [one for one in judge(folder / row["file"]).findings if one.severity == severity]
        for at, row in ROWS
        if at == folder and row["class"] == "known-good"
    ]


@each_folder
def test_the_corpus_is_complete(folder: Path) -> None:
    assert {row["file"] for at, row in ROWS if at == folder} == {
        path.name for path in folder.glob("case-*")
    }
    assert len({row["case"] for _, row in ROWS}) == len(ROWS) == 98


@pytest.mark.parametrize(("folder", "row"), ROWS, ids=[row["case"] for _, row in ROWS])
def test_engine_model_method_and_k_are_read(folder: Path, row: dict[str, str]) -> None:
    assert any(
        is_model(one, row)
        and (engines.canonical(row["engine"]) or one.launch.engine) == one.launch.engine
        and (row["method"] or one.plan.method) == one.plan.method
        and (row["k"] or str(one.plan.k)) == str(one.plan.k)
        for one in judge(folder / row["file"]).launches
    )


@pytest.mark.parametrize(("folder", "most"), [(CORPORA[0], 0.2), (CORPORA[1], 0.0)])
def test_visible_problems_are_found_by_the_matching_rule(folder: Path, most: float) -> None:
    codes = {row["class"]: row["codes"].split() for row in read_rows(folder / "classes.csv")}
    visible = [
        row for at, row in ROWS if at == folder and row.get("visible", row["problem"]) == "yes"
    ]
    missed = [
        row["case"]
        for row in visible
        if not {one.code for one in judge(folder / row["file"]).findings}
        & {*codes.get(row["class"], ())}
    ]
    assert len(missed) <= most * len(visible), missed


@each_folder
def test_known_good_files_get_no_error_and_few_warnings(folder: Path) -> None:
    assert not any(good_findings(folder, "error"))
    assert median(map(len, good_findings(folder, "warning"))) <= 1


def test_every_literal_flag_stands_where_it_says() -> None:
    for folder, row in ROWS:
        report = judge(folder / row["file"])
        text, place = report.reads[0].source.text, report.reads[0].source.place
        for flag in (flag for one in report.launches for flag in one.launch.flags):
            if flag.span is not None and flag.raw:
                assert text[flag.span.start :].startswith(flag.raw), (row["case"], flag)
                assert place(flag.span.start) == (flag.line, flag.column)
            switch = flag.value in (None, "true", "false")
            if flag.value_span is not None and not switch and " " not in str(flag.value):
                assert text[flag.value_span.start : flag.value_span.end] == flag.value, flag


READ = """
import gc, hashlib, random, sys
from pathlib import Path
from advisor.lint.validate import validate
random.seed(int(sys.argv[1]))
gc.set_threshold(random.choice((1, 10, 700)))
files = sorted(p for p in Path(sys.argv[2]).iterdir())
random.shuffle(files)
told = {}
for path in files:
    report = validate(None, text=path.read_text(encoding="utf-8"), name=path.name.split("-", 1)[1])
    told[path.name] = [(f.code, f.severity, f.message) for f in report.findings]
    told[path.name] += [repr(vars(launch.plan)) for launch in report.launches]
print(len(told), hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest())
"""


def test_every_reading_of_emitted_files_is_the_same(tmp_path: Path) -> None:
    for engine in ("vllm", "sglang", "llama-server"):
        advice = recommend(hardware="gb10", engine=engine, concurrency=16, what_if=False)
        for form in STARTS:
            try:
                text = FORMS[form].write(advice)
            except AdvisorError:
                continue
            (tmp_path / f"{engine}-{FORMS[form].file}").write_text(text, encoding="utf-8")
    told = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", READ, seed, str(tmp_path)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=900,
        )
        told.add(done.stdout)
    assert len(told) == 1 and int(next(iter(told)).split()[0]) >= 15
