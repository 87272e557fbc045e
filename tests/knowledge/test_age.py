"""The day of the facts and the newest releases are stated, and old facts are said to be old."""

import json
import re
from pathlib import Path

import pytest
from cli_run import run

from advisor.cli.serve.html import render
from advisor.knowledge import age

FACTS = Path(__file__).parents[2] / "knowledge"
ASK = ("recommend", "--hw", "gb10")


def test_the_age_is_that_of_the_files() -> None:
    texts = [path.read_text("utf-8") for path in FACTS.glob("measurements/sources/*.yaml")]
    texts.append((FACTS / "sources.yaml").read_text("utf-8"))
    days = re.findall(r"^ *date: ['\"]?(\d{4}-\d\d-\d\d)\b", "\n".join(texts), re.MULTILINE)
    catalogues = [json.loads(path.read_text("utf-8")) for path in FACTS.glob("engines/*.json")]
    newest = {one["engine"]: one["versions"][-1] for one in catalogues if "versions" in one}
    assert age.facts_age() == {"date": max(days), "releases": newest}


@pytest.mark.parametrize(
    ("today", "days"),
    [("2026-11-25", 0), ("2027-01-25", 0), ("2027-01-26", 61), ("2027-02-09", 75)],
)
def test_the_first_screen_says_what_is_older_than_60_days(
    today: str, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"date": "2026-11-26", "releases": {"vllm": "0.33.0", "sglang": "0.5.23"}}
    monkeypatch.setattr(age, "facts_age", lambda: facts)
    monkeypatch.setenv(age.TODAY, today)
    line = f"Facts of 2026-11-26 ({days} days old); newest releases known: vllm 0.33.0"
    screen = run(*ASK).out.splitlines()[:24]
    assert (line in screen) == (f"{line}, sglang 0.5.23" in run("--version").out) == bool(days)
    assert days or not any("days old" in one for one in screen)


def test_the_version_the_json_and_the_page_state_it() -> None:
    facts = age.facts_age()
    assert json.loads(run(*ASK, "--format", "json").out)["facts"] == facts
    assert run("--version").out.splitlines()[1:] == [age.facts_line()]
    assert age.facts_line() in render("problem.html", error="x")
    assert all(f"{name} {value}" in age.facts_line() for name, value in facts["releases"].items())


def test_a_clock_that_is_no_date_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(age.TODAY, "tomorrow")
    assert "write it as YYYY-MM-DD" in run(*ASK).err
