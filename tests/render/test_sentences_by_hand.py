"""Sentences of a first screen and of a report: by_hand.yaml has them beside what they follow from;
and schemas that speak JSON Schema and name every key that is printed.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice.explore.values import Within
from advisor.domain.nouns import Edit, Finding, Fix, Interval, Objective, Skipped
from advisor.lint.report import Failure
from advisor.lint.validate import validate
from advisor.render.findings.hosts import report_github, report_sarif, uri
from advisor.render.findings.json_out import report_json
from advisor.render.findings.text import (
    describe_launch,
    place,
    report_text,
    skipped_lines,
    summary,
)
from advisor.render.layout import Paper, within_lines
from advisor.render.notes import goal_note, reach, unknown_checkpoint
from advisor.render.objects import SCHEMAS, inline, named_schema
from advisor.render.verdict import kernel_words, objective_words, verdict
from tests.tables import load_yaml

TEXTS = load_yaml(Path(__file__).with_name("by_hand.yaml"))["sentences"]


@pytest.mark.parametrize(("about", "gain", "estimate", "text"), TEXTS["verdict"])
def test_the_verdict_says_how_much_how_sure_and_what_decided(
    about: dict[str, Any], gain: list[float] | None, estimate: dict[str, Any], text: str
) -> None:
    made = cases.estimate()
    first = estimate.pop("ttft", None)
    if first is not None:
        speed = Interval(p10=first, p50=first, p90=first)
        made = made.replace(ttft_ms=made.ttft_ms.replace(speedup=speed))
    size = Interval(p10=gain[0], p50=gain[1], p90=gain[2]) if gain else None
    assert verdict(cases.on(**about, gain=size, estimate=made.replace(**estimate))) == text


@pytest.mark.parametrize(("asked", "decision", "text"), TEXTS["objective"])
def test_limits_are_met_or_missed_by_chance(
    asked: dict[str, Any], decision: str, text: str
) -> None:
    objective = Objective(**{"max_tpot_ms": None, "max_ttft_ms": None} | asked)
    assert objective_words(cases.on(objective=objective, decision=decision)) == text


@pytest.mark.parametrize(
    ("engine", "arch", "requests", "told"),
    [("llama-server", "sm_86", 8, True), ("llama-server", "sm_86", 1, False),
     ("llama-server", "sm_86", 512, False), ("llama-server", "sm_89", 8, False),
     ("vllm", "sm_86", 8, False)],
)  # fmt: skip
def test_llama_kernels_end_at_eight(engine: str, arch: str, requests: int, told: bool) -> None:
    """MMVQ_MAX_BATCH_SIZE in ggml-cuda; the dispatch for Ada (sm_89) was tuned."""
    facts = cases.FACTS.replace(hardware=cases.HARDWARE.replace(arch=arch))
    words = kernel_words(facts, cases.plan(2, engine=engine), requests)
    assert ("8 tokens a step: speeds jump from 8 to 9 requests" in words) is told
    assert kernel_words(facts, None, requests) == ""


@pytest.mark.parametrize(("plan", "words"), TEXTS["reach"])
def test_who_reaches_a_launch(plan: dict[str, Any], words: str) -> None:
    assert reach(cases.on(plan=cases.plan(2, **plan))) == words


def test_what_is_not_known_to_be_published_is_to_be_looked_up_or_converted() -> None:
    assert unknown_checkpoint(cases.on()) == "no fp8 checkpoint is known: see its model card"
    own = cases.on(request=cases.REQUEST.replace(model="acme/Mine-27B"))
    told = "no fp8 file of acme/Mine-27B is known: convert it"
    assert unknown_checkpoint(own) == f"{told} with its MTP head"
    assert unknown_checkpoint(own.replace(plan=cases.plan(0))) == told
    assert goal_note(cases.on()) == ""


def test_users_within_are_told_where_none_or_all_are_served() -> None:
    none = Within(method="none", k=0, likely=None, p=None, sure=None)
    every = Within(method="mtp", k=2, likely=None, likely_bound="search", p=0.99, sure=None,
                   sure_bound="search")  # fmt: skip
    few = Within(method="mtp", k=1, likely=169, p=0.5, sure=98)
    one = few.replace(k=3, sure=97)
    for within, last in (
        ((none,), "Not even one user is served with 90 %."),
        ((none, every), "k=2 serves users at every load tried with 90 %, none 0."),
        ((none, few, one), "k=1 serves 98 users with 90 %, none 0, k=3 97."),
    ):
        assert within_lines(within, Paper())[-1] == f"- {last}"


def test_a_file_is_named_as_a_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    inside, outside = f"{tmp_path}/in/a b.sh", f"{tmp_path}/other/a#.sh"
    names = ("", "-", "x/a,b.sh", inside, outside)
    assert [uri(name) for name in names] == [
        "stdin", "stdin", "x/a%2Cb.sh", "a%20b.sh", f"{tmp_path}/other/a%23.sh",
    ]  # fmt: skip


def test_a_schema_without_references_holds_what_they_named() -> None:
    schema = {"$id": "i", "$defs": {"a": {"type": "string"}, "b": {"items": {"$ref": "#/$defs/a"}}},
              "anyOf": [{"$ref": "#/$defs/b", "description": "x"}, {"type": "null"}]}  # fmt: skip
    whole = {"items": {"type": "string"}, "description": "x"}
    assert inline(schema) == {"anyOf": [whole, {"type": "null"}]}


EDITS = (Edit(file="a,b.sh", start=0, end=1, text="x"),)
FOUND = [
    Finding(code="SD101", slug="unknown-flag", severity="error", message="no such option",
            file="a,b.sh", line=3, column=5, sources=("a/b#1", "two", "three", "four"),
            fix=Fix(text="write it so", edits=EDITS),
            conflicts=("others say so",)),
    Finding(code="SD203", severity="info", message="as well", file="a,b.sh", line=4,
            sources=("two",), fix=Fix(text="as before", edits=EDITS)),
    Finding(code="SD300", severity="warning", message="alone", fix=Fix(text="by hand")),
    *(Finding(code=code, severity=severity, message="one of two", file="d.sh", line=1,
              fix=Fix(text="so", safe=True, edits=(Edit(file="d.sh", start=0, end=2, text="y"),)))
      for code, severity in (("SD302", "warning"), ("SD301", "error"))),
]  # fmt: skip


def report(**more: Any) -> Any:
    about = {"failures": [Failure("c.yaml", "unreadable", "c.yaml: not YAML", 7)], "reads": [],
             "findings": FOUND, "launches": [], "skipped": [], "files": [], "cut_short": False,
             "printer": lambda: str, "cleaner": lambda: str}  # fmt: skip
    return SimpleNamespace(**about | more)


@pytest.mark.parametrize("verbose", [False, True])
def test_a_report_tells_place_fix_and_sources(verbose: bool) -> None:
    assert report_text(report(), verbose=verbose) == TEXTS["report"][verbose]
    coloured = report_text(report(), color=True, verbose=verbose)
    for name, color in (("error", 31), ("warning", 33)):
        assert f": \x1b[{color}m{name}\x1b[0m SD" in coloured
    assert [place(one) for one in FOUND] == [
        "a,b.sh:3:5", "a,b.sh:4", "-", "d.sh:1", "d.sh:1",
    ]  # fmt: skip


def test_code_hosts_get_the_same_findings() -> None:
    assert report_github(report()) + "\n" == TEXTS["github"]
    (run,) = report_sarif(report(findings=FOUND[1::-1]))["runs"]
    assert run["results"] == TEXTS["sarif"]["results"]
    assert run["invocations"] == TEXTS["sarif"]["invocations"]
    rules = [(one["id"], one.get("helpUri", "")[:8]) for one in run["tool"]["driver"]["rules"]]
    assert rules == [("SD101", ""), ("SD203", "https://")]


@pytest.mark.parametrize(("fields", "text"), TEXTS["launches"])
def test_a_launch_is_described_in_a_line(fields: dict[str, Any], text: str) -> None:
    launch = {"engine": "vllm", "engine_version": None, "version_text": None, "fork": None,
              "version_pinned": True, "model": None, "container": None,
              "flags": (), "flag": lambda _: None}  # fmt: skip
    plan = cases.plan(fields.pop("k", 0)).replace(**fields.pop("plan", {}))
    made: Any = SimpleNamespace(launch=SimpleNamespace(**launch | fields), plan=plan, speculates=1,
                                facts=cases.FACTS)  # fmt: skip
    assert describe_launch(made) == text


@pytest.mark.parametrize(("skipped", "verbose", "lines"), TEXTS["skipped"])
def test_rules_without_facts_are_told(skipped: list[Any], verbose: bool, lines: list[str]) -> None:
    rows = [Skipped(code, tuple(needs), "a") for code, needs in skipped]
    assert skipped_lines(report(skipped=rows), verbose) == lines


@pytest.mark.parametrize(("severities", "launches", "ignored", "cut", "text"), TEXTS["summary"])
def test_a_report_ends_with_its_counts(
    severities: list[Any], launches: int, ignored: list[int], cut: bool, text: str
) -> None:
    made = report(
        findings=[FOUND[0].replace(severity=one) for one in severities], launches=[0] * launches,
        files=[SimpleNamespace(suppressed=count) for count in ignored], cut_short=cut,
    )  # fmt: skip
    assert summary(made) == text


KEYWORDS = {*TEXTS["keywords"].split()}
TYPES = {"null", "boolean", "object", "array", "number", "integer", "string"}


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema of a schema, the names of its properties left out."""
    if isinstance(node, dict):
        yield node
        for key, value in node.items():
            inner = value.values() if key in ("properties", "$defs") else [value]
            for part in inner if key not in ("enum", "const", "default", "examples") else ():
                yield from schemas_in(part)
    for part in node if isinstance(node, list) else ():
        yield from schemas_in(part)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_speaks_json_schema(name: str) -> None:
    """An unknown keyword is no error of the standard: it is not looked at."""
    for schema in schemas_in(named_schema(name)):
        kinds = schema.get("type", "null")
        assert {*([kinds] if isinstance(kinds, str) else kinds)} <= TYPES and {*schema} <= KEYWORDS
        assert {*schema.get("required", ())} <= {*schema.get("properties", ())}


def test_the_schema_of_a_report_names_every_key_that_is_printed() -> None:
    text = "vllm serve Qwen/Qwen3-8B --max-num-sqes 4  # advisor: ignore SD238\n"
    lists = named_schema("validate")["properties"]
    told = report_json(validate(text=text, name="a.sh"))
    for key, rows in told.items():
        assert rows and {*rows[0]} - {"plan"} <= {*lists[key]["items"]["properties"]}, key
    launch = {*lists["launches"]["items"]["properties"]}
    assert launch == {*told["launches"][0]} | {"estimate", "recommend"}
