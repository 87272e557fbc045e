"""The index leaves out rules that would say nothing: the options that a rule declares never
silence one that speaks.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import rulecases

from advisor.domain.nouns import Case
from advisor.domain.vocabulary import RuleRow
from advisor.lint.report import Given
from advisor.lint.validate import understand
from advisor.readers import read_path
from advisor.rules import checking, registry
from tests.tables import spread

FILES = sorted(Path(__file__).parents[1].glob("corpus*/case-*"))
GIVEN = (Given(), Given(hw="gb10", concurrency=16, ctx=8192))


def wrongly_silent_rules(case: Case) -> Iterator[str]:
    """Rules that the index leaves out of a case and that would say something."""
    given = frozenset(flag.name.partition(".")[0] for flag in case.launch.flags)
    for row in registry.index():
        lacks = [name for name in row.needs if not checking.has(case, name)]
        engine = row.engines and case.plan.engine not in row.engines
        method = row.methods and case.plan.method not in row.methods
        if lacks or engine or method or (row.speculative and case.plan.method == "none"):
            continue
        if not checking.speaks(row._replace(parts=()), case, given) and list(
            registry.load_row(row).check(case)
        ):
            yield row.code


@pytest.mark.parametrize("part", spread(range(4), 4))
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


@pytest.mark.parametrize("given", spread([(given,) for given in GIVEN], 2))
def test_no_rule_is_left_out_of_a_file_that_it_speaks_on(given: Given) -> None:
    for path in FILES:
        for launch in read_path(str(path)).launches:
            known = understand(launch, given)
            case = Case(facts=known.facts, plan=known.plan, launch=launch)
            assert not list(wrongly_silent_rules(case)), path


def row(**guard: tuple[str, ...]) -> RuleRow:
    return RuleRow("SD999", "x", "error", (), (), False, "sd1.x", **guard)


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
