"""What each rule tells a user of its own cases, as `tests/rules/sdNNN.yaml` states it by hand.

Stated are severity, place, what the fix writes, effect on the decision, sources, and of sentences
the words that matter (numbers, names, flags), in their order. Of a case that states nothing the
rule must say nothing.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from rulecases import HERE as CASES
from rulecases import RuleCase, file_cases, judge, rows, rule_examples, statement

from advisor.domain.nouns import Edit, Finding, Skipped
from advisor.lint import fixes
from advisor.rules import check, get_rule
from advisor.rules.registry import index

CODES = [row.code for row in index()]
# Fractions and thousands follow from facts that are read again: 3 % either way is the same.
SAME = 0.03
Row = dict[str, Any]


@pytest.mark.parametrize("code", CODES)
def test_a_rule_says_what_is_stated(code: str) -> None:
    cases = list(own_cases(code))
    assert len({case.name for case in cases}) == len(cases), "two cases of one name"
    for case in cases:
        expected = [complete(code, row) for row in case.stated]
        answers = [check(launch) for launch in judge(case)]
        found = [row for answer in answers for row in describe(code, *answer, case.text)]
        differing = differences(found, expected)
        assert not differing, f"{case.name}: {differing}"
        severities = {(f.code, f.severity) for findings, _ in answers for f in findings}
        codes = {code for code, _ in severities}
        assert set(case.expect) <= codes, f"{case.name}: missing {set(case.expect) - codes}"
        assert not set(case.never) & codes, f"{case.name}: unexpected {set(case.never) & codes}"
        assert case.severities.items() <= severities, f"{case.name}: {severities}"


def own_cases(code: str) -> Iterator[RuleCase]:
    """The examples of a rule and the cases of its file."""
    path = CASES / f"{code.lower()}.yaml"
    named = {row["name"]: statement(row) for row in rows(path) if "text" not in row}
    assert named.keys() <= {"Bad", "Good"}, f"cases without a text: {sorted(named)}"
    bad, good = rule_examples(get_rule(code))
    yield bad._replace(stated=named.get("Bad", ()))
    yield good._replace(stated=named.get("Good", ()))
    yield from file_cases(path)


def describe(
    code: str, findings: Sequence[Finding], skipped: Sequence[Skipped], text: str
) -> list[Row]:
    """What the rule says of one launch: its findings, and what it lacks to judge."""
    lacking: list[Row] = [{"lacks": " ".join(one.needs)} for one in skipped if one.code == code]
    return [describe_finding(one, text) for one in findings if one.code == code] + lacking


def describe_finding(finding: Finding, text: str) -> Row:
    """A finding with every part that can be stated."""
    row: Row = {key: getattr(finding, key) for key in ("severity", "effect", "strength")}
    row |= {"at": f"{finding.line} {finding.flag or ''}".strip(), "words": finding.message}
    row |= {"k_max": finding.k_max, "k_best": finding.k_best}
    row |= {"sources": list(finding.sources), "conflicts": list(finding.conflicts)}
    if fix := finding.fix:
        shaped = [fixes.shape_edit(text, edit) for edit in fix.edits]
        row |= {"fix": fix.text, "safe": fix.safe}
        row |= {"edits": [change(edit, text) for edit in shaped if edit is not None]}
    return row


def change(edit: Edit, text: str) -> str:
    """What an edit writes, with the word before it: `--split-mode [tensor -> layer]`."""
    before = re.search(r"\S*\s*$", text[: edit.start])
    return f"{before[0]}[{text[edit.start : edit.end]} -> {edit.text}]".lstrip()


def complete(code: str, row: Row) -> Row:
    """A statement with what is usual and therefore not written out."""
    if "lacks" in row:
        return row
    declared = get_rule(code)
    usual: Row = {"severity": declared.severity, "effect": None, "strength": 1.0}
    usual |= {"k_max": None, "k_best": None, "sources": list(declared.sources), "conflicts": []}
    if "edit" in row:
        usual["edits"] = [row["edit"]]
    if row.keys() & {"fix", "edit", "edits"}:
        usual = {"safe": False, "edits": [], "fix": ""} | usual
    stated_parts = {key: value for key, value in row.items() if key != "edit"}
    return usual | stated_parts | {"at": str(row.get("at", 1))}


def differences(found: list[Row], expected: list[Row]) -> list[str]:
    """What differs between findings and statements, in words."""
    if len(found) != len(expected):
        return [f"{len(found)} findings, {len(expected)} stated: {found}"]
    pairs = zip(found, expected, strict=True)
    return [
        f"{key}: {row.get(key)!r} is not {want.get(key)!r}"
        for row, want in pairs
        for key in sorted(row.keys() | want.keys())
        if not agrees(key, row.get(key), want.get(key))
    ]


def agrees(key: str, value: Any, want: Any) -> bool:
    """Whether a part of a finding is as stated."""
    if key in ("words", "fix") and None not in (value, want):
        return has_words(value, str(want))
    return math.isclose(value, want, rel_tol=SAME) if key == "strength" else value == want


def has_words(text: str, words: str) -> bool:
    """Whether the words stand in the text in this order."""
    tokens = iter(strip(word) for word in text.split())
    return all(any(same(token, word) for token in tokens) for word in words.split())


def same(token: str, word: str) -> bool:
    if re.fullmatch(r"\d+\.\d+|\d+(,\d{3})+", word) and re.fullmatch(r"[\d.,]+", token):
        return math.isclose(*(float(text.replace(",", "")) for text in (token, word)), rel_tol=SAME)
    return token == word


def strip(word: str) -> str:
    return word.strip(".,;:()'\"`!?")


def test_every_rule_has_its_cases() -> None:
    assert sorted(path.stem.upper() for path in CASES.glob("*.yaml")) == CODES


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("--max-num-seqs 8 16.2", True), ("--max-num-seqs 9 16.2", False),
        ("8 --max-num-seqs", False), ("--max-num-seq", False), ("16.5", True), ("17.2", False),
    ],
)  # fmt: skip
def test_words_are_whole_exact_and_in_order(words: str, fits: bool) -> None:
    assert has_words("Set --max-num-seqs to 8: it takes 16.2 GiB.", words) is fits
