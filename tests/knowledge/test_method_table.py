"""The launch of each way of drafting, for the models most served: written down, taken by the
catalogue of the engine's arguments, and none left out.
"""

from pathlib import Path

import pytest

from advisor import recommend
from advisor.advice import judge
from tests import method_table
from tests.tables import spread

WRITTEN = (Path(__file__).parents[2] / "docs" / "drafters.md").read_text(encoding="utf-8")
DRAFTING = [model for model in method_table.top_models() if method_table.words_of(model)]


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert method_table.table() == WRITTEN, "python -m tests.method_table > docs/drafters.md"


@pytest.mark.parametrize("model", spread(DRAFTING, 6))
def test_no_published_way_is_left_out(model: str) -> None:
    """Each head and drafter has a launch, on the page, without an unknown flag, value, key or
    combination (SD1xx), and its model is never answered "nothing drafts".
    """
    engines = []
    for word in method_table.words_of(model):
        ways = [method_table.way(model, word, engine) for engine in method_table.RELEASES]
        planned = [way for way in ways if way.plan is not None and way.facts is not None]
        assert planned and all(f" {way.cell()} |" in WRITTEN for way in ways)
        for way in planned:
            found = judge.judge(way.facts, way.plan, None).findings
            assert not [f"{f.code} {f.message}" for f in found if f.severity == "error"], way.engine
        engines += [way.engine for way in planned]
    answer = recommend(**method_table.MACHINE, model=model, engine=engines[0], what_if=False)
    assert answer.candidate is not None and answer.decided_by != "no_method"
