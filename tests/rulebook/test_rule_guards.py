"""The index leaves out rules that would say nothing: what it reads from a rule's first lines never
silences one that speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import rulecases

from advisor.domain.nouns import Case
from advisor.domain.vocabulary import RuleRow
from advisor.lint.report import Given
from advisor.lint.validate import understand
from advisor.readers import read_path
from advisor.rules import checking, guards, registry
from advisor.rules.kit import case as nouns
from advisor.rules.kit import flags, policy

FILES = sorted(Path(__file__).parents[1].glob("corpus*/case-*"))
GIVEN = (Given(), Given(hw="gb10", concurrency=16, ctx=8192))


def wrongly_silent_rules(case: Case) -> Iterator[str]:
    """Rules that the index leaves out of a case and that would say something."""
    given = frozenset(flag.name.partition(".")[0] for flag in case.launch.flags)
    for row in registry.index():
        lacks = [name for name in row.needs if not checking.has(case, name)]
        engine = row.engines and case.plan.engine not in row.engines
        if lacks or engine or (row.speculative and case.plan.method == "none"):
            continue
        if not checking.speaks(row, case, given) and list(registry.load_row(row).check(case)):
            yield row.code


@pytest.mark.parametrize("part", range(4))
def test_no_rule_that_speaks_is_left_out(part: int) -> None:
    examples = [*rulecases.doc_cases(), *rulecases.yaml_cases()][part::4]
    assert len(examples) > 200
    wrong = [
        (one.name, code)
        for one in examples
        for case in rulecases.judge(one)
        for code in wrongly_silent_rules(case)
    ]
    assert not wrong


@pytest.mark.parametrize("given", GIVEN)
def test_no_rule_is_left_out_of_a_file_that_it_speaks_on(given: Given) -> None:
    for path in FILES:
        for launch in read_path(str(path)).launches:
            told = understand(launch, given)
            case = Case(facts=told.facts, plan=told.plan, launch=launch)
            assert not list(wrongly_silent_rules(case)), path


def test_many_rules_say_what_they_ask_for() -> None:
    rows = registry.index()
    assert sum(bool(row.options) for row in rows) >= 30
    assert sum(bool(row.methods) for row in rows) >= 30
    assert sum(bool(row.parts) for row in rows) >= 30


def row(**guard: tuple[str, ...]) -> RuleRow:
    return RuleRow("SD999", "x", "error", (), (), False, **guard)


def test_a_rule_speaks_where_all_that_it_asks_for_is_there() -> None:
    path = next(path for path in FILES if path.suffix == ".sh")
    launch = read_path(str(path)).launches[0]
    told = understand(launch, Given(hw="gb10"))
    case = Case(facts=told.facts, plan=told.plan, launch=launch)
    given = frozenset(("--a", "--b"))
    method = case.plan.method
    assert checking.speaks(row(), case, given)
    assert checking.speaks(row(options=("--b", "--z")), case, given)
    assert not checking.speaks(row(options=("--z",)), case, given)
    assert checking.speaks(row(methods=("other", method)), case, given)
    assert not checking.speaks(row(methods=("other",)), case, given)
    assert checking.speaks(row(parts=("facts.hardware", "launch.flags")), case, given)
    assert not checking.speaks(row(parts=("facts.hardware", "facts.request")), case, given)
    assert not checking.speaks(row(options=("--b",), methods=("other",)), case, given)


def guard_of(body: str) -> guards.Guard:
    """What a rule of this body asks for."""
    module = ModuleType("made")
    module.flag, module.has_switch = nouns.flag, nouns.has_switch  # type: ignore[attr-defined]
    module.open_value, module.spec_config = nouns.open_value, flags.spec_config  # type: ignore[attr-defined]
    module.for_advice, module.NAMES = policy.for_advice, ("--n", "--m")  # type: ignore[attr-defined]
    module.other = lambda case, *names: None  # type: ignore[attr-defined]
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return guards.read_guard(
        f'@rule(severity="error")\ndef made(case):\n    "What."\n{lines}\n', module
    )


FIRST_LINES = {
    "found = flag(case, '--x')\nif found is None or found.value:\n    return\nyield 1": (
        guards.Guard(options=("--x",))
    ),
    "found = flag(case, *NAMES)\nif found is not None and found.value:\n    yield 1": (
        guards.Guard(options=("--n", "--m"))
    ),
    "k, v = flag(case, '--k'), flag(case, '--v')\nif k is None and v is None:\n    return": (
        guards.Guard(options=("--k", "--v"))
    ),
    "read = spec_config(case)\nif read is None or read.data is None:\n    return\nyield 1": (
        guards.Guard(options=("--speculative-config",))
    ),
    "if case.plan.method not in ('mtp', 'eagle'):\n    return\nyield 1": (
        guards.Guard(methods=("mtp", "eagle"))
    ),
    "if case.plan.method != 'mtp' or not for_advice(case):\n    return\nyield 1": (
        guards.Guard(methods=("mtp",), parts=("facts.request",))
    ),
    "if has_switch(case, '--x') and case.plan.method == 'mtp':\n    yield 1": (
        guards.Guard(methods=("mtp",), options=("--x",))
    ),
    "hw = case.facts.hardware\nif hw is None or hw.arch != 'x':\n    return\nyield 1": (
        guards.Guard(parts=("facts.hardware",))
    ),
    "if not case.plan.draft_model:\n    return\nif not has_switch(case, *NAMES):\n    return": (
        guards.Guard(options=("--n", "--m"), parts=("plan.draft_model",))
    ),
    "if case.plan.method == 'a' or case.plan.method == 'b':\n    yield 1": (
        guards.Guard(methods=("a", "b"))
    ),
    "if not (flag(case, '--x') or open_value(case, '--y')):\n    return\nyield 1": (
        guards.Guard(options=("--x", "--y"))
    ),
    "for slip in case.launch.slips:\n    yield slip": guards.Guard(parts=("launch.slips",)),
    "x, n = flag(case, '--x'), flag(case, *NAMES)\nif x is None or n is None:\n    return": (
        guards.Guard(options=("--x",))
    ),
}
NO_GUARDS = (
    "yield 1\nif case.plan.method != 'mtp':\n    return",  # it has spoken already
    "found = flag(case, '--x')\nif found is not None:\n    return\nyield 1",  # speaks without it
    "if has_switch(case, '--x'):\n    return\nyield 1",
    "if case.plan.method == 'mtp':\n    return\nyield 1",
    "if case.plan.method != 'mtp' and case.plan.k:\n    return\nyield 1",  # either is enough
    "found = flag(case, '--x')\nif found is None and case.plan.k > 2:\n    return\nyield 1",
    "found = flag(case, '--x')\nif found:\n    yield 1\nelse:\n    yield 2",
    "found = flag(case, '--x')\nif found:\n    yield 1\nyield 2",  # and then something else
    "found = flag(case, '--x')\nfound = 3\nif found is None:\n    return\nyield 1",
    "found, at = flag(case, '--x')\nif found is None:\n    return\nyield 1",
    "found = other(case, '--x')\nif found is None:\n    return\nyield 1",
    "found = flag(case, some_name)\nif found is None:\n    return\nyield 1",
    "if case.plan.max_num_seqs is None:\n    return\nyield 1",  # 0 is a number too
    "if not case.facts.model.is_moe:\n    return\nyield 1",  # of what may be None
    "if case.plan.method < 'mtp':\n    return\nyield 1",
    "found = flag(case, '--x')\nif found is None:\n    yield 0\n    return\nyield 1",
    "for slip in case.launch.slips:\n    pass\nyield 1",
    "try:\n    x = flag(case, '--x')\nexcept ValueError:\n    return\nif x is None:\n    return",
)


@pytest.mark.parametrize("body", FIRST_LINES)
def test_first_lines_are_read(body: str) -> None:
    assert guard_of(body) == FIRST_LINES[body]


@pytest.mark.parametrize("body", NO_GUARDS)
def test_what_asks_for_nothing_is_always_asked(body: str) -> None:
    assert guard_of(body) == guards.Guard()
