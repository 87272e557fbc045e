"""What the rules' fixes write: the expected text in each form, safe ones only by default, nothing
left to do after.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor import engines
from advisor.domain.nouns import AdvisorError, Edit, Finding, Fix
from advisor.lint import fixes
from advisor.lint.apply_fixes import apply_rounds, worse
from advisor.lint.migrate import migrate_launches, rewrite_file
from advisor.lint.report import Report
from advisor.lint.validate import validate
from advisor.readers import read_path, read_text
from advisor.readers.source import SourceText
from tests.refusals import refusals

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = yaml.safe_load(
    (HERE / "fixes" / "cases.yaml").read_text(encoding="utf-8")
)
FILES = sorted((HERE / "corpus").glob("case-*")) + sorted((HERE / "corpus2").glob("case-*"))
TOLD = {"version": "engine_version", "concurrency": "concurrency", "hw": "hw"}


def judge(text: str, name: str, **told: Any) -> Report:
    return validate(text=text, name=name, **told)


def fix(text: str, name: str, unsafe: bool, **told: Any) -> fixes.FileChange:
    """The change that --fix (or --unsafe-fixes) makes of a text."""
    report = judge(text, name, **told)
    return apply_rounds(report.reads[0].source, report, partial(judge, **told), unsafe)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['code']} {row['name']}")
def test_a_fix_writes_what_it_says(row: dict[str, Any]) -> None:
    name = row.get("file", "-")
    told = {TOLD[word]: row[word] for word in TOLD if word in row}
    change = fix(row["text"], name, not row["safe"], select=[row["code"]], **told)
    assert change.text == row["fixed"]
    assert not validate(text=change.text, name=name, select=[row["code"]], **told).findings
    assert fix(change.text, name, True, select=[row["code"]], **told).text == change.text
    if not row["safe"]:
        assert fix(row["text"], name, False, select=[row["code"]], **told).text == row["text"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['code']} {row['name']}")
def test_other_newlines_stay(row: dict[str, Any]) -> None:
    name = row.get("file", "-")
    told = {TOLD[word]: row[word] for word in TOLD if word in row}
    text = row["text"].replace("\n", "\r\n")
    change = fix(text, name, not row["safe"], select=[row["code"]], **told)
    assert change.text == row["fixed"].replace("\n", "\r\n")


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_files_get_better_or_stay(path: Path, unsafe: bool, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    before = validate(str(copy))
    change = apply_rounds(before.reads[0].source, before, judge, unsafe)
    assert fixes.write(change) == (change.text != before.reads[0].source.text)
    after = validate(str(copy))
    assert not worse(before, after)
    was, now = ([one.launch for one in report.launches] for report in (before, after))
    assert [(one.engine, one.model) for one in now] == [(one.engine, one.model) for one in was]
    again = apply_rounds(after.reads[0].source, after, judge, unsafe)
    assert not fixes.write(again)
    old, new = (text.splitlines() for text in (before.reads[0].source.text, change.text))
    assert [one.strip() for one in new if one.strip().startswith("#")] == [
        one.strip() for one in old if one.strip().startswith("#")
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_files_migrate_to_every_release(path: Path) -> None:
    read = read_path(str(path))
    for engine in {launch.engine for launch in read.launches} - {"ik_llama.cpp"}:
        adapter = engines.get(engine)
        for version in adapter.versions:
            try:
                moved = migrate_launches(read, version)
            except AdvisorError as error:
                assert "cannot be said" in str(error)
                continue
            change = rewrite_file(read, moved)
            back = read_text(change.text, read.source.name, version=version)
            assert len(back.launches) == len(read.launches)
            for one in moved:
                written = back.launches[read.launches.index(one.launch)]
                assert is_accepted(one.after, version)
                by_hand = any(
                    flag.unresolved or flag.origin == "python" for flag in one.launch.flags
                )
                assert is_accepted(written, version) or by_hand or (path.stem, version) in BY_HAND
            assert rewrite_file(back, migrate_launches(back, version)).text == change.text


# preset files for builds older than presets
BY_HAND = {("case-118", "4227c9be4"), ("case-121", "4227c9be4")}


def is_accepted(launch: Any, version: str) -> bool:
    """Whether the release takes the launch, but for values that the file leaves to a variable, or
    that no release takes.
    """
    argv = engines.get(launch.engine).argv(launch)
    said = refusals(launch.engine, argv, version)
    return not [one for one in said if "${" not in one and " does not take '" not in one]


LLAMA, DRAFT_MAX = "llama-server -m q.gguf --spec-type draft-mtp\n", "LLAMA_ARG_DRAFT_MAX=8"
SERVE = "python3 -m sglang.launch_server --model-path m/A --speculative-algorithm EAGLE\n"
MIGRATED = [
    (
        *("vllm", "0.25.1"),
        "export VLLM_ATTENTION_BACKEND=FLASHINFER\nexport HF_HOME=/h\nvllm serve m/A --port 1\n",
        "export HF_HOME=/h\nvllm serve m/A --attention-backend FLASHINFER --port 1\n",
    ),
    (
        *("llama-server", "0.5.0", f"{DRAFT_MAX} {LLAMA}"),
        f"LLAMA_ARG_SPEC_DRAFT_N_MAX=8 {LLAMA}",
    ),
    (
        *("llama-server", "0.5.0", f"{DRAFT_MAX} LLAMA_ARG_PORT=1 {LLAMA}"),
        f"LLAMA_ARG_SPEC_DRAFT_N_MAX=8 LLAMA_ARG_PORT=1 {LLAMA}",
    ),
    ("sglang", "0.5.23", f"export SGLANG_ENABLE_SPEC_V2=1\n{SERVE}", SERVE),
]


@pytest.mark.parametrize(("engine", "version", "text", "expected"), MIGRATED)
def test_migration_writes_variables(engine: str, version: str, text: str, expected: str) -> None:
    read = read_text(text)
    assert read.launches[0].engine == engine
    assert rewrite_file(read, migrate_launches(read, version)).text == expected


def test_a_fix_that_makes_things_worse_is_not_made() -> None:
    text = "vllm serve m/A --max-num-seqs 4 --port 1\n"
    source = SourceText(text, "-")
    breaks = Edit(file="-", start=0, end=len("vllm serve"), text="echo")
    works = Edit(file="-", start=text.index("4"), end=text.index("4") + 1, text="8")
    findings = tuple(
        Finding(
            code=code,
            severity="warning",
            message=code,
            file="-",
            fix=Fix(text="t", safe=True, edits=(edit,)),
        )
        for code, edit in (("SD101", breaks), ("SD102", works))
    )
    report = validate(text=text)._replace(findings=findings)
    change = apply_rounds(source, report, judge)
    assert change.text == text.replace("4", "8")
    assert [one.code for one in change.applied] == ["SD102"]
    assert [one.code for one in change.conflicting] == ["SD101"]


def test_places_that_cannot_be_edited_are_left() -> None:
    text = "vllm serve m/A --port ${P:-1} --dtype auto\n"
    start = text.index("--port")
    edit = Edit(file="-", start=start, end=text.index("1}") + 1, text="")
    gone = fixes.shape_edit(text, edit)
    assert gone is not None and fixes.apply(text, [gone]) == "vllm serve m/A --dtype auto\n"
    inner = "vllm serve m/A --port ${P:-${Q:-1}}\n"
    start = inner.index("--port")
    assert (
        fixes.shape_edit(inner, Edit(file="-", start=start, end=inner.index("1}") + 1, text=""))
        is None
    )
    flow = "env: {A: '1', VLLM_USE_V1: '1'}\n"
    at = flow.index("VLLM")
    assert fixes.shape_edit(flow, Edit(file="-", start=at, end=flow.index("'}"), text="")) is None
