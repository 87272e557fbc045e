"""What each rule tells a user, word for word, of its own cases.

The second part of `tests/rules/sdNNN.yaml` states it by hand for the cases above it and for the
examples of the rule's docstring: severity, message, place, fix and the text that the fix writes,
effect on the decision, sources. Of a case that is not named there the rule must say nothing. No
command writes these statements: a sentence that changes is changed in both places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from rulecases import HERE as CASES
from rulecases import RuleCase, documents, file_cases, judge, rule_examples

from advisor.domain.nouns import Edit, Finding, Skipped
from advisor.lint import fixes
from advisor.rules import check, get_rule
from advisor.rules.registry import index

CODES = [row.code for row in index()]
Told = dict[str, Any]


@pytest.mark.parametrize("code", CODES)
def test_a_rule_says_what_is_stated(code: str) -> None:
    _, stated = documents(CASES / f"{code.lower()}.yaml")
    named = list(own_cases(code))
    cases = dict(named)
    assert len(cases) == len(named), "two cases of one name"
    assert not stated.keys() - cases.keys(), "stated of a case that does not exist"
    for name, case in cases.items():
        told = [one for launch in judge(case) for one in describe_launch(code, launch, case.text)]
        expected = [complete(code, row) for row in stated.get(name, [])]
        assert [blank_fractions(one) for one in told] == [
            blank_fractions(one) for one in expected
        ], name
        for one, row in zip(told, expected, strict=True):
            assert numbers(one) == pytest.approx(numbers(row), rel=0.03), name


def own_cases(code: str) -> Iterator[tuple[str, RuleCase]]:
    """The examples of a rule and the cases of its file, each with its name there."""
    bad, good = rule_examples(get_rule(code))
    yield "Bad", bad
    yield "Good", good
    path = CASES / f"{code.lower()}.yaml"
    for case in file_cases(path):
        yield case.name.removeprefix(f"{path.stem}-"), case


def describe_launch(code: str, launch: Any, text: str) -> list[Told]:
    """What the rule says of one launch: its findings, and what it lacks to judge."""
    findings, skipped = check(launch, select=[code])
    return [describe(one, text) for one in findings] + [describe_skip(one) for one in skipped]


def describe(found: Finding, text: str) -> Told:
    """A finding as its author would state it; parts that say nothing are left out."""
    fix = found.fix
    place = f"line {found.line}" + (f", {found.flag}" if found.flag else "")
    told: Told = {"at": place, "severity": found.severity, "says": found.message}
    if fix is not None:
        shaped = [fixes.shape_edit(text, edit) for edit in fix.edits]
        edits = [change(edit, text) for edit in shaped if edit is not None]
        told |= {"fix": fix.text, "safe": fix.safe, "edits": edits}
    told |= {"effect": found.effect, "strength": found.strength}
    told |= {"k_max": found.k_max, "k_best": found.k_best}
    told |= {"sources": list(found.sources), "conflicts": list(found.conflicts)}
    return told


def describe_skip(skipped: Skipped) -> Told:
    return {"lacks": list(skipped.needs)}


def change(edit: Edit, text: str) -> str:
    """What an edit writes, with the word before it: `--split-mode [tensor -> layer]`."""
    before = re.search(r"\S*\s*$", text[: edit.start])
    assert before is not None
    return f"{before[0]}[{text[edit.start : edit.end]} -> {edit.text}]".lstrip()


def complete(code: str, row: Told) -> Told:
    """A statement with what is usual and therefore not written out."""
    if "lacks" in row:
        return row
    declared = get_rule(code)
    usual: Told = {"at": "line 1", "severity": declared.severity}
    if "fix" in row:
        usual |= {"safe": False, "edits": []}
    usual |= {"effect": None, "strength": 1.0, "k_max": None, "k_best": None}
    return usual | {"sources": list(declared.sources), "conflicts": []} | row


# Gibibytes, rates and thousands of tokens in a sentence follow from facts that are read again: 3 %
# either way is the same statement. Other whole numbers are exact.
_FRACTION = re.compile(r"(?<![\w.])(?:\d+\.\d+|\d+(?:,\d{3})+)(?![\w.]\d|\w)")


def blank_fractions(told: Told) -> Told:
    """The statement with its decimal fractions blanked; they are compared apart."""
    return {
        key: _FRACTION.sub("#", value) if key in ("says", "fix") else value
        for key, value in told.items()
        if key != "strength"
    }


def numbers(told: Told) -> list[float]:
    """The decimal fractions of a statement in their order."""
    texts = f"{told.get('says', '')} {told.get('fix', '')}"
    found = [float(one.replace(",", "")) for one in _FRACTION.findall(texts)]
    return found + [told.get("strength", 0.0)]


def test_every_rule_has_its_cases() -> None:
    assert sorted(path.stem.upper() for path in CASES.glob("*.yaml")) == CODES
